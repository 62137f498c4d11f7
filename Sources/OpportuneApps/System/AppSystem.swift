/// All apps of a machine, as a value: the lifecycle table, the services, the restrictions and their timers.
///
/// It is pure. Time comes with each event and never from a clock; results are ``Effect`` values, in order.
/// The same events at the same moments give the same effects for every host: a live one, ``VirtualHost``, or
/// a test. (Law 6 of CONTRIBUTING.md)
///
/// Its services are extensions, a file each. They share the records of the apps, who is in front, and the
/// effects, since each of them may keep an app in background, and the lifecycle asks all of them.
///
/// Invariants: at most `policy.maximumForeground` apps are in front, the last of `front` alone may be active.
/// After each event no app is in background without a reason, unless policy says so.
package struct AppSystem: Sendable {
  package let policy: AppsPolicy
  package private(set) var now = Moment.zero
  package internal(set) var power = PowerSupply.battery
  var apps: [LifecycleRecord] = []
  /// The foreground apps; the last one receives the user's input.
  var front: [AppID] = []
  private var timers = AppTimers()
  private var effects: [Effect] = []
  private var nextTask: UInt32 = 1
  var prompts = OpenPrompts()
  /// Seconds since 1970 at moment zero.
  var wallAtZero = 0.0
  /// Wide enough for the sum of any number of sizes.
  var memoryInUse: UInt128 = 0

  /// - Throws: ``PolicyError``.
  package init(policy: AppsPolicy = .standard) throws(PolicyError) {
    try policy.validate()
    self.policy = policy
  }

  /// Registers an app. It does not run yet.
  package mutating func register(_ manifest: Manifest, settings: UserSettings = UserSettings()) -> AppID {
    let id = AppID(apps.count)
    var record = LifecycleRecord(id: id, manifest: manifest.applying(settings))
    record.since = now
    apps.append(record)
    timers.addApp()
    return id
  }

  /// Handles one event: first everything that was due before `moment`, then the event. An event at the very
  /// moment of a limit is in time; ``advance(to:)`` handles what is due at that moment.
  ///
  /// - Throws: ``AppsError``; the event changed nothing then. What was due has been handled, and its effects
  ///   are returned by the next call or by ``takeEffects()``.
  /// - Returns: the effects, in order.
  package mutating func handle(_ event: SystemEvent, at moment: Moment) throws(AppsError) -> [Effect] {
    try pass(until: moment, inclusive: false)
    switch event {
    case .app(let id, let event):
      guard apps.indices.contains(id.number) else {
        throw AppsError(.unknownApp(id, registered: apps.count))
      }
      try handle(event, of: id)
    case .home: if let active = front.last { try move(active, .leave) }
    case .power(let supply): setPower(supply)
    case .displayActivated: if policy.tasks.endsOnDisplay { expireAllTasks() }
    case .wallClock(let seconds): try setWallClock(seconds)
    case .answer(let prompt, let accepted): try answer(prompt, accepted: accepted)
    }
    return takeEffects()
  }

  /// Advances the time: handles everything that is due until `moment`.
  ///
  /// - Throws: ``AppsError``: `clockWentBack`.
  package mutating func advance(to moment: Moment) throws(AppsError) -> [Effect] {
    try pass(until: moment, inclusive: true)
    return takeEffects()
  }

  /// When the host must call ``advance(to:)`` next, unless an event comes earlier.
  package var nextDeadline: Moment? { mutating get { timers.next } }

  /// Takes the effects that were not returned yet.
  package mutating func takeEffects() -> [Effect] {
    defer { effects.removeAll(keepingCapacity: true) }
    return effects
  }

  private mutating func pass(until moment: Moment, inclusive: Bool) throws(AppsError) {
    guard moment >= now else { throw AppsError(.clockWentBack(from: now, to: moment)) }
    while let (time, kind, app) = timers.pop(until: moment, inclusive: inclusive) {
      now = max(now, time)
      due(kind, of: app)
    }
    now = moment
  }

  // MARK: Timers

  /// Sets a timer. A time in the past is due now.
  mutating func arm(_ kind: DeadlineKind, of id: AppID, at due: Moment) {
    timers.arm(kind, of: id, at: max(due, now))
  }

  /// When a timer is due; `nil`: it is not armed.
  func deadline(_ kind: DeadlineKind, of id: AppID) -> Moment? { timers.deadline(kind, of: id) }

  mutating func disarm(_ kinds: DeadlineKind..., of id: AppID) {
    for kind in kinds { timers.disarm(kind, of: id) }
  }

  // MARK: What the services share

  mutating func nextTaskID() -> TaskID {
    // Wraps after four thousand million tasks, past the identifier of none.
    defer { nextTask = nextTask == .max ? 1 : nextTask + 1 }
    return TaskID(number: nextTask)
  }

  mutating func emit(_ action: AppEffect, _ id: AppID) { effects.append(Effect(app: id, action: action)) }

  private mutating func due(_ kind: DeadlineKind, of id: AppID) {
    switch kind {
    case .callback: callbackOverran(id)
    case .grace: graceEnded(id)
    case .slice: sliceOverran(id)
    case .tasks: expireTasks(of: id)
    case .handler: tasksWereNotEnded(id)
    case .idle: idleLimitReached(id)
    case .event: suspendUnlessHeld(id)
    case .fetch: fetchIsDue(id)
    case .fetchLimit: fetchOverran(id)
    case .heartbeat: heartbeatIsDue(id)
    case .batch: deliverBatch(id)
    case .local: fireLocals(id)
    case .front: suspendUnlessHeld(id)
    }
  }
}
