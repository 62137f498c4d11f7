import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct ResourceTests {
  static let revocable: [SharedResource] = [.graphics, .camera, .addressBook, .calendar]

  // R-LOCK-01, R-LOCK-02, R-LOCK-03
  @Test func locksHeldAtSuspensionAreTakenAwayOrEndTheApp() throws {
    for held in RestrictionPolicy.Held.allCases {
      for resource in Self.revocable + [.fileDescriptor, SharedResource("database", isRevocable: false)] {
        var rig = try Rig { $0.restrictions.heldAtSuspension = held }
        try rig.leave(after: .lock(resource))
        #expect(rig.count(.lockRevoked(resource)) == (held == .revokeAll ? 1 : 0))
        try rig.wait(5)
        let ends = held == .terminate || (held == .revokeOrTerminate && !resource.isRevocable)
        #expect(rig.state() == (ends ? .notRunning : .suspended), "\(held) \(resource)")
        if held != .revokeAll { #expect(rig.diagnoses().contains(.heldLock(resource))) }
        #expect(rig.callbacks().last == (ends ? .willTerminate : .didEnterBackground))
      }
    }
  }

  // R-LOCK-04
  @Test func whatIsReleasedInTimeHasNoConsequence() throws {
    var rig = try Rig()
    rig.host.behaviour.callback = .seconds(1)
    try rig.does(.launch)
    try rig.wait(3)
    try rig.does(.lock(.fileDescriptor))
    try rig.does(.leave)
    try rig.wait(1.5)  // in the midst of didEnterBackground
    try rig.does(.unlock(.fileDescriptor))
    try rig.wait(10)
    #expect(rig.state() == .suspended)
    #expect(rig.broken(.stopSharedResources) == 0)
    #expect(throws: AppsError.self) { try rig.does(.unlock(.fileDescriptor)) }
  }

  // R-LOCK-01, R-LOCK-04
  @Test func aLockTakenTwiceIsReleasedTwice() throws {
    for releases in 1...2 {
      var rig = try Rig()
      try rig.does(.launch)
      for _ in 0..<2 { try rig.does(.lock(.fileDescriptor)) }
      for _ in 0..<releases { try rig.does(.unlock(.fileDescriptor)) }
      try rig.does(.leave)
      try rig.wait(5)
      #expect(rig.state() == (releases == 1 ? .notRunning : .suspended))
    }
  }

  // R-LOCK-01, R-HW-01, R-LIFE-08
  @Test func whatAnAppHoldsEndsWithIt() throws {
    for end in [AppEvent.terminate, .exited] {
      var rig = try Rig()
      try rig.does(.launch)
      try rig.does(.lock(.fileDescriptor))
      try rig.does(.request(.camera))
      try rig.does(end)
      #expect(rig.count(.revoked(.camera)) == 1)
      try rig.leave()
      try rig.wait(5)
      #expect(rig.state() == .suspended)
      #expect(try #require(rig.host.system.view(of: rig.app)).grants.isEmpty)
      #expect(throws: AppsError.self) { try rig.does(.release(.camera)) }
      #expect(throws: AppsError(.notExecuting(rig.app, .suspended))) { try rig.does(.request(.camera)) }
    }
  }

  // R-HW-01, R-HW-02
  @Test func hardwareIsTakenAwayBehindAndDeniedThere() throws {
    let all: [Hardware] = [.camera, .accelerometer, .gyroscope, .proximity, .microphone, Hardware("lidar")]
    var rig = try Rig { $0.restrictions.foregroundHardware.insert(Hardware("lidar")) }
    try rig.does(.launch)
    for hardware in all { try rig.does(.request(hardware)) }
    try rig.does(.leave)
    for hardware in all {
      #expect(rig.count(.granted(hardware)) == 1 && rig.count(.revoked(hardware)) == 1)
      try rig.does(.request(hardware))
      #expect(rig.count(.denied(hardware)) == 1)
    }
    #expect(rig.state() == .background)
  }

  // R-GFX-01, R-GFX-02
  @Test func theGPUInBackgroundIsDeniedAndMayEndTheApp() throws {
    for attempt in RestrictionPolicy.Attempt.allCases {
      var rig = try Rig { $0.restrictions.gpuInBackground = attempt }
      try rig.leave()
      try rig.does(.request(.gpu))
      #expect(rig.count(.denied(.gpu)) == 1 && rig.diagnoses().contains(.gpuInBackground))
      #expect(rig.state() == (attempt == .terminate ? .notRunning : .background))
    }
  }

  // R-GFX-03, R-RULE-02
  @Test func drawingInBackgroundIsIgnoredAndCounted() throws {
    var rig = try Rig()
    try rig.does(.launch)
    try rig.does(.compliance(.draws))
    #expect(rig.broken(.noDrawingInBackground) == 0)
    try rig.does(.leave)
    try rig.does(.compliance(.draws))
    #expect(rig.broken(.noDrawingInBackground) == 1)
    #expect(rig.state() == .background)
  }

  // R-CPU-11, R-PWR-05
  @Test func whoReceivesNoInputMayBeLimited() throws {
    for limits in [false, true] {
      var rig = try Rig([manifest("a"), manifest("b")]) {
        $0.maximumForeground = 2
        $0.restrictions.limitsInactive = limits
      }
      try rig.does(.launch, 0)
      try rig.does(.launch, 1)
      let (first, second) = (try rig.restrictions(0), try rig.restrictions(1))
      #expect(second == .unrestricted)
      #expect(first.storage == (limits ? .background : .foreground))
      #expect(first.network == (limits ? .background : .foreground))
      #expect(first.deniedHardware.isEmpty != limits)
      #expect(first.mayDraw && first.cpu == .foreground)
    }
  }

  // R-SYS-02
  @Test func everyRestrictionIsSwitchedByItself() {
    for bits in 0..<32 as Range<UInt8> {
      let restricted = RestrictionPolicy.Resources(rawValue: bits)
      var policy = RestrictionPolicy()
      policy.resources = restricted
      let behind = Restrictions(
        .background, receivesInput: false, audio: nil, hasFullPower: false, policy: policy)
      #expect((behind.cpu == .background) == restricted.contains(.cpu))
      #expect((behind.storage == .background) == restricted.contains(.storage))
      #expect((behind.network == .background) == restricted.contains(.network))
      #expect(behind.mayDraw == !restricted.contains(.graphics))
      #expect(behind.deniedHardware.contains(.gpu) == restricted.contains(.graphics))
      #expect(behind.deniedHardware.contains(.camera) == restricted.contains(.hardware))
    }
  }

  // R-PWR-02, R-PWR-03
  @Test func externalPowerMayLiftTheRestrictions() throws {
    for lifts in [false, true] {
      var rig = try Rig { $0.power.fullOnMains = lifts }
      try rig.host.post(.power(.mains))
      try rig.leave()
      try rig.wait(3600)
      #expect(rig.state() == (lifts ? .background : .suspended))
      if lifts { #expect(try rig.restrictions().storage == .foreground) }
      try rig.host.post(.power(.battery))
      #expect(rig.state() == .suspended)
    }
  }

  // R-PWR-03, R-AUD-03
  @Test func onLossOfPowerTooManyPlayersGiveWay() throws {
    var rig = try Rig([manifest("first", [.audio]), manifest("second", [.audio]), manifest("front")]) {
      $0.power.fullOnMains = true
    }
    try rig.host.post(.power(.mains))
    for index in 0..<3 {
      try rig.does(.launch, index)
      if index < 2 { try rig.does(.audioBegan(.play), index) }
      try rig.wait(10)
    }
    #expect(rig.state(0) == .background && rig.state(1) == .background)
    try rig.host.post(.power(.battery))
    #expect([rig.count(.pauseAudio, 0), rig.count(.pauseAudio, 1)].reduce(0, +) == 1)
    #expect([rig.state(0), rig.state(1)].count { $0 == .background } == 1)
    #expect([rig.state(0), rig.state(1)].count { $0 == .suspended } == 1)
  }

  // R-PWR-02, R-PWR-03, R-TASK-03
  @Test func fullPowerTakesTheLimitsOfTasksAwayAndItsLossBringsThemBack() throws {
    for policy in [TaskPolicy.End.suspend, .terminate] {
      var rig = try Rig {
        $0.power.fullOnMains = true
        $0.tasks.unfinished = policy
        $0.tasks.cpuTime = .seconds(10)
        $0.tasks.idleLimit = .seconds(170)
        $0.tasks.endsOnDisplay = true
      }
      rig.host.behaviour.expiration = nil
      try rig.leave(after: .beginTask(.upload))
      // It comes while the handler runs.
      try rig.wait(172)
      try rig.host.post(.power(.mains))
      try rig.wait(3600)
      try rig.does(.worked(.seconds(11)))
      try rig.host.post(.displayActivated)
      try rig.does(.beginTask(.upload))
      #expect(rig.state() == .background && rig.refusals().isEmpty && rig.tasks().count == 2)
      #expect(rig.tasks().map { rig.count(.expire($0)) } == [1, 0])
      #expect(rig.host.system.timeRemaining(of: rig.app) == nil)
      try rig.host.post(.power(.battery))
      #expect(rig.host.system.timeRemaining(of: rig.app) == .seconds(180))
      try rig.does(.worked(.seconds(9)))
      #expect(rig.state() == .background && rig.tasks().map { rig.count(.expire($0)) } == [1, 0])
      try rig.does(.worked(.seconds(1)))
      #expect(rig.tasks().map { rig.count(.expire($0)) } == [2, 1])
      try rig.wait(5)
      #expect(rig.state() == (policy == .terminate ? .notRunning : .suspended))
    }
  }

  // R-PWR-04
  @Test func onLossOfPowerAllButTheActiveGoBehind() throws {
    for pushes in [false, true] {
      var rig = try Rig([manifest("a"), manifest("b"), manifest("c")]) {
        $0.maximumForeground = 3
        $0.power.pushesBack = pushes
      }
      try rig.host.post(.power(.mains))
      for index in 0..<3 { try rig.does(.launch, index) }
      try rig.host.post(.power(.battery))
      let place: LifecycleState = pushes ? .background : .inactive
      #expect(rig.state(0) == place && rig.state(1) == place && rig.state(2) == .active)
    }
  }

  // R-MEM-15
  @Test func sizesAndTimesOfAnySizeAddUp() throws {
    var rig = try Rig([manifest("a"), manifest("b"), manifest("c")])
    for index in 0..<3 { try rig.does(.launch, index) }
    for _ in 0..<40 { try rig.does(.worked(.seconds(Int64.max)), 0) }
    try rig.does(.footprint(.max), 0)
    #expect(rig.state(0) == .background)
    try rig.does(.footprint(.max), 2)
    #expect(rig.host.system.footprint == .max)
    try rig.does(.terminate, 0)
    try rig.does(.footprint(1), 2)
    #expect(rig.host.system.footprint == 1)
  }
}
