import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct MessageTests {
  // R-MSG-01, R-MSG-02, R-MSG-03
  @Test func everyStateReceivesAndOnlyTheSuspendedAreReanimated() throws {
    let places: [(String, (inout Rig) throws -> Void, LifecycleState, Int)] = [
      ("front", { try $0.does(.launch) }, .active, 0),
      ("behind", { try $0.leave() }, .background, 0),
      ("suspended", { try $0.suspend() }, .background, 1),
      (
        "hibernated",
        {
          try $0.suspend()
          try $0.does(.hibernate)
        }, .background, 1
      ),
    ]
    for (name, prepare, state, resumed) in places {
      var rig = try Rig()
      try prepare(&rig)
      try rig.does(.message(Message("mail")))
      #expect(rig.delivered() == ["mail"], "\(name)")
      #expect(rig.state() == state, "\(name)")
      #expect(rig.count(.lifecycle(.resumeExecution)) == resumed, "\(name)")
    }
  }

  // R-MSG-02
  @Test func contentHasTheTypeThatItWasGiven() throws {
    struct Letter: Codable, Equatable {
      var from: String
      var pages: Int
    }
    let letter = Letter(from: "Ada", pages: 3)
    let message = try Message("letter", content: letter)
    #expect(try message.content(as: Letter.self) == letter)
    // As a push brings it.
    #expect(Message("letter", payload: ["content": #"{"from":"Ada","pages":3}"#]) == message)
    for wrong in [Message("letter"), Message("letter", payload: ["content": #"{"from":"Ada"}"#])] {
      let error = #expect(throws: MessageContentError.self) { try wrong.content(as: Letter.self) }
      #expect(error?.kind == "letter" && error?.type == "Letter")
    }
    #expect(throws: MessageContentError.self) { try Message("number", content: Double.nan) }
  }

  // R-MSG-04
  @Test func aMessageMayLaunch() throws {
    for launches in [true, false] {
      var rig = try Rig { $0.eventsLaunchApps = launches }
      try rig.does(.message(Message("mail")))
      #expect(rig.state() == (launches ? .background : .notRunning))
      #expect(rig.count(.launched(.message)) == (launches ? 1 : 0))
      #expect(rig.delivered() == (launches ? ["mail"] : []))
    }
  }

  // R-MSG-05
  @Test func theUserMayBeAskedInstead() throws {
    for accepts in [true, false] {
      var rig = try Rig { $0.messages.delivery = .ask }
      try rig.suspend()
      try rig.does(.message(Message("mail")))
      #expect(rig.state() == .suspended)
      let prompt = rig.prompts()[0]
      try rig.host.post(.answer(prompt, accepted: accepts))
      #expect(rig.state() == (accepts ? .active : .suspended))
      #expect(rig.delivered() == (accepts ? ["mail"] : []))
      #expect(throws: AppsError(.unknownPrompt(prompt))) {
        try rig.host.post(.answer(prompt, accepted: true))
      }
    }
  }

  // R-MSG-06
  @Test func anAppMayAnswerWithADialog() throws {
    var rig = try Rig()
    rig.host.behaviour.handling = .seconds(2)
    try rig.suspend()
    try rig.does(.message(Message("mail")))
    try rig.does(.present("You have mail"))
    try rig.host.post(.answer(rig.prompts()[0], accepted: true))
    #expect(rig.state() == .active)
  }

  // R-MSG-07
  @Test func afterwardsItsServiceGoverns() throws {
    var rig = try Rig([manifest("plain"), manifest("player", [.audio])])
    try rig.suspend(0)
    try rig.suspend(1)
    for index in 0..<2 {
      try rig.does(.message(Message("mail")), index)
      if index == 1 { try rig.does(.audioBegan(.play), index) }
      try rig.wait(20)
    }
    #expect(rig.state(0) == .suspended && rig.state(1) == .background)
  }

  // R-MSG-03
  @Test func whoNeverHandlesAMessageIsSuspendedAfterItsTime() throws {
    var rig = try Rig()
    rig.host.behaviour.handling = nil
    try rig.suspend()
    try rig.does(.message(Message("mail")))
    try rig.wait(9.999)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.state() == .suspended)
  }

  // R-MSG-08
  @Test func messagesMayComeEveryFiveMinutes() throws {
    var rig = try Rig { $0.messages.delivery = .batch(.seconds(300)) }
    try rig.suspend()
    for kind in ["a", "b", "c"] { try rig.does(.message(Message(kind))) }
    try rig.host.run(until: .seconds(299.999))
    #expect(rig.delivered() == [])
    try rig.host.run(until: .seconds(300))
    #expect(rig.delivered() == ["a", "b", "c"])
    #expect(rig.count(.lifecycle(.resumeExecution)) == 1)
  }

  // R-COAL-01, R-COAL-02, R-COAL-03
  @Test func fourRotationsAreHeardOnce() throws {
    var rig = try Rig()
    try rig.suspend()
    for way in ["landscape", "portrait", "landscape"] { try rig.does(.changed(kind: "orientation", to: way)) }
    try rig.does(.changed(kind: "address book", to: "2"))
    try rig.does(.changed(kind: "camera roll", to: "9"))
    try rig.does(.changed(kind: "weather", to: "rain"))
    let start = rig.host.log.count
    try rig.does(.bringForward)
    let heard = rig.actions(from: start).compactMap {
      if case .coalesced(let changes) = $0 { changes } else { nil }
    }
    #expect(heard.count == 1)
    #expect(
      heard.first?.map { "\($0.kind)=\($0.value)" } == [
        "address book=2", "camera roll=9", "orientation=landscape", "weather=rain",
      ])
  }

  // R-COAL-01
  @Test func whoDoesNotRunMissesNoChange() throws {
    var rig = try Rig()
    try rig.does(.changed(kind: "orientation", to: "landscape"))
    try rig.does(.launch)
    #expect(rig.actions().allSatisfy { if case .coalesced = $0 { false } else { true } })
  }

  // R-VOIP-04
  @Test func dataReanimatesAndIsPassed() throws {
    var rig = try Rig([manifest("phone", [.voip])])
    try rig.suspend()
    try rig.does(.data(bytes: 12))
    #expect(rig.state() == .background)
    #expect(rig.count(.data(bytes: 12)) == 1)
    var plain = try Rig()
    try plain.suspend()
    #expect(throws: AppsError(.missingMode(plain.app, .voip))) { try plain.does(.data(bytes: 1)) }
  }

  // R-VOIP-05
  @Test func aHeartbeatIsIssuedAndItSleepsAgain() throws {
    var rig = try Rig([manifest("phone", [.voip])])
    try rig.does(.launch)
    #expect(throws: AppsError(.heartbeatTooShort(rig.app, .seconds(1), minimum: .seconds(600)))) {
      try rig.does(.heartbeat(.seconds(1)))
    }
    try rig.does(.heartbeat(.seconds(600)))
    try rig.does(.leave)
    try rig.wait(5 + 600 * 10)
    #expect(rig.count(.heartbeat) >= 9)
    try rig.wait(1)
    #expect(rig.state() == .suspended)
  }

  // R-VOIP-02, R-LIFE-23, R-SYS-02
  @Test func whatAnAppAskedForEndsWithItOrTheService() throws {
    for isOn in [true, false] {
      var rig = try Rig([manifest("phone", [.voip])]) { $0.network.isOn = isOn }
      try rig.leave(after: .heartbeat(.seconds(600)), .wakesOn([.heartbeat]))
      try rig.wait(700)
      #expect(rig.count(.heartbeat) == (isOn ? 1 : 0))
      try rig.does(.terminate)
      try rig.suspend()
      try rig.wait(1300)
      #expect(rig.count(.heartbeat) == (isOn ? 1 : 0))
      try rig.does(.message(Message("mail")))
      #expect(rig.delivered() == ["mail"])
    }
  }

  // R-VOIP-03
  @Test func whoRunsAnywayNeedsNoHeartbeatToWakeIt() throws {
    var rig = try Rig([manifest("phone", [.voip])])
    rig.host.behaviour.handling = .seconds(8)
    try rig.leave(after: .heartbeat(.seconds(600)))
    try rig.wait(5 + 595)
    try rig.does(.message(Message("mail")))
    try rig.wait(7)
    #expect(rig.state() == .background && rig.count(.heartbeat) == 0)
    try rig.wait(601)
    #expect(rig.count(.heartbeat) == 1)  // counted from its last suspension
  }

  // R-VOIP-06, R-VOIP-07
  @Test func anIgnoredCallGoesBackToSleep() throws {
    var rig = try Rig([manifest("phone", [.voip])])
    rig.host.behaviour.handling = nil
    try rig.suspend()
    try rig.does(.data(bytes: 12))
    try rig.does(.call("Ada"))
    #expect(rig.actions().contains { if case .ask(_, .call("Ada")) = $0 { true } else { false } })
    #expect(rig.state() == .background)  // until the user has said something
    try rig.host.post(.answer(rig.prompts()[0], accepted: false))
    #expect(rig.state() == .suspended)
    // Who executes nothing can ask for nothing.
    #expect(throws: AppsError(.notExecuting(rig.app, .suspended))) { try rig.does(.call("Bob")) }
  }

  // R-MAN-02
  @Test func whatAFetchBringsChangesTheInterval() throws {
    for result in FetchResult.allCases {
      var behaviour = Behaviour()
      behaviour.fetchResult = result
      var rig = try Rig([manifest("news", [.fetch])], behaviour: behaviour)
      try rig.suspend()
      try rig.wait(86_400)
      let count = rig.count(.fetch)
      switch result {
      case .newData: #expect(count == 95)
      case .noData: #expect((8...12).contains(count))
      case .failed: #expect((9...20).contains(count))
      }
      #expect(rig.state() == .suspended)
    }
  }

  // R-MAN-02
  @Test func eachResultHasItsOwnInterval() throws {
    var rig = try Rig([manifest("news", [.fetch])]) { $0.fetch.longest = .seconds(100_000) }
    try rig.leave()
    // From the end of a fetch to the next: twice, twice, half, and half as much again.
    var interval: Int64 = 900
    for (result, next) in [(.noData, 1800), (.noData, 3600), (.newData, 1800), (.failed, 2700)]
      as [(FetchResult, Int64)]
    {
      rig.host.behaviour.fetchResult = result
      rig.host.behaviour.fetch = .zero
      let count = rig.count(.fetch)
      try rig.host.run(for: .seconds(interval) - .nanoseconds(1))
      #expect(rig.count(.fetch) == count)
      try rig.host.run(for: .nanoseconds(1))
      #expect(rig.count(.fetch) == count + 1, "\(result)")
      interval = next
    }
    // Without an answer in time it has failed.
    rig.host.behaviour.fetch = nil
    try rig.wait(2700 + 30)
    #expect(rig.diagnoses().contains(.fetchOverrun))
    let count = rig.count(.fetch)
    try rig.host.run(for: .seconds(4050) - .nanoseconds(1))
    #expect(rig.count(.fetch) == count)
    try rig.host.run(for: .nanoseconds(1))
    #expect(rig.count(.fetch) == count + 1)
  }

  // R-MAN-02
  @Test func fetchesAreCountedFromTheLastTimeInFront() throws {
    var rig = try Rig([manifest("news", [.fetch])])
    try rig.leave()
    try rig.wait(600)
    try rig.does(.bringForward)
    try rig.does(.leave)
    try rig.wait(899.999)
    #expect(rig.count(.fetch) == 0)
    try rig.wait(0.001)
    #expect(rig.count(.fetch) == 1)
  }

  // R-MAN-02
  @Test func aFetchHasThirtySeconds() throws {
    var behaviour = Behaviour()
    behaviour.fetch = nil
    var rig = try Rig([manifest("news", [.fetch])], behaviour: behaviour)
    try rig.leave()
    try rig.wait(900 + 29.999)
    #expect(rig.state() == .background)
    try rig.wait(0.001)
    #expect(rig.state() == .suspended)
    #expect(rig.diagnoses().contains(.fetchOverrun))
  }
}
