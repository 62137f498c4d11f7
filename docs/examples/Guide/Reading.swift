import CoreMetrics
import Foundation
import Logging
import MetricsTestKit
import Opportune

/// Jobs that block, a long one, and one that does not end; then what is told of them.
func reading() async throws {
  LoggingSystem.bootstrap { StreamLogHandler.standardError(label: $0) }
  let backend = TestMetrics()  // in place of Prometheus or another
  MetricsSystem.bootstrap(backend)

  var configuration = SchedulerConfiguration()
  configuration.workers = .fixed(1)
  let scheduler = try Scheduler(configuration: configuration, logger: Logger(label: "guide"))
  let app = try scheduler.makeApp(named: "app")
  var reporter = MetricsReporter()  // SchedulerService calls one every ten seconds

  let semaphore = DispatchSemaphore(value: 0)
  for _ in 0..<4 { try app.submit { semaphore.wait() } }  // blocks the thread; an await would not
  await app.task(name: "after them") { for _ in 0..<4 { semaphore.signal() } }.value

  await app.task(name: "long") {  // computes for longer than its quantum, 10 ms
    let end = clock() + CLOCKS_PER_SEC / 10
    while clock() < end {}
  }.value

  try app.submit { semaphore.wait() }  // one that does not end
  do {
    try await scheduler.shutdown(within: .milliseconds(10))
  } catch {
    print("shutdown: \(error.code)")  // the logger says so, too
    semaphore.signal()
  }

  let statistics = await scheduler.statistics()
  reporter.report(statistics)
  let foreground = app.statistics.counts(in: .foreground)
  print("ran: \(foreground.jobs > 0), CPU time: \(foreground.cpuTime > .milliseconds(10))")
  print("demoted: \(foreground.demotions > 0)")
  print("workers replaced: \(statistics.pools.contains { $0.replaced > 0 })")
  print("lock inversions: \(statistics.lockInversions)")
  print("reported: \(backend.counterTotal(label: "opportune_demotions") > 0)")
}
