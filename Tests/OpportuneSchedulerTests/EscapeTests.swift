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
  // R-CARD-07
  @Test func defaultExecutorRunsTasksWhereTheyWereStarted() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let scheduler = try makeScheduler(workers: 2)
      let own = try scheduler.makeApp(named: "own")
      let other = try scheduler.makeApp(named: "other", band: .background)
      let before = await Task.detached { runningApp() }.value
      require(before == nil, "before, the global pool runs what nobody's executor takes; not \(before ?? "")")
      try scheduler.becomeDefaultExecutor(for: own)

      let fromOutside = await Task.detached { runningApp() }.value
      require(
        fromOutside == "own",
        "a task from outside runs in the app that was named, not in \(fromOutside ?? "none")")
      for app in [own, other] {
        let started = Record<String?>()
        try app.submit { Task { started.add(runningApp()) } }
        try app.submit { Task.detached { started.add(runningApp()) } }
        let names = await started.reaching(2)
        require(names == [app.name, app.name], "\(app.name) runs what it starts, not \(names)")
      }
      // Whoever resumes it, it stays where it was started.
      let resumed = Record<String?>()
      try other.submit {
        Task {
          for _ in 0..<10 {
            _ = await own.task {}.result
            resumed.add(runningApp())
          }
        }
      }
      require(await resumed.reaching(10).allSatisfy { $0 == "other" }, "\(resumed.values) are other's")
      require(await scheduler.statistics().escapes == 0, "nothing escapes")

      do throws(SchedulerError) {
        try scheduler.becomeDefaultExecutor(for: other)
        require(false, "a second app is refused")
      } catch {
        require(error.code == .defaultExecutorTaken, "\(error)")
      }

      // A thread that is ending has no source any more: its tasks go to the global pool, once.
      let late = Record<String?>()
      try own.submit {}
      let key = ThreadEnd()
      await onThread {
        Task.detached {}
        key.atEnd { Task.detached { late.add(runningApp()) } }
      }
      require(await late.reaching(1) == [nil], "a thread that is ending passes its tasks on")

      try await scheduler.shutdown()
      let after = await Task.detached { runningApp() }.value
      require(after == nil, "afterwards the global pool runs tasks again, not \(after ?? "")")
      exit(7)
    }
  }

  // R-CARD-07
  @Test func withoutTheHookNothingIsTakenOver() async throws {
    let scheduler = try makeScheduler(workers: 1)
    let app = try scheduler.makeApp(named: "app")
    let error = #expect(throws: SchedulerError.self) {
      try scheduler.becomeDefaultExecutor(for: app, hooked: false)
    }
    #expect(error?.code == .runtimeHookMissing)
    #expect(error?.message.contains("swift_task_enqueueGlobal_hook") == true)
    #expect(await Task.detached { runningApp() }.value == nil)
    try await scheduler.shutdown()
  }

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
