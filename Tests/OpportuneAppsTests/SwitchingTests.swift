import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct SwitchingTests {
  // R-FTS-02
  @Test(arguments: [2.0, 5, 6]) func theGraceIsASetting(_ seconds: Double) throws {
    var rig = try Rig { $0.grace = .seconds(Int64(seconds)) }
    try rig.leave()
    try rig.wait(seconds - 0.001)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.state() == .suspended)
  }

  // R-FTS-04, R-FTS-05
  @Test func suspensionIsForAllOrByDeclarationOrOff() throws {
    for switching in AppsPolicy.Switching.allCases {
      for says in [false, true] {
        let rigged = Manifest(identifier: "app", allowsSuspension: says)
        var rig = try Rig([rigged]) { $0.switching = switching }
        try rig.leave()
        try rig.wait(3600)
        let suspends = switching == .all || (switching == .optIn && says)
        #expect(rig.state() == (suspends ? .suspended : .background), "\(switching) \(says)")
      }
    }
  }

  // R-FTS-01
  @Test func suspensionMayComeWithTheReturnOfTheCallback() throws {
    var rig = try Rig { $0.suspendsOnReturn = true }
    try rig.leave()
    #expect(rig.state() == .suspended)
  }

  /// However short the grace is, and where it would be over with the return of the callback.
  // R-FTS-03
  @Test(arguments: [false, true])
  func aCallbackThatIsLaterThanTheGraceEndsItsApp(suspendsOnReturn: Bool) throws {
    for (grace, state) in [(0, LifecycleState.notRunning), (1, .notRunning), (2, .suspended)] {
      var rig = try Rig {
        $0.grace = .milliseconds(grace)
        $0.suspendsOnReturn = suspendsOnReturn
      }
      try rig.does(.launch)
      rig.host.behaviour.callback = .milliseconds(1)  // each of two
      try rig.does(.leave)
      try rig.wait(1)
      #expect(rig.state() == state, "\(grace) ms")
      #expect(rig.diagnoses().contains(.callbackOverrun(.didEnterBackground)) == (state == .notRunning))
    }
  }

  // R-FTS-03, R-LIFE-06
  @Test func itReadsSuspendedOnlyWhenItsLastSliceHasEnded() throws {
    var rig = try Rig()
    rig.host.behaviour.slice = .milliseconds(700)
    try rig.leave()
    try rig.wait(5)
    #expect(rig.state() == .stopping)
    try rig.wait(0.7)
    #expect(rig.state() == .suspended)
  }

  // R-FTS-03
  @Test func aSliceThatGoesOnIsAnOverrun() throws {
    for consequence in AppsPolicy.Overrun.allCases {
      var rig = try Rig { $0.sliceOverrun = consequence }
      rig.host.behaviour.slice = .seconds(3)
      try rig.leave()
      try rig.wait(6)
      #expect(rig.diagnoses().contains(.sliceOverrun))
      #expect(rig.state() == (consequence == .terminate ? .notRunning : .stopping))
      try rig.wait(2)
      #expect(rig.state() == (consequence == .terminate ? .notRunning : .suspended))
    }
  }

  @Test func comingBackInTheMidstOfStoppingGoesOn() throws {
    var rig = try Rig()
    rig.host.behaviour.slice = .milliseconds(700)
    try rig.leave()
    try rig.wait(5.2)
    try rig.does(.bringForward)
    #expect(rig.state() == .active)
    try rig.wait(60)
    #expect(rig.state() == .active)
    #expect(rig.diagnoses() == [.rule(.saveOnEnteringBackground)])
  }

  // R-FTS-07, R-FTS-08
  @Test func finishedKernelWorkReanimatesWhereThePolicySaysSo() throws {
    for reanimates in [false, true] {
      var rig = try Rig { $0.completionsReanimate = reanimates }
      try rig.suspend()
      try rig.does(.completion)
      #expect(rig.state() == (reanimates ? .background : .suspended))
      try rig.wait(11)
      #expect(rig.state() == .suspended)
    }
  }

  // R-FTS-09
  @Test func suspendingOneLeavesTheOthersAlone() throws {
    var rig = try Rig([manifest("a"), manifest("b", [.audio])])
    try rig.does(.launch, 1)
    try rig.does(.audioBegan(.play), 1)
    try rig.does(.launch, 0)
    try rig.does(.leave, 0)
    let start = rig.host.log.count
    try rig.wait(3600)
    #expect(rig.state(0) == .suspended && rig.state(1) == .background)
    #expect(rig.actions(1, from: start).isEmpty)
  }

  @Test func hibernationIsOfSuspendedAppsAndComesBack() throws {
    var rig = try Rig()
    try rig.leave()
    #expect(
      throws: AppsError(
        .lifecycle(rig.app, LifecycleError(state: .background, event: .hibernate, .executing)))
    ) {
      try rig.does(.hibernate)
    }
    try rig.wait(5)
    try rig.does(.hibernate)
    #expect(rig.state() == .hibernated)
    let start = rig.host.log.count
    try rig.does(.bringForward)
    #expect(rig.callbacks(from: start) == [.willEnterForeground, .didBecomeActive])
    #expect(rig.count(.lifecycle(.restoreState)) == 1)
  }
}
