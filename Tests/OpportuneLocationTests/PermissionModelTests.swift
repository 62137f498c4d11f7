import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

/// All orders of the actions of users, apps and messages around one fence, and around one request for
/// updates. Each is checked against a model that receives the same events and does not know the
/// implementation. With any check removed, some order must break a rule.
@Suite(.bounded) struct PermissionModelTests {
  enum Rule: String, Hashable {
    /// A location reached an app that might not have it at that instant.
    case delivered
    /// A request was accepted of an app without permission.
    case accepted
    /// The user was alerted on behalf of an app that had no permission when the answer was given.
    case alerted
    /// An app was opened for a crossing although the last answer was that it has no permission.
    case opened
    /// An app learned of a crossing that the user had closed.
    case closed
    /// The user opened, nothing was taken back, and the app was not told; or it had updates and was not given
    /// a fix.
    case withheld
  }

  enum Step: Hashable, CaseIterable {
    case start, cross, revoke, allow, die, leave, forward, query, reply, open, close
    case ask, grant, refuse, update, fix
  }

  /// How often each step may be done around a fence, and around updates; others as often as there is
  /// something to answer.
  static let aroundFence: [Step: Int] = [
    .start: 1, .cross: 1, .revoke: 1, .allow: 2, .die: 1, .leave: 1, .forward: 2, .ask: 0, .update: 0,
    .fix: 0,
  ]
  static let aroundUpdates: [Step: Int] = [
    .start: 0, .cross: 0, .revoke: 1, .allow: 1, .die: 1, .leave: 1, .forward: 2, .ask: 2, .update: 1,
    .fix: 2,
  ]

  /// The system, the messages on their way, and what the model knows.
  struct World {
    var system: LocationSystem
    let app = AppID(0)
    var status = AuthorizationStatus.notDetermined
    var state = LifecycleState.notRunning
    var asked: [QueryID] = []
    var answered: [(QueryID, Bool)] = []
    var alerts: [AlertID] = []
    var lastAnswer = true
    var closedAll = false
    var broken: Set<Rule> = []
    var prompts: [LocationPromptID] = []
    /// What the app has been told, and whether it has a request for updates.
    var told = 0
    var hasUpdates = false
    var wasOpened = false
    /// How often each step may still be done.
    var budget: [Step: Int]

    struct Key: Hashable {
      var permissions: [AppID: AppLocation]
      var flows: [AlertID: Flow]
      var asked: [QueryID]
      var answered: [String]
      var alerts: [AlertID]
      var last: [Bool]
      var broken: Set<Rule>
      var budget: [Step: Int]
    }

    var key: Key {
      Key(
        permissions: system.apps, flows: system.flows, asked: asked, answered: answered.map { "\($0)" },
        alerts: alerts, last: [lastAnswer, closedAll, hasUpdates, wasOpened, told > 0, !prompts.isEmpty],
        broken: broken, budget: budget)
    }

    var mayHave: Bool {
      switch status {
      case .allowed(.always): true
      case .allowed(.whenInUse): state.isForeground
      default: false
      }
    }

    func can(_ step: Step) -> Bool {
      if budget[step] == 0 { return false }
      return switch step {
      case .start: true
      case .cross: !system.byFence.isEmpty
      case .revoke: status != .denied
      case .allow: status != .allowed(.whenInUse)
      case .die: state != .notRunning
      case .leave: state.isForeground
      case .forward: !state.isForeground
      case .query: !asked.isEmpty
      case .reply: !answered.isEmpty
      case .open, .close: !alerts.isEmpty
      case .grant, .refuse: !prompts.isEmpty
      case .ask, .fix: true
      case .update: !hasUpdates
      }
    }

    mutating func does(_ step: Step) throws {
      if let left = budget[step] { budget[step] = left - 1 }
      switch step {
      case .start: try post(.app(app, .start(.region(Fence(.circle(place(0, 0), radius: 100))))))
      case .cross:
        guard let fence = system.byFence.keys.first else { return }
        // As the monitor would tell; its own decisions have tests of their own.
        system.happened(Crossing(fence: fence, kind: .enter, at: system.now, confidence: 1, isInitial: false))
        try post(.cell(0))
      case .revoke:
        status = .denied
        try post(.app(app, .setAuthorization(.denied)))
      case .allow:
        status = .allowed(.whenInUse)
        try post(.app(app, .setAuthorization(status)))
      case .die: try move(.notRunning)
      case .leave: try move(.background)
      case .forward: try move(.active)
      case .query: try post(.query(asked.removeFirst()))
      case .reply:
        let (query, permitted) = answered.removeFirst()
        lastAnswer = permitted
        try? post(.reply(query, permitted: permitted))
      case .ask: try post(.app(app, .requestAuthorization(.whenInUse)))
      case .grant:
        status = .allowed(.whenInUse)
        try post(.answer(prompts.removeFirst(), .allow))
      case .refuse:
        if status == .notDetermined { status = .denied }
        try post(.answer(prompts.removeFirst(), .deny))
      case .update: try post(.app(app, .start(.standard(accuracy: 10))))
      case .fix:
        let before = told
        // Later than the one before.
        let time = system.now + .seconds(1)
        try post(.fix(Fix(place(0, 0), accuracy: Accuracy(standardDeviation: 5), time: time)), at: time)
        if (told > before) != (hasUpdates && mayHave) { broken.insert(.withheld) }
      case .open:
        wasOpened = true
        try post(.alert(alerts.removeFirst(), .open))
      case .close:
        closedAll = true
        try post(.alert(alerts.removeFirst(), .close))
      }
      let isOver = system.flows.isEmpty && asked.isEmpty && answered.isEmpty
      if wasOpened, isOver, told == 0, budget[.revoke] == 1, budget[.die] == 1 { broken.insert(.withheld) }
    }

    private mutating func move(_ state: LifecycleState) throws {
      self.state = state
      try post(.app(app, .moved(state)))
    }

    private mutating func post(_ event: LocationEvent, at moment: Moment? = nil) throws {
      let mayAsk = status != .denied && status != .notDetermined
      for effect in try system.handle(event, at: moment ?? system.now) {
        switch effect {
        case .started:
          if case .app(_, .start(.standard)) = event { hasUpdates = true }
          if hasUpdates ? !mayHave : !mayAsk { broken.insert(.accepted) }
        case .ended: hasUpdates = false
        case .ask(let prompt, _, _): prompts.append(prompt)
        case .dismiss(let prompt): prompts.removeAll { $0 == prompt }
        case .deliver:
          told += 1
          if !mayHave { broken.insert(.delivered) }
          if closedAll { broken.insert(.closed) }
        case .query(let query, _): asked.append(query)
        case .reply(let query, let permitted): answered.append((query, permitted))
        case .alert(let alert, _, _):
          // Synchronous: the answer is of now. Asynchronous: it is what the message said.
          let permitted = system.policy.asksAsynchronously ? lastAnswer : mayAsk
          if system.policy.secondCheck.isBefore, !permitted { broken.insert(.alerted) }
          alerts.append(alert)
        case .app(_, .launch), .app(_, .bringForward):
          let permitted = system.policy.asksAsynchronously ? lastAnswer : mayAsk
          if system.policy.secondCheck.isAfter, !permitted { broken.insert(.opened) }
        case .app(_, .locationEvent): if !state.mayExecute { state = .background }
        default: break
        }
      }
    }
  }

  /// All states that can be reached, each once.
  private func explore(
    _ checks: LocationSystem.Checks, _ form: SecondCheck, asynchronous: Bool, _ budget: [Step: Int]
  ) throws -> (broken: Set<Rule>, states: Int, deliveries: Int) {
    var policy = LocationPolicy()
    policy.secondCheck = form
    policy.asksAsynchronously = asynchronous
    var system = try LocationSystem(policy: policy)
    system.checks = checks
    system.register(AppID(0), Manifest(identifier: "Maps", usageDescriptions: LocationRig.keys))
    var seen: Set<World.Key> = []
    var pending = [World(system: system, budget: budget)]
    var broken: Set<Rule> = []
    var told = 0
    while let world = pending.popLast() {
      for step in Step.allCases where world.can(step) {
        var next = world
        try next.does(step)
        if next.told > world.told { told += 1 }
        guard seen.insert(next.key).inserted else { continue }
        broken.formUnion(next.broken)
        pending.append(next)
      }
    }
    return (broken, seen.count, told)
  }

  // R-AUTH-12, R-AUTH-14, R-AUTH-15, R-AUTH-16, R-AUTH-17, R-AUTH-18, R-AUTH-20, R-AUTH-21
  @Test(arguments: SecondCheck.allCases, [false, true])
  func noOrderOfEventsTellsAnAppWhatItMayNotKnow(_ form: SecondCheck, _ asynchronous: Bool) throws {
    let result = try explore(.all, form, asynchronous: asynchronous, Self.aroundFence)
    #expect(result.broken.isEmpty && result.states > 300 && result.deliveries > 0, "\(result)")
    print("\(form), asynchronous \(asynchronous): \(result.states) states, \(result.deliveries) deliveries")
  }

  // R-AUTH-02, R-AUTH-11, R-AUTH-12, R-LOC-10
  @Test func noOrderOfEventsGivesAnAppAFixThatItMayNotHave() throws {
    let result = try explore(.all, .both, asynchronous: false, Self.aroundUpdates)
    #expect(result.broken.isEmpty && result.states > 300 && result.deliveries > 0, "\(result)")
    print("updates: \(result.states) states, \(result.deliveries) deliveries")
    for (check, rule) in [(LocationSystem.Checks.request, Rule.accepted), (.delivery, .delivered)] {
      let without = try explore(.all.subtracting(check), .both, asynchronous: false, Self.aroundUpdates)
      #expect(without.broken.contains(rule), "\(check): \(without)")
    }
  }

  // R-AUTH-12, R-AUTH-15, R-AUTH-16, R-AUTH-21
  @Test func eachCheckIsNeeded() throws {
    let needed: [(LocationSystem.Checks, Rule)] = [
      (.request, .accepted), (.beforeAlert, .alerted), (.afterOpen, .opened), (.delivery, .delivered),
    ]
    for (check, rule) in needed {
      for asynchronous in [false, true] {
        let result = try explore(
          LocationSystem.Checks.all.subtracting(check), .both, asynchronous: asynchronous, Self.aroundFence)
        #expect(result.broken.contains(rule), "\(check) \(asynchronous): \(result)")
      }
    }
  }
}
