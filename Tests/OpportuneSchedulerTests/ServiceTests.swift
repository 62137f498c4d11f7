import CoreMetrics
import MetricsTestKit
import ServiceLifecycle
import ServiceLifecycleTestKit
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded, .timeLimit(.minutes(3))) struct ServiceTests {
  private func run(_ count: Int, in app: App) async throws {
    let ran = Record<Int>()
    for number in 0..<count { try app.submit { ran.add(number) } }
    _ = await ran.reaching(count)
  }

  /// A snapshot with all that ran before it: workers hand in their counts when they park.
  private func snapshot(_ scheduler: Scheduler, jobs: UInt64) async -> SchedulerStatistics {
    while true {
      let statistics = await scheduler.statistics()
      if statistics.apps.reduce(0, { $0 + ($1.name == "first" ? 0 : $1.jobs) }) >= jobs { return statistics }
      await Task.yield()
    }
  }

  // R-CARD-07
  @Test func countersAreWhatWasAddedSinceTheLastReport() async throws {
    let scheduler = try makeScheduler(workers: 1)
    let apps = try ["a", "b", "b"].map { try scheduler.makeApp(named: $0) }
    let metrics = TestMetrics()
    var reporter = MetricsReporter(to: metrics)
    // A worker that has not slept yet needs no waking.
    let first = try scheduler.makeApp(named: "first")
    while await scheduler.statistics().pools.reduce(0, { $0 + $1.wakeups }) == 0 {
      try await run(1, in: first)
    }
    for app in apps { try await run(10, in: app) }
    reporter.report(await snapshot(scheduler, jobs: 30))
    func jobs(_ app: String, _ band: Band) -> Int64 {
      metrics.counterTotal(label: "opportune_jobs", dimensions: [("app", app), ("band", "\(band)")])
    }
    #expect(jobs("a", .foreground) == 10)
    #expect(jobs("b", .foreground) == 20, "apps of one name add up")
    reporter.report(await scheduler.statistics())
    #expect(jobs("a", .foreground) == 10 && jobs("b", .foreground) == 20, "nothing was added")

    // What it does from now on is counted for its new band, and nothing twice.
    try apps[0].setBand(.background)
    try await run(5, in: apps[0])
    reporter.report(await snapshot(scheduler, jobs: 35))
    #expect(jobs("a", .foreground) == 10 && jobs("a", .background) == 5)
    #expect(metrics.counterTotal(label: "opportune_cpu_nanoseconds") > 0)
    #expect(try metrics.expectGauge("opportune_queue_bytes").lastValue ?? 0 > 0)
    let pool = [("pool", "foreground")]
    #expect(metrics.counterTotal(label: "opportune_wakeups", dimensions: pool) > 0)
    #expect(try metrics.expectGauge("opportune_workers_working", pool).lastValue != nil)
    #expect(try metrics.expectGauge("opportune_workers_demoted", pool).lastValue == 0)
    // One in eight is measured, drawn: of so many some.
    try await run(400, in: apps[1])
    reporter.report(await snapshot(scheduler, jobs: 435))
    let wait = [("app", "b"), ("band", "foreground"), ("quantile", "0.99")]
    #expect(try metrics.expectGauge("opportune_wait_nanoseconds", wait).lastValue ?? 0 > 0)
    try await scheduler.shutdown()
  }

  // R-CARD-07
  @Test func gracefulShutdownReportsAndShutsDown() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let metrics = TestMetrics()
    // An interval that never ends: what is reported is reported on the way out.
    let service = SchedulerService(scheduler, reportingEvery: .seconds(3600), metrics: metrics)
    let cancelled = Record<Int>()
    let ended = try await testGracefulShutdown { trigger in
      try await withThrowingTaskGroup(of: Bool.self) { group in
        group.addTask {
          try await service.run()
          return true
        }
        try await run(20, in: app)
        _ = await snapshot(scheduler, jobs: 20)
        app.suspend()
        try app.submit(onCancel: { cancelled.add(0) }, {})
        trigger.triggerGracefulShutdown()
        return try await group.next()
      }
    }
    #expect(ended == true)
    #expect(metrics.counterTotal(label: "opportune_jobs") == 20)
    #expect(cancelled.count == 1)
    #expect(throws: SchedulerError.self) { try app.submit {} }
  }

  // R-CARD-07
  @Test func serviceOfASchedulerThatWasShutDownEndsWithAnError() async throws {
    let scheduler = try makeScheduler(workers: 1)
    let service = SchedulerService(scheduler, reportingEvery: .seconds(3600), metrics: TestMetrics())
    let running = Task { try await service.run() }
    try await scheduler.shutdown()
    let error = await #expect(throws: SchedulerError.self) { try await running.value }
    #expect(error?.code == .shutDown)
  }
}
