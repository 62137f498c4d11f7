import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct IdleTests {
  /// How often threads with names that begin with `prefix` have got or given up a CPU, by thread.
  private func switches(of prefix: String) throws -> [String: Int] {
    var switches: [String: Int] = [:]
    for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
      guard let status = try? String(contentsOfFile: "/proc/self/task/\(thread)/status", encoding: .utf8),
        status.hasPrefix("Name:\t\(prefix)")
      else { continue }
      let counts = status.split(separator: "\n").filter { $0.contains("ctxt_switches:") }
      switches[thread] = counts.compactMap { $0.split(separator: "\t").last.flatMap { Int($0) } }.reduce(0, +)
    }
    return switches
  }

  // R-CARD-01
  /// Law 5: nobody wakes up without work, a monitor that watched hogs and sleepers included, nor for a sleep
  /// that was cancelled.
  @Test func aSchedulerWithoutWorkDoesNotWakeUp() async throws {
    let scheduler = try Scheduler(configuration: SchedulerConfiguration(workers: 2) { $0.name = "atrest" })
    let apps = [
      try scheduler.makeApp(named: "front"), try scheduler.makeApp(named: "back", band: .background),
    ]
    for app in apps {
      await app.task { spinCPU(milliseconds: 25) }.value
      let sleeper = app.task { try await app.clock.sleep(for: .milliseconds(300)) }
      while await scheduler.statistics().timers == 0 { await Task.yield() }
      sleeper.cancel()
      _ = await sleeper.result
    }
    apps[1].suspend()
    // No condition tells that nothing more comes: first past what was armed, then long enough for a tick to
    // be seen. On a loaded machine what was armed may come late; not each time.
    var isQuiet = false
    for _ in 0..<5 where !isQuiet {
      try await Task.sleep(for: .milliseconds(100))  // sleep is the subject
      let before = try switches(of: "atrest")
      try await Task.sleep(for: .milliseconds(400))  // sleep is the subject
      isQuiet = try switches(of: "atrest") == before && before.count >= 3
    }
    #expect(isQuiet)
    try await scheduler.shutdown()
  }
}
