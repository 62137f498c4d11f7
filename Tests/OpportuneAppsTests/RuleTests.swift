import OpportuneApps
import TestSupport
import Testing

/// Each rule is violated once and followed once.
@Suite(.bounded) struct RuleTests {
  /// A whole visit to the foreground and back, with what the app does on the way.
  private func visit(
    front: [AppEvent] = [], behind: [AppEvent] = [], _ modes: Set<Manifest.Mode> = [],
    power: PowerSupply = .battery
  ) throws -> Rig {
    var rig = try Rig([manifest("app", modes)]) { $0.restrictions.gpuInBackground = .deny }
    try rig.host.post(.power(power))
    try rig.does(.launch)
    for event in [.does(.compliance(.saves))] + front { try rig.does(event) }
    try rig.does(.leave)
    try rig.wait(1)
    for event in behind { try rig.does(event) }
    return rig
  }

  private func broken(_ rig: Rig) -> [BestPractice] { BestPractice.allCases.filter { rig.broken($0) > 0 } }

  // R-RULE-01
  @Test func minimumInBackground() throws {
    #expect(try broken(visit(behind: [.worked(.seconds(2))])) == [.minimumInBackground])
    #expect(try broken(visit(behind: [.worked(.milliseconds(90))])) == [])
    #expect(
      try broken(visit(front: [.does(.audioBegan(.play))], behind: [.worked(.seconds(2))], [.audio])) == [])
  }

  // R-RULE-01
  @Test func aStayIsJudgedAfterwards() throws {
    func stay(_ used: Double, _ seconds: Double, power: PowerSupply = .battery) throws -> Int {
      var rig = try Rig { $0.power.fullOnMains = true }
      try rig.host.post(.power(power))
      try rig.does(.workedInBackground(.seconds(used), of: .seconds(seconds)))
      return rig.broken(.minimumInBackground)
    }
    #expect(try stay(1, 5) == 0 && stay(1.001, 5) == 1)
    #expect(try stay(5, 50) == 0 && stay(5.001, 50) == 1)
    #expect(try stay(50, 50, power: .mains) == 0)
  }

  // R-RULE-02
  @Test func noDrawing() throws {
    #expect(try broken(visit(behind: [.does(.compliance(.draws))])) == [.noDrawingInBackground])
    #expect(try broken(visit(front: [.does(.compliance(.draws))])) == [])
    // What is seen afterwards counts whatever the state is by then.
    var rig = try visit(behind: [.terminate])
    #expect(throws: AppsError.self) { try rig.does(.compliance(.draws)) }
    try rig.does(.drewInBackground)
    #expect(broken(rig) == [.noDrawingInBackground])
  }

  // R-RULE-03
  @Test func noGraphicsHardware() throws {
    #expect(try broken(visit(behind: [.does(.request(.gpu))])) == [.noGraphicsHardware])
    #expect(try broken(visit(front: [.does(.request(.gpu))])) == [.noGraphicsHardware])
    #expect(try broken(visit(front: [.does(.request(.gpu)), .does(.release(.gpu))])) == [])
  }

  // R-RULE-04
  @Test func saving() throws {
    var rig = try Rig()
    try rig.leave()
    #expect(broken(rig) == [.saveOnEnteringBackground])
    // Each time anew.
    var again = try visit()
    #expect(broken(again) == [])
    try again.does(.bringForward)
    try again.does(.leave)
    #expect(broken(again) == [.saveOnEnteringBackground])
  }

  // R-RULE-05
  @Test func sharedResources() throws {
    #expect(try broken(visit(front: [.does(.lock(.addressBook))])) == [.stopSharedResources])
    #expect(try broken(visit(front: [.does(.lock(.addressBook)), .does(.unlock(.addressBook))])) == [])
  }

  // R-RULE-06
  @Test func memory() throws {
    #expect(try broken(visit(front: [.does(.compliance(.rebuildable(1 << 20)))])) == [.releaseMemory])
    #expect(
      try broken(
        visit(front: [.does(.compliance(.rebuildable(1 << 20))), .does(.compliance(.rebuildable(0)))])) == [])
  }

  // R-RULE-07
  @Test func discovery() throws {
    #expect(try broken(visit(front: [.does(.compliance(.discoveryStarts))])) == [.cancelDiscovery])
    #expect(
      try broken(visit(front: [.does(.compliance(.discoveryStarts)), .does(.compliance(.discoveryStops))]))
        == [])
  }

  // R-RULE-08
  @Test func timers() throws {
    #expect(try broken(visit(front: [.does(.compliance(.timerStarts))])) == [.pauseOnResign])
    #expect(
      try broken(visit(front: [.does(.compliance(.timerStarts)), .does(.compliance(.timerStops))])) == [])
  }

  // R-RULE-09
  @Test func answers() throws {
    for answers in [false, true] {
      var rig = try visit(behind: [.changed(kind: "orientation", to: "landscape")])
      try rig.does(.bringForward)
      try rig.does(.compliance(.saves))
      if answers { try rig.does(.compliance(.answers(kind: "orientation"))) }
      try rig.does(.leave)
      #expect(broken(rig) == (answers ? [] : [.undoOnReturn]))
    }
  }

  // R-RULE-10
  @Test func longWork() throws {
    for ends in [false, true] {
      var rig = try visit(front: [.does(.compliance(.asksForMultitasking)), .does(.beginTask(.upload))])
      rig.host.behaviour.expiration = ends ? .seconds(1) : nil
      try rig.wait(600)
      #expect(broken(rig) == (ends ? [] : [.taskForLongWork]))
    }
  }

  // R-RULE-11
  @Test func asking() throws {
    #expect(try broken(visit(front: [.does(.beginTask(.upload))])) == [.askForMultitasking])
    #expect(
      try broken(visit(front: [.does(.compliance(.asksForMultitasking)), .does(.beginTask(.upload))])) == [])
  }

  // R-RULE-12
  @Test func tracking() throws {
    #expect(try broken(visit(front: [.trackingBegan], [.location])) == [.preferSignificantChanges])
    #expect(try broken(visit(front: [.trackingBegan, .trackingEnded], [.location])) == [])
    #expect(try broken(visit(front: [.trackingBegan], [.location], power: .mains)) == [])
  }

  @Test func everyRuleHasAnIdentifierAndAText() {
    #expect(
      BestPractice.allCases.map(\.id).first == "R-RULE-01"
        && BestPractice.allCases.map(\.id).last == "R-RULE-12")
    #expect(BestPractice.allCases.allSatisfy { !$0.text.isEmpty && !$0.sign.isEmpty })
    // Each says what to call, or which callback to do it in.
    #expect(BestPractice.allCases.allSatisfy { $0.remedy.contains("(") })
    #expect(
      AppDiagnosis.rule(.askForMultitasking).description
        == "breaks R-RULE-11: ask whether multitasking is supported before relying on it; "
        + "call isMultitaskingSupported() before beginTask or withBackgroundTask")
  }
}
