import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct AudioTests {
  private func playing(_ names: [String], _ change: (inout AppsPolicy) -> Void = { _ in }) throws -> Rig {
    var rig = try Rig(names.map { manifest($0, [.audio]) }, change)
    for index in names.indices {
      try rig.does(.launch, index)
      try rig.does(.audioBegan(.play), index)
    }
    return rig
  }

  // R-AUD-01, R-AUD-02, R-CPU-09, R-AUD-09
  @Test func audioKeepsItsAppAndItsRealTimeThreads() throws {
    var rig = try Rig([manifest("player", [.audio]), manifest("mute")])
    for index in 0..<2 {
      try rig.does(.launch, index)
      if index == 0 { try rig.does(.audioBegan(.play), index) }
      try rig.does(.leave, index)
    }
    #expect(try rig.restrictions(0).mayRunRealTime)
    #expect(try !rig.restrictions(1).mayRunRealTime)
    try rig.wait(7200)
    #expect(rig.state(0) == .background && rig.state(1) == .suspended)
  }

  // R-AUD-05
  @Test func pauseSuspendsAndResumeGoesOn() throws {
    var rig = try playing(["player"])
    try rig.does(.leave)
    try rig.wait(60)
    try rig.does(.audioPaused)
    #expect(rig.state() == .suspended)
    try rig.does(.audioResumed)
    #expect(rig.state() == .background)
    #expect(rig.count(.resumeAudio) == 1)
    try rig.wait(3600)
    #expect(rig.state() == .background)
    try rig.does(.audioEnded)
    #expect(rig.state() == .suspended)
  }

  // R-AUD-06
  @Test func pauseMayHibernate() throws {
    var rig = try playing(["player"]) { $0.audio.pause = .hibernate }
    try rig.does(.leave)
    try rig.wait(60)
    try rig.does(.audioPaused)
    #expect(rig.state() == .hibernated)
    try rig.does(.audioResumed)
    #expect(rig.state() == .background)
  }

  // R-AUD-03, R-AUD-04
  @Test(arguments: 0...3) func onlySoManyPlayBehind(_ maximum: Int) throws {
    var rig = try playing(["a", "b", "c", "d"]) { $0.audio.maximum = maximum }
    try rig.wait(10)
    let behind = (0..<3).filter { rig.state($0) == .background }
    #expect(behind == Array((0..<3).suffix(maximum)))
    #expect((0..<3).map { rig.count(.pauseAudio, $0) }.reduce(0, +) == 3 - maximum)
  }

  // R-AUD-03
  @Test func theNewerMayGiveWay() throws {
    var rig = try playing(["a", "b", "c"]) { $0.audio.gives = .newer }
    try rig.wait(10)
    #expect(rig.state(0) == .background && rig.state(1) == .suspended)
  }

  // R-AUD-07
  @Test func realTimeCodeBehindComesFromApprovedFiles() throws {
    var rig = try playing(["player"]) { $0.audio.approvedLibraries = ["/usr/lib/libgood.so"] }
    try rig.does(.realTimeCode("/opt/libbad.so"))  // in front anything goes
    try rig.does(.leave)
    try rig.does(.realTimeCode("/usr/lib/libgood.so"))
    #expect(rig.count(.pauseAudio) == 0)
    try rig.does(.realTimeCode("/opt/libbad.so"))
    #expect(rig.diagnoses().contains(.unapprovedLibrary("/opt/libbad.so")))
    #expect(rig.count(.pauseAudio) == 1)
  }

  // R-AUD-08, R-MAN-05
  @Test func audioIsDeclaredOrAppliesToAnyApp() throws {
    for needs in [true, false] {
      var rig = try Rig { $0.audio.needsDeclaration = needs }
      try rig.leave(after: .audioBegan(.play))
      try rig.wait(60)
      #expect(rig.state() == (needs ? .suspended : .background))
    }
  }

  // R-AUD-09
  @Test func theEndOfATaskDoesNotSuspendWhatPlays() throws {
    var rig = try playing(["player"])
    try rig.does(.beginTask(.other))
    try rig.does(.leave)
    try rig.wait(180)
    #expect(rig.tasks().count == 1 && rig.state() == .background)
  }

  // R-AUD-10
  @Test func anotherComesForwardWhileItPlays() throws {
    var rig = try Rig([manifest("player", [.audio]), manifest("other")])
    try rig.does(.launch, 0)
    try rig.does(.audioBegan(.play), 0)
    try rig.does(.launch, 1)
    #expect(rig.callbacks(0).suffix(2) == [.willResignActive, .didEnterBackground])
    #expect(rig.state(0) == .background && rig.state(1) == .active)
  }

  // R-HW-03, R-HW-01
  @Test func whoRecordsKeepsTheMicrophone() throws {
    for activity in AudioActivity.allCases {
      var rig = try Rig([manifest("recorder", [.audio])])
      try rig.leave(after: .request(.microphone), .audioBegan(activity))
      #expect(rig.count(.revoked(.microphone)) == (activity == .record ? 0 : 1))
    }
  }

  // R-AUD-01
  @Test func playingNothingCannotBePaused() throws {
    var rig = try Rig()
    try rig.does(.launch)
    for event in [AppAction.audioPaused, .audioResumed, .audioEnded] {
      #expect(throws: AppsError(.noAudio(rig.app))) { try rig.does(event) }
    }
  }
}
