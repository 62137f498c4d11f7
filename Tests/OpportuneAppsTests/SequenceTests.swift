import OpportuneApps
import TestSupport
import Testing

/// The five sequences of callbacks, and which app is in the foreground.
@Suite(.bounded) struct SequenceTests {
  // R-LIFE-09, R-LIFE-03
  @Test func launchToForegroundPassesThroughInactive() throws {
    var rig = try Rig()
    rig.host.behaviour.callback = nil
    try rig.does(.launch)
    #expect(rig.state() == .inactive)
    try rig.does(.returned(.didFinishLaunching))
    #expect(rig.state() == .active)
    #expect(rig.callbacks() == [.didFinishLaunching, .didBecomeActive])
    #expect(rig.count(.launched(.user)) == 1)
  }

  // R-LIFE-10
  @Test func launchToBackgroundNeverBecomesActive() throws {
    var rig = try Rig()
    try rig.does(.launchInBackground(.system))
    #expect(rig.callbacks() == [.didFinishLaunching, .didEnterBackground])
    #expect(rig.count(.launched(.system)) == 1)
  }

  // R-LIFE-11, R-FTS-01, R-LIFE-20
  @Test func leavingResignsThenEntersBackgroundThenSuspends() throws {
    var rig = try Rig()
    try rig.leave()
    #expect(rig.callbacks().suffix(2) == [.willResignActive, .didEnterBackground])
    #expect(rig.state() == .background)
    try rig.wait(4.999)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.state() == .suspended)
    #expect(rig.count(.lifecycle(.takeSnapshot)) == 1)
  }

  // R-LIFE-12, R-LIFE-19
  @Test func returningEntersForegroundThenBecomesActive() throws {
    var rig = try Rig()
    try rig.suspend()
    let start = rig.host.log.count
    try rig.does(.bringForward)
    #expect(rig.state() == .active)
    #expect(rig.callbacks(from: start) == [.willEnterForeground, .didBecomeActive])
    #expect(rig.count(.lifecycle(.resumeExecution)) == 1)
  }

  // R-LIFE-13, R-LIFE-03
  @Test func anInterruptionResignsAndBecomesActiveOnly() throws {
    var rig = try Rig()
    try rig.does(.launch)
    let start = rig.host.log.count
    try rig.does(.interrupt)
    #expect(rig.state() == .inactive)
    try rig.wait(60)
    #expect(rig.state() == .inactive)
    try rig.does(.endInterruption)
    #expect(rig.state() == .active)
    #expect(rig.callbacks(from: start) == [.willResignActive, .didBecomeActive])
  }

  // R-LIFE-13
  @Test func nestedInterruptionsEndWithTheLast() throws {
    var rig = try Rig()
    try rig.does(.launch)
    try rig.does(.interrupt)
    try rig.does(.interrupt)
    try rig.does(.endInterruption)
    #expect(rig.state() == .inactive)
    try rig.does(.endInterruption)
    #expect(rig.state() == .active)
  }

  // R-LIFE-13
  @Test func anInterruptionEndsWithLeaving() throws {
    var rig = try Rig()
    try rig.does(.launch)
    try rig.does(.interrupt)
    try rig.does(.leave)
    try rig.does(.bringForward)
    #expect(rig.state() == .active)
  }

  // R-LIFE-08
  @Test func nothingOfALifeIsLeftForTheNext() throws {
    let events: [AppEvent] = [
      .trackingBegan, .does(.workBegan(.upload)), .does(.beginTask(.other)), .does(.audioBegan(.play)),
      .interrupt,
      .does(.lock(.fileDescriptor)),
      .does(.request(.gpu)), .does(.compliance(.timerStarts)), .does(.compliance(.discoveryStarts)),
      .does(.compliance(.rebuildable(1))),
    ]
    for event in events {
      for end in [AppEvent.terminate, .exited] {
        var rig = try Rig([manifest("app", [.audio, .location])]) { $0.tasks.eligible = [.upload] }
        try rig.does(.launch)
        try rig.does(.compliance(.asksForMultitasking))
        try rig.does(event)
        try rig.does(end)
        let start = rig.host.log.count
        try rig.does(.launch)
        #expect(rig.state() == .active, "\(event)")
        try rig.does(.compliance(.saves))
        try rig.does(.leave)
        try rig.wait(6)
        #expect(rig.state() == .suspended, "\(event)")
        let told = rig.actions(from: start).filter { if case .diagnose = $0 { true } else { false } }
        #expect(told.isEmpty, "\(event)")
      }
    }
  }

  // R-LIFE-04, R-TASK-06, R-LIFE-22
  @Test func theFirstGivesWayBeforeTheSecondComes() throws {
    var rig = try Rig([manifest("first"), manifest("second")])
    try rig.does(.launch, 0)
    try rig.does(.launch, 1)
    #expect(rig.state(0) == .background && rig.state(1) == .active)
    let moves = rig.host.log.compactMap { entry -> AppID? in
      if case .moved(_, let to, let event) = entry.action,
        event == .leave || (to == .inactive && event == .launchForeground)
      {
        return entry.app
      }
      return nil
    }
    #expect(moves == [rig.apps[0], rig.apps[0], rig.apps[1]])
  }

  // R-LIFE-05
  @Test func severalInFrontHaveOneActive() throws {
    var rig = try Rig([manifest("a"), manifest("b"), manifest("c")]) { $0.maximumForeground = 2 }
    try rig.does(.launch, 0)
    try rig.does(.launch, 1)
    #expect(rig.state(0) == .inactive && rig.state(1) == .active)
    try rig.does(.bringForward, 0)
    #expect(rig.state(0) == .active && rig.state(1) == .inactive)
    try rig.does(.launch, 2)
    #expect(rig.state(1) == .background && rig.state(0) == .inactive && rig.state(2) == .active)
    try rig.does(.leave, 2)
    #expect(rig.state(0) == .active)
  }

  // R-LIFE-14, R-LIFE-08
  @Test func willTerminateReachesWhatCanRun() throws {
    for goesBehind in [false, true] {
      var rig = try Rig()
      try rig.does(.launch)
      if goesBehind { try rig.does(.leave) }
      try rig.does(.terminate)
      #expect(rig.callbacks().last == .willTerminate)
      #expect(rig.state() == .notRunning)
    }
  }

  // R-LIFE-15
  @Test func aSuspendedAppEndsWithoutACallback() throws {
    var rig = try Rig()
    try rig.suspend()
    let start = rig.host.log.count
    try rig.does(.terminate)
    #expect(rig.callbacks(from: start) == [])
    #expect(rig.state() == .notRunning)
  }

  // R-LIFE-16, R-LIFE-24
  @Test func theSwitcherListsAndTerminatesInAnyState() throws {
    var rig = try Rig([
      manifest("front"), manifest("behind"), manifest("frozen"), manifest("stored"), manifest("never"),
    ])
    try rig.suspend(3)
    try rig.does(.hibernate, 3)
    try rig.suspend(2)
    try rig.leave(1)
    try rig.does(.launch, 0)
    #expect(rig.host.system.switcher().map(\.manifest.identifier) == ["front", "behind", "frozen", "stored"])
    for index in 0..<5 { try rig.does(.terminate, index) }
    #expect((0..<5).allSatisfy { rig.state($0) == .notRunning })
    #expect(rig.host.system.switcher().isEmpty)
  }

  // R-LIFE-17, R-MAN-04
  @Test func anAppThatOptedOutEndsOnLeaving() throws {
    var rig = try Rig([manifest(exits: true)])
    try rig.leave()
    #expect(rig.callbacks() == [.didFinishLaunching, .didBecomeActive, .willResignActive, .willTerminate])
    #expect(rig.state() == .notRunning)
    #expect(throws: AppsError.self) { try rig.does(.launchInBackground(.system)) }
  }

  // R-LIFE-21
  @Test func withoutMultitaskingLeavingTerminates() throws {
    var rig = try Rig { $0.supportsMultitasking = false }
    #expect(!rig.host.system.isMultitaskingSupported)
    try rig.leave()
    #expect(rig.state() == .notRunning)
    #expect(rig.callbacks().last == .willTerminate)
  }

  // R-LIFE-02
  @Test func onlyTheForegroundDraws() throws {
    var rig = try Rig()
    try rig.does(.launch)
    #expect(try rig.restrictions() == .unrestricted)
    try rig.does(.leave)
    #expect(try !rig.restrictions().mayDraw)
  }

  // R-LIFE-23
  @Test func anAppIsReanimatedByWhatItNamed() throws {
    var rig = try Rig([manifest("app", [.voip])])
    try rig.leave(after: .wakesOn([.data]))
    try rig.wait(5)
    try rig.does(.message(Message("news")))
    #expect(rig.state() == .suspended && rig.delivered() == [])
    try rig.does(.data(bytes: 3))
    #expect(rig.state() == .background)
    try rig.does(.bringForward)
    #expect(rig.delivered() == ["news"])  // kept meanwhile
  }

  // R-FTS-03
  @Test func overrunningDidEnterBackgroundTerminates() throws {
    var rig = try Rig()
    try rig.does(.launch)
    rig.host.behaviour.callback = .seconds(3)
    try rig.does(.leave)
    try rig.wait(4.999)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.diagnoses() == [.callbackOverrun(.didEnterBackground)])
    #expect(rig.state() == .notRunning)
    #expect(!rig.callbacks().contains(.willTerminate))
  }

  // R-FTS-03
  @Test func otherCallbacksThatOverrunAreReportedOrTerminate() throws {
    for consequence in AppsPolicy.Overrun.allCases {
      var rig = try Rig { $0.callbackOverrun = consequence }
      rig.host.behaviour.callback = nil
      try rig.does(.launch)
      try rig.wait(5)
      #expect(rig.diagnoses() == [.callbackOverrun(.didFinishLaunching)])
      #expect(rig.state() == (consequence == .report ? .inactive : .notRunning))
    }
  }
}
