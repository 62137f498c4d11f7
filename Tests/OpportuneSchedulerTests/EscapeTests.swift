import COpportune
import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

/// The app whose worker the caller runs on, by name; nil on other threads.
private func runningApp() -> String? {
  opp_thread_worker().flatMap { Unmanaged<Worker>.fromOpaque($0).takeUnretainedValue().app?.name }
}

/// In a process of its own, where nobody hears an expectation: names what does not hold and ends the process.
/// The hook is the whole process's and stays: each test has a process of its own.
@Suite(.bounded, .timeLimit(.minutes(3))) struct EscapeTests {
  @Test func escapesAreCountedWhereThatIsAskedFor() async {
    await #expect(processExitsWith: .exitCode(7)) {
      var configuration = SchedulerConfiguration()
      configuration.countsEscapes = true
      let scheduler = try Scheduler(configuration: configuration)
      let app = try scheduler.makeApp(named: "app")
      let quiet = try scheduler.makeApp(named: "quiet")
      // Children stay; these leave.
      let left = Record<String?>()
      // From a task that is not older than the hook, and that apps' work resumes time and again.
      await Task.detached {
        for _ in 0..<10 {
          _ = await app.task {
            async let child: Void = Task.yield()
            await child
            Task { left.add(runningApp()) }
          }.result
          _ = await quiet.task { await Task.yield() }.result
        }
      }.value
      let places = await left.reaching(10)
      require(places.allSatisfy { $0 == nil }, "they run in the global pool, not in \(places)")
      require(app.statistics.escapes == 10, "ten escaped, not \(app.statistics.escapes)")
      require(quiet.statistics.escapes == 0, "none of the other app's, not \(quiet.statistics.escapes)")
      require(await scheduler.statistics().escapes == 10, "ten in all")
      try await scheduler.shutdown()
      exit(7)
    }
  }
}
