import Opportune
import TestSupport
import Testing

/// What docs/targets.md shows, as docs/api.md does.
@Suite(.bounded) struct TargetExamples {
  @Test func targets() async throws {
    let scheduler = try Scheduler()
    func answer(_ query: String) async throws -> String { query.uppercased() }
    // docs: target
    let ui = try scheduler.makeApp(named: "ui")
    try ui.target(.latency(p99: .milliseconds(5)))

    let received = ui.clock.now  // better: when the client meant to send it
    let text = try await ui.request(since: received) { try await answer("hello") }
    // end
    #expect(text == "HELLO")
    try await scheduler.shutdown()
  }

  @Test func durations() async throws {
    let scheduler = try Scheduler()
    let ui = try scheduler.makeApp(named: "ui")
    // docs: durations
    ui.countRequest(lasting: .milliseconds(3))
    // end
    try await scheduler.shutdown()
  }

  @Test func shares() async throws {
    let scheduler = try Scheduler()
    // docs: share
    let share = await scheduler.statistics().backgroundShare
    if let reason = share.reason {
      print("background has \(share.workers) workers: \(reason), app \(share.app ?? "any")")
    }
    // end
    #expect(share.workers == scheduler.width && share.reason == nil)
    try await scheduler.shutdown()
  }
}
