import OpportuneApps
import Testing

/// A host of virtual time and one app or more, for tests.
struct Rig {
  var host: VirtualHost
  var apps: [AppID] = []

  init(
    _ manifests: [Manifest] = [Manifest(identifier: "app")], behaviour: Behaviour = Behaviour(),
    _ change: (inout AppsPolicy) -> Void = { _ in }
  ) throws {
    var policy = AppsPolicy()
    change(&policy)
    host = try VirtualHost(policy: policy)
    host.behaviour = behaviour
    for manifest in manifests { apps.append(host.register(manifest)) }
  }

  var app: AppID { apps[0] }

  func state(_ index: Int = 0) -> LifecycleState? { host.system.state(of: apps[index]) }

  mutating func does(_ event: AppEvent, _ index: Int = 0) throws { try host.post(event, apps[index]) }
  mutating func does(_ action: AppAction, _ index: Int = 0) throws { try host.post(action, apps[index]) }

  mutating func wait(_ seconds: Double) throws {
    try host.run(for: .milliseconds(Int64((seconds * 1000).rounded())))
  }

  /// Goes to background by way of the front, where it does that.
  mutating func leave(after first: AppAction, _ others: AppAction...) throws {
    try does(.launch)
    for action in [first] + others { try does(action) }
    try does(.leave)
  }

  /// Goes to background by way of the front.
  mutating func leave(_ index: Int = 0) throws {
    try does(.launch, index)
    try does(.leave, index)
  }

  mutating func suspend(_ index: Int = 0) throws {
    try leave(index)
    try wait(5)
    #expect(state(index) == .suspended)
  }

  /// The actions of one app, from a place in the log on.
  func actions(_ index: Int = 0, from start: Int = 0) -> [AppEffect] {
    host.log[start...].filter { $0.app == apps[index] }.map(\.action)
  }

  func callbacks(_ index: Int = 0, from start: Int = 0) -> [Callback] {
    actions(index, from: start).compactMap {
      if case .lifecycle(.deliver(let callback)) = $0 { callback } else { nil }
    }
  }

  func diagnoses(_ index: Int = 0) -> [AppDiagnosis] {
    actions(index).compactMap { if case .diagnose(let diagnosis) = $0 { diagnosis } else { nil } }
  }

  func tasks(_ index: Int = 0) -> [TaskID] {
    actions(index).compactMap { if case .taskBegan(let task) = $0 { task } else { nil } }
  }

  func refusals(_ index: Int = 0) -> [TaskRefusal] {
    actions(index).compactMap { if case .taskRefused(let reason) = $0 { reason } else { nil } }
  }

  func prompts(_ index: Int = 0) -> [PromptID] {
    actions(index).compactMap { if case .ask(let prompt, _) = $0 { prompt } else { nil } }
  }

  func delivered(_ index: Int = 0) -> [String] {
    actions(index).compactMap { if case .deliver(let message) = $0 { message.kind } else { nil } }
  }

  func count(_ action: AppEffect, _ index: Int = 0) -> Int { actions(index).count { $0 == action } }

  func restrictions(_ index: Int = 0) throws -> Restrictions {
    try #require(host.system.view(of: apps[index])).restrictions
  }

  func broken(_ rule: BestPractice, _ index: Int = 0) -> Int {
    host.system.view(of: apps[index])?.brokenRules[rule] ?? 0
  }
}

func manifest(_ name: String = "app", _ modes: Set<Manifest.Mode> = [], exits: Bool = false) -> Manifest {
  Manifest(identifier: name, backgroundModes: modes, exitsOnSuspend: exits)
}
