import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct AuthorizationTests {
  private func home() throws -> Coordinate { try place(53.3, -6.25) }
  private func away() throws -> Coordinate { moved(try home(), east: 3000, north: 0) }

  /// An app with a fence about home, outside of it and in the state that it gets by leaving.
  private func fenced(
    _ type: AuthorizationType, _ change: (inout LocationPolicy) -> Void = { _ in }
  ) throws -> LocationRig {
    var rig = try LocationRig(change: change)
    try rig.lives(.launch)
    try rig.allow(type)
    try rig.does(
      .start(.region(Fence(.circle(home(), radius: 100)), text: "You've arrived at the coffee shop")))
    try rig.see(away())
    try rig.lives(.leave)
    try rig.wait(120)
    return rig
  }

  private func arrive(_ rig: inout LocationRig) throws {
    for _ in 0..<3 {
      try rig.wait(5)
      try rig.see(home())
    }
  }

  // R-AUTH-01, R-AUTH-05, R-AUTH-06, R-AUTH-07, R-AUTH-11
  @Test func theUserIsAskedWithBothTextsAndTheAnswerHolds() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.does(.start(.standard(accuracy: 100)))
    #expect(rig.refusals() == [.notAuthorized])
    try rig.does(.requestAuthorization(.always))
    let (prompt, dialog) = try #require(rig.prompts.first)
    #expect(dialog.systemText == "Allow \"Maps\" to access your location even when you are not using it?")
    #expect(dialog.appText == "To remind you" && dialog.kind == .authorization)
    try rig.does(.requestAuthorization(.always))
    #expect(rig.refusals().last == .alreadyAsked)
    try rig.post(.answer(prompt, .allow))
    #expect(rig.system.authorization(of: rig.app) == .allowed(.always))
    try rig.does(.start(.standard(accuracy: 100)))
    #expect(rig.lastRequest != nil)
    #expect(throws: LocationSystemError(.unknownPrompt(prompt))) { try rig.post(.answer(prompt, .deny)) }
  }

  // R-AUTH-01, R-AUTH-06
  @Test func theDefaultTypeAppliesAndNeedsItsKeyToo() throws {
    for type in [AuthorizationType.whenInUse, .always] {
      var rig = try LocationRig { $0.defaultType = type }
      try rig.does(.requestAuthorization(nil))
      #expect(rig.prompts.map(\.1.type) == [type])
      var bare = try LocationRig([Manifest(identifier: "Bare")]) { $0.defaultType = type }
      try bare.does(.requestAuthorization(nil))
      #expect(bare.refusals() == [.missingKey(type.usageKey)] && bare.prompts.isEmpty)
    }
  }

  // R-AUTH-01
  @Test func furtherTypesCanBeDefined() throws {
    let fences = AuthorizationType(
      name: "fences only", usageKey: "NSLocationAlwaysUsageDescription",
      dialog: "Tell \"%@\" where you come by?",
      whenInUse: [.regions], whenNotInUse: [.regions])
    var rig = try fenced(fences)
    try arrive(&rig)
    #expect(rig.notices().map(\.crossing) == [.enter])
    try rig.does(.start(.significantChange()))
    #expect(rig.refusals() == [.notAuthorized])
  }

  // R-AUTH-08
  @Test func theDialogIsShownOncePerInstallationWhereThatIsSo() throws {
    for once in [true, false] {
      var rig = try LocationRig { $0.asksOnce = once }
      try rig.does(.requestAuthorization(nil))
      try rig.post(.answer(try #require(rig.prompts.last).0, .deny))
      try rig.does(.requestAuthorization(nil))
      #expect(rig.prompts.count == (once ? 1 : 2))
      if !once { try rig.post(.answer(try #require(rig.prompts.last).0, .deny)) }
      let before = rig.prompts.count
      try rig.does(.reinstalled)
      #expect(rig.system.authorization(of: rig.app) == .notDetermined)
      try rig.does(.requestAuthorization(nil))
      #expect(rig.prompts.count == before + 1)
    }
  }

  // R-AUTH-08, R-AUTH-11
  @Test func aDialogThatFailsIsNoAnswer() throws {
    var rig = try LocationRig { $0.dialogTime = .seconds(20) }
    try rig.does(.requestAuthorization(nil))
    try rig.post(.answer(try #require(rig.prompts.last).0, .failed))
    #expect(rig.system.authorization(of: rig.app) == .notDetermined)
    try rig.does(.requestAuthorization(nil))
    let deadline = rig.system.nextDeadline
    #expect(rig.prompts.count == 2 && deadline == rig.host.now + .seconds(20))
    try rig.wait(20)
    let second = try #require(rig.prompts.last).0
    #expect(rig.log.contains(.dismiss(second)) && rig.system.authorization(of: rig.app) == .notDetermined)
    try rig.does(.requestAuthorization(nil))
    try rig.post(.answer(try #require(rig.prompts.last).0, .allow))
    #expect(rig.system.authorization(of: rig.app) == .allowed(.whenInUse))
    // Without a limit it stays.
    var patient = try LocationRig { $0.dialogTime = nil }
    try patient.does(.requestAuthorization(nil))
    let none = patient.system.nextDeadline
    #expect(none == nil)
  }

  // R-AUTH-01
  @Test func refusingMoreIsNotRefusingWhatWasAllowed() throws {
    var rig = try LocationRig()
    try rig.does(.requestAuthorization(.whenInUse))
    try rig.post(.answer(try #require(rig.prompts.last).0, .allow))
    try rig.does(.requestAuthorization(.always))
    try rig.post(.answer(try #require(rig.prompts.last).0, .deny))
    #expect(rig.system.authorization(of: rig.app) == .allowed(.whenInUse))
  }

  // R-AUTH-05, R-AUTH-10, R-AUTH-24
  @Test func theSettingsPaneShowsAndSetsEachApp() throws {
    var rig = try LocationRig([
      Manifest(identifier: "Bare"), Manifest(identifier: "Maps", usageDescriptions: LocationRig.keys),
    ])
    #expect(
      rig.system.settings.map(\.identifier) == ["Maps"] && rig.system.settings[0].status == .notDetermined)
    try rig.lives(.launch, 1)
    try rig.does(.requestAuthorization(nil), 1)
    try rig.does(.setAuthorization(.allowed(.whenInUse)), 1)
    // What the user chose there answers the dialog.
    let prompt = try #require(rig.prompts.first).0
    #expect(rig.log.contains(.dismiss(prompt)))
    try rig.does(.start(.standard(accuracy: 10)), 1)
    try rig.see(home())
    try rig.does(.setAuthorization(.denied), 1)
    try rig.wait(1)
    try rig.see(home())
    #expect(rig.notices(1).count == 1 && rig.sources.last == .some(nil))
    // It goes on running without.
    #expect(rig.host.system.state(of: rig.apps[1]) == .active)
    try rig.does(.setAuthorization(.allowed(.whenInUse)), 1)
    try rig.wait(1)
    try rig.see(home())
    #expect(rig.notices(1).count == 2)
  }

  // R-AUTH-02, R-AUTH-03, R-AUTH-04, R-AUTH-12
  @Test func factorsDecideWhetherAnAppIsInUse() throws {
    func count(
      _ type: AuthorizationType, class appClass: AppClass = .ordinary, voice: Bool = false,
      _ change: (inout LocationPolicy) -> Void = { _ in }
    ) throws -> Int {
      // Something else keeps it in background, so that only permission decides.
      var rig = try LocationRig(class: appClass, change: change)
      try rig.lives(.launch)
      try rig.allow(type)
      try rig.does(.voice(voice))
      try rig.does(.start(.standard(accuracy: 10)))
      try rig.lives(.leave)
      #expect(rig.host.system.state(of: rig.app) == .background)
      try rig.see(home())
      return rig.notices().count
    }
    #expect(try count(.whenInUse) == 0)
    #expect(try count(.always) == 1)
    #expect(try count(.whenInUse, voice: true) == 1)
    #expect(try count(.whenInUse, voice: true) { $0.inUseFactors = [.visible] } == 0)
    #expect(try count(.whenInUse, class: .exercise) == 1)
    #expect(try count(.whenInUse, class: .exercise) { $0.inUseFactors.remove(.appClass) } == 0)
    #expect(try count(.whenInUse, class: .navigation) == 0)
    #expect(try count(.whenInUse, class: .navigation) { $0.inUseClasses = [.navigation] } == 1)
  }

  // R-AUTH-09
  @Test func theUserIsRemindedOfUseInBackground() throws {
    var rig = try LocationRig { $0.reminder = .seconds(3600) }
    try rig.lives(.launch)
    try rig.allow(.always)
    try rig.does(.start(.tracking(accuracy: 10)))
    try rig.see(home())
    try rig.lives(.leave)
    for _ in 0..<7 {
      try rig.wait(600)
      try rig.see(home())
    }
    let (prompt, dialog) = try #require(rig.prompts.first)
    #expect(rig.prompts.count == 1 && dialog.kind == .reminder && dialog.appText == "To remind you")
    #expect(dialog.systemText.hasPrefix("\"Maps\" has been using your location in the background"))
    let before = rig.notices().count
    try rig.post(.answer(prompt, .deny))
    try rig.wait(1)
    try rig.see(home())
    #expect(rig.notices().count == before && rig.system.authorization(of: rig.app) == .denied)
    // To continue changes nothing, and is not asked again; without the option nobody is reminded.
    for (reminder, asked) in [(Duration?.some(.seconds(3600)), 1), (nil, 0)] {
      var other = try LocationRig { $0.reminder = reminder }
      try other.lives(.launch)
      try other.allow(.always)
      try other.does(.start(.tracking(accuracy: 10)))
      try other.lives(.leave)
      for _ in 0..<20 {
        try other.wait(600)
        try other.see(home())
        if let (prompt, _) = other.prompts.last, other.prompts.count == 1 {
          _ = try? other.post(.answer(prompt, .allow))
        }
      }
      #expect(other.prompts.count == asked && other.notices().count == 20)
    }
  }

  // R-AUTH-13, R-AUTH-14, R-AUTH-19, R-AUTH-20, R-GEO-06
  @Test func theUserIsAlertedAndDecides() throws {
    for answer in AlertAnswer.allCases {
      var rig = try fenced(.whenInUse)
      #expect(rig.host.system.state(of: rig.app) == .suspended)
      try arrive(&rig)
      let (alert, told) = try #require(rig.alerts.first)
      #expect(rig.alerts.count == 1 && told.app == "Maps" && told.text == "You've arrived at the coffee shop")
      #expect(told.systemText.contains("it is told that you crossed"))
      #expect(rig.notices().isEmpty && rig.host.system.state(of: rig.app) == .suspended)
      try rig.post(.alert(alert, answer))
      #expect(rig.notices().map(\.crossing) == (answer == .open ? [.enter] : []))
      #expect(rig.host.system.state(of: rig.app)?.isForeground == (answer == .open))
      #expect(throws: LocationSystemError(.unknownAlert(alert))) { try rig.post(.alert(alert, .open)) }
    }
  }

  // R-AUTH-20
  @Test func openingLaunchesAnAppThatWasEnded() throws {
    var rig = try fenced(.whenInUse)
    try rig.lives(.terminate)
    try rig.wait(10)
    try arrive(&rig)
    try rig.post(.alert(try #require(rig.alerts.first).0, .open))
    #expect(rig.notices().map(\.crossing) == [.enter] && rig.host.system.state(of: rig.app) == .active)
  }

  // R-AUTH-13, R-AUTH-14
  @Test func anAppThatMayBeToldIsToldWithoutAnAlertUnlessAllAre() throws {
    for always in [false, true] {
      var rig = try fenced(.always) { $0.alertsAlways = always }
      try arrive(&rig)
      #expect(rig.alerts.count == (always ? 1 : 0) && rig.notices().count == (always ? 0 : 1))
    }
  }

  // R-AUTH-15, R-AUTH-16, R-AUTH-17, R-AUTH-18, R-AUTH-21
  @Test(arguments: SecondCheck.allCases, [false, true])
  func eachFormAsksWhereItShould(_ form: SecondCheck, _ asynchronous: Bool) throws {
    func answerQueries(_ rig: inout LocationRig, _ seen: inout Int) throws {
      while rig.queries.count > seen {
        let query = rig.queries[seen]
        seen += 1
        try rig.post(.query(query))
        guard case .reply(query, let permitted)? = rig.log.last else { continue }
        try rig.post(.reply(query, permitted: permitted))
      }
    }
    var rig = try fenced(.whenInUse) {
      $0.secondCheck = form
      $0.asksAsynchronously = asynchronous
    }
    try arrive(&rig)
    #expect(rig.queries.count == (asynchronous && form != .afterOpen ? 1 : 0))
    var seen = 0
    try answerQueries(&rig, &seen)
    let alert = try #require(rig.alerts.first).0
    // Revoked between alert and open: nothing is delivered, whatever the form.
    var revoked = rig
    try revoked.does(.setAuthorization(.denied))
    try revoked.post(.alert(alert, .open))
    var seenThere = seen
    try answerQueries(&revoked, &seenThere)
    #expect(revoked.notices().isEmpty)
    #expect((revoked.host.system.state(of: revoked.app)?.isForeground == true) == (form == .beforeAlert))
    try rig.post(.alert(alert, .open))
    try answerQueries(&rig, &seen)
    #expect(rig.notices().map(\.crossing) == [.enter])
    #expect(rig.queries.count == (asynchronous ? (form == .both ? 2 : 1) : 0))
    #expect(throws: LocationSystemError.self) { try rig.post(.query(QueryID(number: 999))) }
  }

  // R-AUTH-21
  @Test func stoppingMonitoringTakesTheAlertAway() throws {
    var rig = try fenced(.whenInUse)
    try arrive(&rig)
    let alert = try #require(rig.alerts.first).0
    try rig.does(.stop(try #require(rig.lastRequest)))
    #expect(rig.log.contains(.withdraw(alert)))
    #expect(throws: LocationSystemError(.unknownAlert(alert))) { try rig.post(.alert(alert, .open)) }
  }

  // R-AUTH-22
  @Test func theIndicatorIsSolidForUpdatesAndHollowForFences() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.always)
    try rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
    try rig.does(.start(.significantChange()))
    let change = try #require(rig.lastRequest)
    try rig.does(.stop(change))
    try rig.does(.setAuthorization(.denied))
    #expect(rig.indicators == [.hollow, .solid, .hollow, .none])
  }

  // R-AUTH-02, R-AUTH-23
  @Test func theBannerStaysWhileATrackingAppIsOutOfSight() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.whenInUse)
    try rig.does(.start(.tracking(accuracy: 10)))
    let request = try #require(rig.lastRequest)
    #expect(rig.banners.isEmpty)
    try rig.lives(.leave)
    #expect(rig.banners == [true])
    try rig.see(home())
    #expect(rig.notices().count == 1)
    try rig.lives(.bringForward)
    #expect(rig.banners == [true, false])
    try rig.lives(.leave)
    try rig.does(.stop(request))
    #expect(rig.banners == [true, false, true, false])
    // Who is allowed always needs none, and where the factor is off tracking does not go on.
    var always = try LocationRig()
    try always.lives(.launch)
    try always.allow(.always)
    try always.does(.start(.tracking(accuracy: 10)))
    try always.lives(.leave)
    #expect(always.banners.isEmpty)
    var off = try LocationRig { $0.inUseFactors.remove(.quickReturn) }
    try off.lives(.launch)
    try off.allow(.whenInUse)
    try off.does(.start(.tracking(accuracy: 10)))
    try off.lives(.leave)
    try off.see(home())
    #expect(off.banners.isEmpty && off.notices().isEmpty)
  }

  // R-AUTH-06, R-AUTH-12
  @Test func policiesOutOfRangeAreRefused() throws {
    let changes: [(inout LocationPolicy) -> Void] = [
      { $0.significantDistance = 0 }, { $0.dialogTime = .zero }, { $0.reminder = .seconds(-1) },
      { $0.sampling.haste = 0 }, { $0.monitor.confidence = 2 },
    ]
    for change in changes { #expect(throws: LocationError.self) { try LocationRig(change: change) } }
    var system = try LocationSystem()
    #expect(throws: LocationSystemError(.unknownApp(AppID(3)))) {
      try system.handle(.app(AppID(3), .requestAuthorization(nil)), at: .zero)
    }
  }
}
