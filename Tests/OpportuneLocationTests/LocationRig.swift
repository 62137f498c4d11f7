import OpportuneApps
import Testing

@testable import OpportuneLocation

/// Apps with a lifecycle in virtual time and their locations, connected as a host connects them.
struct LocationRig {
  var host: VirtualHost
  var system: LocationSystem
  var apps: [AppID] = []
  var log: [LocationEffect] = []
  private var seenStates: [AppID: LifecycleState] = [:]

  static let keys = [
    "NSLocationWhenInUseUsageDescription": "To show the way",
    "NSLocationAlwaysUsageDescription": "To remind you",
  ]

  init(
    _ manifests: [Manifest] = [
      Manifest(identifier: "Maps", backgroundModes: [.location], usageDescriptions: LocationRig.keys)
    ], class appClass: AppClass = .ordinary, change: (inout LocationPolicy) -> Void = { _ in }
  ) throws {
    var policy = LocationPolicy()
    change(&policy)
    host = try VirtualHost()
    system = try LocationSystem(policy: policy)
    for manifest in manifests {
      let id = host.register(manifest)
      apps.append(id)
      system.register(id, manifest, class: appClass)
    }
  }

  var app: AppID { apps[0] }

  /// Tells the location system of moves, and the lifecycle of what that asks for, until neither has anything
  /// new.
  private mutating func settle(_ effects: [LocationEffect]) throws {
    var pending = effects
    while true {
      for effect in pending {
        log.append(effect)
        if case .app(let id, let event) = effect { try host.post(event, id) }
      }
      pending = []
      for id in apps {
        guard let state = host.system.state(of: id), seenStates[id] != state else { continue }
        seenStates[id] = state
        pending += try system.handle(.app(id, .moved(state)), at: host.now)
      }
      if pending.isEmpty { return }
    }
  }

  mutating func post(_ event: LocationEvent) throws { try settle(try system.handle(event, at: host.now)) }
  mutating func does(_ event: AppLocationEvent, _ index: Int = 0) throws {
    try post(.app(apps[index], event))
  }
  mutating func lives(_ event: AppEvent, _ index: Int = 0) throws {
    try host.post(event, apps[index])
    try settle([])
  }

  mutating func wait(_ seconds: Double) throws {
    try host.run(for: .milliseconds(Int64((seconds * 1000).rounded())))
    try settle(try system.advance(to: host.now))
  }

  mutating func see(_ place: Coordinate, deviation: Double = 5, source: SourceKind = .satellite) throws {
    try post(.fix(try fix(place, deviation: deviation, at: host.now.seconds, source: source)))
  }

  mutating func allow(_ type: AuthorizationType, _ index: Int = 0) throws {
    try does(.setAuthorization(.allowed(type)), index)
  }

  func effects(_ start: Int = 0) -> ArraySlice<LocationEffect> { log[start...] }

  func notices(_ index: Int = 0, from start: Int = 0) -> [LocationNotice] {
    log[start...].compactMap { if case .deliver(apps[index], let notice) = $0 { notice } else { nil } }
  }

  func refusals(_ index: Int = 0) -> [LocationRefusal] {
    log.compactMap { if case .refused(apps[index], let refusal) = $0 { refusal } else { nil } }
  }

  var lastRequest: RequestID? {
    log.reversed().lazy.compactMap { if case .started(_, let request) = $0 { request } else { nil } }.first
  }

  var prompts: [(LocationPromptID, LocationDialog)] {
    log.compactMap { if case .ask(let id, _, let dialog) = $0 { (id, dialog) } else { nil } }
  }

  var alerts: [(AlertID, LocationAlert)] {
    log.compactMap { if case .alert(let id, _, let alert) = $0 { (id, alert) } else { nil } }
  }

  var queries: [QueryID] { log.compactMap { if case .query(let id, _) = $0 { id } else { nil } } }

  var indicators: [LocationIndicator] {
    log.compactMap { if case .indicator(_, let shape) = $0 { shape } else { nil } }
  }

  var banners: [Bool] { log.compactMap { if case .banner(_, let isShown) = $0 { isShown } else { nil } } }

  var sources: [SourceKind?] {
    log.compactMap { if case .source(let kind) = $0 { .some(kind) } else { nil } }
  }
}

extension LocationNotice {
  var crossing: Crossing.Kind? { if case .crossing(_, let crossing) = self { crossing.kind } else { nil } }
}
