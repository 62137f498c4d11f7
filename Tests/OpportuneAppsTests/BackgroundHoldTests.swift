import OpportuneApps
import TestSupport
import Testing

/// Why an app is neither suspended nor hibernated, on a clock moved by hand.
@Suite(.bounded) struct BackgroundHoldTests {
  private func heldBy(_ rig: Rig) throws -> [BackgroundHold] {
    try #require(rig.host.system.view(of: rig.app)).heldBy
  }

  // R-LIFE-07, R-TASK-01
  @Test func anOpenTaskIsAReason() throws {
    var rig = try Rig()
    try rig.does(.launch)
    try rig.does(.beginTask(.upload))
    #expect(try heldBy(rig) == [], "it is in front")
    let task = try #require(rig.tasks().first)
    try rig.does(.leave)
    try rig.wait(6)
    #expect(try heldBy(rig) == [.task(task)])
    #expect(try heldBy(rig).map(\.description) == ["\(task) is open"])
    #expect(throws: AppsError.self) { try rig.does(.hibernate) }
    try rig.does(.endTask(task))
    #expect(try heldBy(rig) == [])
    try rig.wait(1)
    try rig.does(.hibernate)
    #expect(rig.state() == .hibernated)
  }

  // R-LIFE-07
  @Test func theGraceIsAReason() throws {
    var rig = try Rig()
    try rig.leave()
    try rig.wait(2)
    let held = try heldBy(rig)
    guard case .grace? = held.first, held.count == 1 else {
      Issue.record("held by \(held)")
      return
    }
    try rig.wait(5)
    #expect(rig.state() == .suspended)
    #expect(try heldBy(rig) == [])
  }

  // R-LIFE-07, R-AUD-01
  @Test func audioAndTrackingAreReasons() throws {
    var rig = try Rig([manifest("player", [.audio, .location])])
    try rig.does(.launch)
    try rig.does(.audioBegan(.play))
    try rig.does(.trackingBegan)
    try rig.does(.leave)
    try rig.wait(6)
    #expect(try heldBy(rig) == [.audio(.play), .tracking])
  }
}
