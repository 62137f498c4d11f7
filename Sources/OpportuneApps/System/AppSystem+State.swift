extension AppSystem {
  /// The number of registered apps; their ids start at 0.
  package var count: Int { apps.count }

  /// Whether multitasking is supported. (R-LIFE-21) Asking on behalf of an app satisfies R-RULE-11.
  package var isMultitaskingSupported: Bool { policy.supportsMultitasking }

  /// The foreground app that receives user input, or is about to.
  package var frontmost: AppID? { front.last }

  package func state(of id: AppID) -> LifecycleState? {
    apps.indices.contains(id.number) ? apps[id.number].state : nil
  }

  package func view(of id: AppID) -> AppView? {
    guard apps.indices.contains(id.number) else { return nil }
    let app = apps[id.number]
    return AppView(
      id: id, manifest: app.manifest, state: app.state, restrictions: restrictions(of: id), since: app.since,
      lastUsed: app.lastUsed, openTasks: app.tasks.map(\.id), locks: app.locks.keys.sorted(),
      grants: app.grants,
      footprint: app.footprint, brokenRules: app.compliance.broken, callbacks: app.callbacks,
      heldBy: holds(app))
  }

  /// The apps of the switcher: all that were launched and are not released, the most recently used first.
  /// (R-LIFE-24)
  package func switcher() -> [AppView] {
    func place(_ index: Int) -> Int { front.firstIndex(of: AppID(index)) ?? -1 }
    func used(_ index: Int) -> Moment { apps[index].lastUsed ?? .zero }
    return apps.indices.filter { apps[$0].state != .notRunning && apps[$0].state != .terminated }
      .sorted { (place($0), used($0), $0) > (place($1), used($1), $1) }
      .compactMap { view(of: AppID($0)) }
  }

  /// How long an app outside of the foreground may still run; `nil` if there is no limit. (R-TASK-15)
  package func timeRemaining(of id: AppID) -> Duration? {
    guard apps.indices.contains(id.number) else { return .zero }
    let app = apps[id.number]
    guard app.state.mayExecute else { return .zero }
    guard app.state == .background, !isFree(app), !isHeldWithoutLimit(app) else { return nil }
    let ends: [Moment?] = [
      deadline(.grace, of: app.id), deadline(.event, of: app.id), deadline(.fetchLimit, of: app.id),
      app.tasks.isEmpty && !hasEligibleWork(app)
        ? nil : deadline(.handler, of: app.id) ?? deadline(.tasks, of: app.id),
    ]
    if !app.tasks.isEmpty, deadline(.tasks, of: app.id) == nil, deadline(.handler, of: app.id) == nil {
      return nil
    }
    return ends.compactMap { $0 }.max().map { max(.zero, $0 - now) } ?? .zero
  }

  /// How long an app has been in each state so far.
  package func times(of id: AppID) -> [LifecycleState: Duration] {
    guard apps.indices.contains(id.number) else { return [:] }
    let app = apps[id.number]
    var result: [LifecycleState: Duration] = [:]
    for state in LifecycleState.allCases {
      let total = app.totals[Int(state.rawValue)] + (state == app.state ? now - app.since : .zero)
      if total > .zero { result[state] = total }
    }
    return result
  }

  /// Bytes in main memory of all apps, clamped to 64 bits.
  package var footprint: UInt64 { UInt64(clamping: memoryInUse) }

  /// Seconds since 1970, by the wall clock that was posted to the system.
  package var wallClock: Double { wallAtZero + now.seconds }

  func restrictions(of id: AppID) -> Restrictions {
    let app = apps[id.number]
    return Restrictions(
      app.state, receivesInput: app.state == .active || front.last == id, audio: audioService(app),
      hasFullPower: hasFullPower, policy: policy.restrictions)
  }

  var hasFullPower: Bool { policy.power.fullOnMains && power == .mains }

  /// The app's activity under the Audio service.
  func audioService(_ app: LifecycleRecord) -> AudioActivity? {
    guard policy.audio.isOn, app.plays else { return nil }
    guard !policy.audio.needsDeclaration || app.manifest.backgroundModes.contains(.audio) else { return nil }
    return app.audio
  }

  /// Whether there is no time limit for a background app.
  func isFree(_ app: LifecycleRecord) -> Bool {
    if hasFullPower { return true }
    switch policy.switching {
    case .all: return false
    case .optIn: return !app.manifest.allowsSuspension
    case .off: return true
    }
  }

  func isHeldWithoutLimit(_ app: LifecycleRecord) -> Bool {
    audioService(app) != nil || tracksLocation(app) || (app.budgetEnd == nil && hasEligibleWork(app))
  }

  /// Whether anything keeps an app in the background now.
  func isHeld(_ app: LifecycleRecord) -> Bool {
    if !app.callbacks.isEmpty || isFree(app) || isHeldWithoutLimit(app) || !app.tasks.isEmpty { return true }
    let kinds: [DeadlineKind] = [.grace, .event, .fetchLimit, .handler]
    if kinds.contains(where: { deadline($0, of: app.id) != nil }) { return true }
    return hasEligibleWork(app) && deadline(.tasks, of: app.id) != nil
  }

  func hasEligibleWork(_ app: LifecycleRecord) -> Bool {
    app.work.keys.contains { earnsTime($0, of: app) }
  }

  /// Whether the app does work of that kind, and is given time for it.
  func earnsTime(_ kind: TaskKind, of app: LifecycleRecord) -> Bool {
    app.work[kind, default: 0] > 0 && policy.tasks.isOn && policy.tasks.eligible.contains(kind)
  }

  /// Whether it tracks the location, and its manifest lets it do so in background.
  func tracksLocation(_ app: LifecycleRecord) -> Bool {
    app.isTracking && app.manifest.backgroundModes.contains(.location)
  }

  func facts(of id: AppID) -> LifecycleFacts {
    let app = apps[id.number]
    var facts: LifecycleFacts = []
    if policy.supportsMultitasking, !app.manifest.exitsOnSuspend { facts.insert(.backgroundAllowed) }
    if policy.eventsLaunchApps { facts.insert(.launchedByEvents) }
    if app.interruptions > 0 || (front.contains(id) && front.last != id) { facts.insert(.interrupted) }
    if isHeld(app) { facts.insert(.asserted) }
    if holdsFatalLock(app) { facts.insert(.holdsLocks) }
    return facts
  }
}
