import OpportuneApps
import OpportuneLocation
import TestSupport
import Testing

/// Apps and their locations with a scripted user, connected as a host connects them.
@Suite(.bounded) struct ScriptedInterfaceTests {
  private struct Host {
    var rig: LocationRig
    let user: ScriptedLocationInterface
    private var served = 0
    private var banner: Task<Bool, Never>?

    init(_ user: ScriptedLocationInterface, change: (inout LocationPolicy) -> Void = { _ in }) throws {
      rig = try LocationRig(change: change)
      self.user = user
    }

    /// Shows what is new, and does what the user says, until neither has more.
    mutating func serve() async throws {
      while served < rig.log.count {
        let effect = rig.log[served]
        served += 1
        switch effect {
        case .ask(let prompt, _, let dialog): try rig.post(.answer(prompt, await user.ask(dialog)))
        case .alert(let alert, _, let text): try rig.post(.alert(alert, await user.alert(text) ?? .close))
        case .indicator(_, let indicator): await user.show(indicator, app: "Maps")
        case .banner(_, true):
          let user = user
          banner = Task { await user.offerReturn(to: "Maps") }
        case .banner(_, false):
          banner?.cancel()
          _ = await banner?.value
        default: continue
        }
      }
    }

    /// Whether the user comes back to the app by its banner.
    mutating func comesBack() async throws {
      #expect(await banner?.value == true)
      try rig.lives(.bringForward)
      try await serve()
    }
  }

  private func home() throws -> Coordinate { try place(53.3, -6.25) }

  private func arrive(_ host: inout Host) async throws {
    try host.rig.see(moved(home(), east: 3000, north: 0))
    try await host.serve()
    for _ in 0..<3 {
      try host.rig.wait(60)
      try host.rig.see(home())
      try await host.serve()
    }
  }

  // R-AUTH-07, R-AUTH-11, R-AUTH-19, R-AUTH-20
  @Test(arguments: [AlertAnswer.open, .close]) func aUserAllowsAndAnswersAnAlert(answer: AlertAnswer)
    async throws
  {
    var host = try Host(ScriptedLocationInterface(dialogs: [.allow], alerts: [answer]))
    try host.rig.lives(.launch)
    try host.rig.does(.requestAuthorization(.whenInUse))
    try await host.serve()
    try host.rig.does(.start(.region(Fence(.circle(home(), radius: 100)), text: "You've arrived")))
    try host.rig.lives(.leave)
    try host.rig.wait(120)
    try await arrive(&host)
    #expect(host.rig.notices().map(\.crossing) == (answer == .open ? [.enter] : []))
    let shown = host.user.shown
    guard case .dialog(let dialog)? = shown.first, case .alert(let alert)? = shown.last(where: \.isAlert)
    else {
      Issue.record("\(shown)")
      return
    }
    #expect(dialog.appText == "To show the way" && dialog.kind == .authorization)
    #expect(alert.app == "Maps" && alert.text == "You've arrived" && alert.systemText.contains("crossed"))
  }

  // R-AUTH-19
  @Test func anAlertSaysWhichWayTheBorderWasCrossed() async throws {
    var host = try Host(ScriptedLocationInterface(dialogs: [.allow], alerts: [.close, .close]))
    try host.rig.lives(.launch)
    try host.rig.does(.requestAuthorization(.whenInUse))
    try await host.serve()
    let text = CrossingText(entering: "You've arrived", leaving: "Lights off?")
    try host.rig.does(.start(.region(Fence(.circle(home(), radius: 100)), text: text)))
    try host.rig.lives(.leave)
    try host.rig.wait(120)
    try await arrive(&host)
    for _ in 0..<3 {
      try host.rig.wait(5)
      try host.rig.see(moved(home(), east: 3000, north: 0))
    }
    try await host.serve()
    let alerts = host.user.shown.compactMap { if case .alert(let alert) = $0 { alert.text } else { nil } }
    #expect(alerts == ["You've arrived", "Lights off?"])
  }

  // R-AUTH-08, R-AUTH-20
  @Test func whatTheScriptSaysNothingOfIsNotAnswered() async throws {
    let user = ScriptedLocationInterface()
    var host = try Host(user)
    try host.rig.lives(.launch)
    try host.rig.does(.requestAuthorization(.always))
    try await host.serve()
    #expect(host.rig.system.authorization(of: host.rig.app) == .notDetermined && user.shown.count == 1)
    try host.rig.does(.requestAuthorization(.always))
    #expect(host.rig.prompts.count == 2, "no answer is no no")
  }

  // R-AUTH-22
  @Test func theSignFollowsWhatTheAppGets() async throws {
    var host = try Host(ScriptedLocationInterface())
    try host.rig.lives(.launch)
    try host.rig.allow(.always)
    try host.rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
    try await host.serve()
    try host.rig.does(.start(.tracking(accuracy: 10)))
    try await host.serve()
    try host.rig.does(.setAuthorization(.denied))
    try await host.serve()
    let signs = [LocationIndicator.hollow, .solid, .none]
    #expect(host.user.shown == signs.map { .indicator($0, app: "Maps") })
  }

  // R-AUTH-23
  @Test func theBannerBringsBackOnceAndIsTakenAwayWithTracking() async throws {
    var host = try Host(ScriptedLocationInterface(returns: 1))
    try host.rig.lives(.launch)
    try host.rig.allow(.whenInUse)
    try host.rig.does(.start(.tracking(accuracy: 10)))
    let request = try #require(host.rig.lastRequest)
    try host.rig.lives(.leave)
    try await host.serve()
    try await host.comesBack()
    #expect(host.rig.host.system.state(of: host.rig.app)?.isForeground == true)
    try host.rig.lives(.leave)
    try await host.serve()
    try host.rig.does(.stop(request))
    try await host.serve()
    let banners = host.user.shown.filter { $0 == .banner(app: "Maps") || $0 == .noBanner(app: "Maps") }
    #expect(banners == [.banner(app: "Maps"), .banner(app: "Maps"), .noBanner(app: "Maps")])
  }
}

extension ScriptedLocationInterface.Shown {
  fileprivate var isAlert: Bool { if case .alert = self { true } else { false } }
}
