import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct TaskTests {
  // R-TASK-01, R-TASK-10, R-TASK-12
  @Test func aTaskBegunInFrontEarnsTimeBehind() throws {
    var rig = try Rig()
    try rig.leave(after: .beginTask(.upload))
    try rig.wait(60)
    #expect(rig.state() == .background)
    #expect(try rig.restrictions().cpu == .background)
    try rig.does(.endTask(rig.tasks()[0]))
    #expect(rig.state() == .suspended)
  }

  // R-TASK-12, R-SAMP-03
  @Test func severalTasksEndByTheirOwnIdentifiers() throws {
    var rig = try Rig()
    try rig.does(.launch)
    for kind in TaskKind.allCases { try rig.does(.beginTask(kind)) }
    let tasks = rig.tasks()
    #expect(Set(tasks).count == TaskKind.allCases.count && !tasks.contains(.invalid))
    try rig.does(.leave)
    try rig.wait(10)
    for task in tasks.dropLast().reversed() { try rig.does(.endTask(task)) }
    #expect(rig.state() == .background)
    #expect(throws: AppsError(.unknownTask(rig.app, tasks[0]))) { try rig.does(.endTask(tasks[0])) }
    #expect(throws: AppsError(.unknownTask(rig.app, .invalid))) { try rig.does(.endTask(.invalid)) }
    try rig.does(.endTask(tasks[tasks.count - 1]))
    #expect(rig.state() == .suspended)
  }

  // R-TASK-03, R-TASK-04, R-TASK-13
  @Test(arguments: [180, 300, 600, 1800]) func theHandlerRunsAtTheTickOfTheLimit(_ seconds: Int64) throws {
    var rig = try Rig { $0.tasks.wallClock = .seconds(seconds) }
    try rig.leave(after: .beginTask(.download))
    try rig.host.run(for: .seconds(seconds) - .nanoseconds(1))
    #expect(rig.count(.expire(rig.tasks()[0])) == 0)
    try rig.host.run(for: .nanoseconds(1))
    #expect(rig.count(.expire(rig.tasks()[0])) == 1)
    #expect(rig.count(.taskEnded(rig.tasks()[0])) == 1)
    #expect(rig.state() == .suspended)  // the handler ended it
  }

  // R-TASK-04, R-MAN-06
  @Test func aManifestMayAskForAnotherLimit() throws {
    var rig = try Rig([Manifest(identifier: "app", taskTime: .seconds(300))])
    try rig.leave(after: .beginTask(.download))
    #expect(rig.host.system.timeRemaining(of: rig.app) == .seconds(300))
    try rig.wait(299.999)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.state() == .suspended)
  }

  // R-TASK-14, R-SAMP-10
  @Test func aTaskThatIsNeverEndedGetsItsAppTerminated() throws {
    for end in TaskPolicy.End.allCases {
      var rig = try Rig { $0.tasks.unfinished = end }
      rig.host.behaviour.expiration = nil
      try rig.leave(after: .beginTask(.other))
      try rig.wait(185)
      #expect(rig.diagnoses().contains(.taskNeverEnded(rig.tasks()[0])))
      #expect(rig.state() == (end == .terminate ? .notRunning : .suspended))
      #expect(rig.count(.taskEnded(rig.tasks()[0])) == 1)
    }
  }

  // R-TASK-03, R-TASK-05
  @Test func cpuTimeIsALimit() throws {
    var rig = try Rig { $0.tasks.cpuTime = .milliseconds(5) }
    try rig.does(.launch)
    try rig.does(.beginTask(.image))
    try rig.does(.worked(.seconds(10)))  // in front it does not count
    try rig.does(.leave)
    try rig.does(.worked(.milliseconds(4)))
    #expect(rig.count(.expire(rig.tasks()[0])) == 0)
    try rig.does(.worked(.milliseconds(1)))
    #expect(rig.count(.expire(rig.tasks()[0])) == 1)
  }

  // R-TASK-03, R-PWR-01
  @Test func powerLossAndDisplaysEndTasksWhereSwitchedOn() throws {
    for isOn in [false, true] {
      for event in [SystemEvent.power(.battery), .displayActivated] {
        var rig = try Rig {
          $0.tasks.endsOnPowerLoss = isOn
          $0.tasks.endsOnDisplay = isOn
        }
        try rig.host.post(.power(.mains))
        try rig.leave(after: .beginTask(.upload))
        try rig.wait(6)
        try rig.host.post(event)
        #expect(rig.state() == (isOn ? .suspended : .background))
      }
    }
  }

  // R-TASK-03
  @Test func theWallClockLimitCanBeSwitchedOff() throws {
    var rig = try Rig { $0.tasks.wallClock = nil }
    try rig.leave(after: .beginTask(.upload))
    try rig.wait(86_400)
    #expect(rig.state() == .background)
    #expect(rig.host.system.timeRemaining(of: rig.app) == nil)
  }

  // R-TASK-15, R-TASK-11
  @Test func timeOfEligibleWorkCanBeRead() throws {
    var rig = try Rig { $0.tasks.eligible = [.upload] }
    try rig.leave(after: .workBegan(.upload))
    try rig.wait(60)
    #expect(rig.state() == .background && rig.host.system.timeRemaining(of: rig.app) == .seconds(120))
    try rig.wait(120)
    #expect(rig.state() == .suspended && rig.host.system.timeRemaining(of: rig.app) == .zero)
  }

  // R-TASK-06
  @Test func whoHasNoTaskIsNotDesignated() throws {
    var rig = try Rig([manifest("first"), manifest("second"), manifest("third")]) { $0.grace = .zero }
    try rig.does(.launch, 0)
    try rig.does(.launch, 1)
    try rig.wait(0)
    #expect(rig.state(0) == .suspended)
    try rig.does(.beginTask(.upload), 1)
    try rig.does(.launch, 2)
    try rig.wait(0)
    #expect(rig.state(1) == .background && rig.state(2) == .active)
  }

  // R-TASK-07, R-VOIP-06, R-VOIP-07
  @Test func anIncomingCallMayStartTheSwitch() throws {
    var rig = try Rig([manifest("first"), manifest("phone", [.voip])])
    try rig.suspend(1)
    try rig.does(.launch, 0)
    try rig.does(.data(bytes: 100), 1)
    try rig.does(.call("Ada"), 1)
    try rig.host.post(.answer(rig.prompts(1)[0], accepted: true))
    #expect(rig.state(0) == .background && rig.state(1) == .active)
  }

  // R-TASK-08
  @Test func theEndOfTheLastTaskMayTerminate() throws {
    var rig = try Rig { $0.tasks.finished = .terminate }
    try rig.leave(after: .beginTask(.upload))
    try rig.wait(10)
    try rig.does(.endTask(rig.tasks()[0]))
    #expect(rig.state() == .notRunning)
  }

  // R-TASK-09, R-MAN-06
  @Test func aDeclarationMayBeNeeded() throws {
    var settings = UserSettings()
    settings.completesTasks = true
    let declared = manifest().applying(settings)
    for (each, refused) in [(manifest(), true), (declared, false)] {
      var rig = try Rig([each]) { $0.tasks.needsDeclaration = true }
      try rig.does(.launch)
      try rig.does(.beginTask(.upload))
      #expect(rig.refusals() == (refused ? [.notDeclared] : []))
    }
  }

  // R-TASK-11, R-TASK-02
  @Test func eligibleWorkEarnsTimeUndeclared() throws {
    for kind in TaskKind.allCases {
      var rig = try Rig { $0.tasks.eligible = [.upload, .download, .storage, .image] }
      try rig.leave(after: .workBegan(kind))
      try rig.wait(30)
      #expect(rig.state() == (kind == .other ? .suspended : .background), "\(kind)")
      guard kind != .other else { continue }
      try rig.does(.workEnded(kind))
      #expect(rig.state() == .suspended)
    }
  }

  // R-TASK-11, R-SAMP-10
  @Test func eligibleWorkHasTheSameLimit() throws {
    var rig = try Rig { $0.tasks.eligible = [.upload] }
    try rig.leave(after: .workBegan(.upload))
    try rig.wait(180)
    #expect(rig.state() == .suspended)
  }

  // R-TASK-11
  @Test func theEndOfATaskLeavesEligibleWorkItsTime() throws {
    var rig = try Rig { $0.tasks.eligible = [.upload] }
    try rig.leave(after: .workBegan(.upload), .beginTask(.other))
    try rig.wait(10)
    try rig.does(.endTask(rig.tasks()[0]))
    try rig.wait(169.999)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.state() == .suspended)
  }

  // R-TASK-15
  @Test func theTimeThatRemainsCanBeRead() throws {
    var rig = try Rig()
    try rig.does(.launch)
    try rig.does(.beginTask(.upload))
    #expect(rig.host.system.timeRemaining(of: rig.app) == nil)
    try rig.does(.leave)
    try rig.wait(80)
    #expect(rig.host.system.timeRemaining(of: rig.app) == .seconds(100))
    try rig.does(.endTask(rig.tasks()[0]))
    #expect(rig.host.system.timeRemaining(of: rig.app) == .zero)
  }

  // R-TASK-16
  @Test func beginMayBeRefusedAndSaysWhy() throws {
    var rig = try Rig { $0.tasks.maximum = 1 }
    try rig.does(.beginTask(.other))
    try rig.does(.launch)
    try rig.does(.beginTask(.other))
    try rig.does(.beginTask(.other))
    #expect(rig.refusals() == [.notExecuting, .tooMany])
    rig.host.behaviour.expiration = nil
    try rig.does(.leave)
    try rig.wait(180)
    try rig.does(.endTask(rig.tasks()[0]))
    var off = try Rig { $0.tasks.isOn = false }
    try off.does(.launch)
    try off.does(.beginTask(.other))
    #expect(off.refusals() == [.notSupported])
    var exits = try Rig([manifest(exits: true)])
    try exits.does(.launch)
    try exits.does(.beginTask(.other))
    #expect(exits.refusals() == [.notSupported])
  }

  /// An app whose time in background is up, and which is told so.
  private func timeIsUp() throws -> Rig {
    var rig = try Rig()
    rig.host.behaviour.expiration = nil
    try rig.leave(after: .beginTask(.other))
    try rig.wait(181)
    return rig
  }

  // R-TASK-16
  @Test func beginIsRefusedWhileTimeIsUp() throws {
    var rig = try timeIsUp()
    try rig.does(.beginTask(.other))
    #expect(rig.refusals() == [.timeIsUp])
  }

  // R-TASK-13, R-TASK-16
  @Test func whoReturnsWhileItsTimeIsUpHasItAnew() throws {
    var rig = try timeIsUp()
    try rig.does(.bringForward)
    try rig.does(.leave)
    try rig.does(.beginTask(.other))
    try rig.wait(179.999)
    #expect(rig.state() == .background && rig.refusals().isEmpty)
    #expect(rig.tasks().map { rig.count(.expire($0)) } == [1, 0])
    try rig.wait(0.001)
    #expect(rig.tasks().map { rig.count(.expire($0)) } == [2, 1])
    try rig.wait(5)
    #expect(rig.state() == .notRunning)
  }

  // R-TASK-17
  @Test func anAppThatHoldsATaskAndDoesNothingLosesIt() throws {
    var rig = try Rig { $0.tasks.idleLimit = .seconds(20) }
    try rig.leave(after: .beginTask(.other))
    for _ in 0..<3 {
      try rig.wait(15)
      try rig.does(.worked(.milliseconds(1)))
    }
    #expect(rig.state() == .background)
    try rig.wait(20)
    #expect(rig.diagnoses().contains(.idleTask(rig.tasks()[0])))
    #expect(rig.state() == .suspended)
  }

  // R-TASK-18, R-MSG-09
  @Test func theSampleUploadsEndsAndNotifies() throws {
    var rig = try Rig()
    try rig.leave()
    try rig.does(.beginTask(.upload))
    try rig.wait(30)
    let note = LocalNotification(
      fireDate: .instant(rig.host.system.wallClock), body: "Upload done", action: "View Details")
    try rig.does(.schedule(note))
    try rig.does(.endTask(rig.tasks()[0]))
    try rig.wait(1)
    #expect(rig.state() == .suspended)
    #expect(rig.count(.notify(note)) == 1)
  }
}
