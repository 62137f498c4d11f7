import OpportuneApps

/// All location of a machine, as a value: requests, sources, fences, permissions and the way of a crossing to
/// its app.
///
/// It is pure, and stands beside a host. The owner of both reports each move of an app (`moved`), and posts
/// its effects of the kind ``LocationEffect/app(_:_:)`` to the host. Time comes with each event. (Law 6 of
/// the design)
///
/// Three parts of the sources are kept apart in it: the *location subsystem* knows fixes, fences and
/// permissions; the *application manager* (`Flow`) takes each crossing through alert and second check
/// (R-AUTH-14, R-GEO-06); and nothing reaches an app but through ``LocationEffect/deliver(_:_:)``, for which
/// permission is looked up at that instant (R-AUTH-12, R-AUTH-21).
///
/// Not thread-safe: a value.
public struct LocationSystem: Sendable {
  /// The checks of a permission, for the test that takes one away at a time.
  struct Checks: OptionSet, Sendable, Hashable {
    let rawValue: Int
    static let request = Checks(rawValue: 1)
    static let beforeAlert = Checks(rawValue: 2)
    static let afterOpen = Checks(rawValue: 4)
    static let delivery = Checks(rawValue: 8)
    static let all: Checks = [.request, .beforeAlert, .afterOpen, .delivery]
  }

  /// A request that was accepted.
  struct Accepted: Sendable, Hashable {
    var app: AppID
    var request: LocationRequest
    /// Given last; of significant changes, what they are measured from.
    var last: Fix?
    var fence: FenceID?
    var changedCell = false
  }

  /// What it was made with.
  public let policy: LocationPolicy
  /// The time of the last event.
  public internal(set) var now = Moment.zero
  /// Whether location services are on.
  public internal(set) var isEnabled = true
  /// Which source runs, and who pays for it.
  public internal(set) var broker: SourceBroker
  package internal(set) var monitor: RegionMonitor
  var checks = Checks.all
  var apps: [AppID: AppLocation] = [:]
  var requests: [RequestID: Accepted] = [:]
  /// The requests that are not regions, which every fix is for; in their order.
  var updates: [RequestID] = []
  var byFence: [FenceID: RequestID] = [:]
  /// The operating modes by their fences, by index in the policy; those that the device is inside of, and the
  /// one told.
  var modes: [FenceID: Int] = [:]
  var modesInside: Set<Int> = []
  var toldMode: OperatingMode?
  var flows: [AlertID: Flow] = [:]
  var prompts: [LocationPromptID: OpenDialog] = [:]
  var cell: UInt64?
  var effects: [LocationEffect] = []
  private var numbers: UInt32 = 0

  /// - Throws: ``LocationError``: `outOfRange` for a policy out of its ranges.
  public init(policy: LocationPolicy = .standard) throws(LocationError) {
    try policy.validate()
    self.policy = policy
    broker = SourceBroker(table: policy.sources, available: policy.available)
    monitor = try RegionMonitor(policy: policy.monitor)
    try monitorModes()
  }

  /// Makes an app known, which runs not; or gives one that is known another manifest, as an update does.
  /// (R-AUTH-05)
  public mutating func register(_ app: AppID, _ manifest: Manifest, class appClass: AppClass = .ordinary) {
    apps[app, default: AppLocation(manifest: manifest, appClass: appClass)].manifest = manifest
    apps[app]?.appClass = appClass
  }

  /// Handles one event: first whatever was due before `moment`, then the event.
  ///
  /// - Throws: ``LocationSystemError``; the event changed nothing then.
  /// - Returns: what is to be done, in order.
  public mutating func handle(
    _ event: LocationEvent, at moment: Moment
  ) throws(LocationSystemError) -> [LocationEffect] {
    if case .fix(let fix) = event, fix.time > moment {
      // All that come later would be older.
      let range = min(0, moment.seconds)...moment.seconds
      throw LocationSystemError(.location(LocationError(.outOfRange("time of the fix in seconds", range))))
    }
    try pass(until: moment, inclusive: false)
    switch event {
    case .app(let app, let event):
      guard apps[app] != nil else { throw LocationSystemError(.unknownApp(app)) }
      try handle(event, of: app)
    case .fix(let fix): accept(fix)
    case .cell(let number): moveTo(cell: number)
    case .available(let kind, let isAvailable):
      let before = broker.available.isEmpty
      if broker.setAvailable(kind, isAvailable, at: now) { effects.append(.source(broker.running)) }
      if broker.available.isEmpty, !before { failMonitoring(.noSource) }
    case .enabled(let isOn):
      if !isOn, isEnabled { failMonitoring(.disabled) }
      isEnabled = isOn
    case .answer(let prompt, let answer): try self.answer(prompt, answer)
    case .alert(let alert, let answer): try self.answer(alert, answer)
    case .query(let query): try arrive(query)
    case .reply(let query, let permitted): try continueFlow(query, permitted: permitted)
    }
    refresh()
    return takeEffects()
  }

  /// Lets time pass: does whatever is due until `moment`.
  ///
  /// - Throws: ``LocationSystemError``, where time went back.
  public mutating func advance(to moment: Moment) throws(LocationSystemError) -> [LocationEffect] {
    try pass(until: moment, inclusive: true)
    refresh()
    return takeEffects()
  }

  /// When ``advance(to:)`` must be called next, unless an event comes before; `nil`: never.
  public var nextDeadline: Moment? {
    mutating get {
      var moments = prompts.values.compactMap(\.ends)
      if let moment = monitor.nextDeadline { moments.append(moment) }
      if wantsFences, let moment = nextSample, moment > now { moments.append(moment) }
      return moments.min()
    }
  }

  /// What can be used, for apps to ask. (R-AUTH-25, R-GEO-09, R-LOC-11)
  public struct Capabilities: Sendable, Hashable {
    /// That can be used now.
    public let sources: Set<SourceKind>
    /// Whether location services are on.
    public let isEnabled: Bool
    /// Whether fences can be watched.
    public let canMonitorRegions: Bool
    /// Whether significant changes can be told.
    public let canMonitorSignificantChanges: Bool
  }

  /// What an app can ask for now.
  public var capabilities: Capabilities {
    Capabilities(
      sources: broker.available, isEnabled: isEnabled, canMonitorRegions: !broker.available.isEmpty,
      canMonitorSignificantChanges: !broker.available.isEmpty)
  }

  private mutating func takeEffects() -> [LocationEffect] {
    defer { effects.removeAll(keepingCapacity: true) }
    return effects
  }

  mutating func nextNumber() -> UInt32 {
    numbers += 1
    return numbers
  }

  private mutating func pass(until moment: Moment, inclusive: Bool) throws(LocationSystemError) {
    guard moment >= now else { throw LocationSystemError(.location(LocationError(.clockWentBack))) }
    while true {
      let dialog = prompts.filter { $0.value.ends != nil }.min {
        ($0.value.ends ?? now) < ($1.value.ends ?? now)
      }
      let due = [dialog?.value.ends, monitor.nextDeadline].compactMap { $0 }.min()
      guard let due, due < moment || (inclusive && due == moment) else { break }
      now = max(now, due)
      if let dialog, dialog.value.ends == due {
        effects.append(.dismiss(dialog.key))
        try answer(dialog.key, .failed)
      } else {
        for crossing in try crossings(until: due) { happened(crossing) }
      }
    }
    now = moment
  }

  private mutating func crossings(until moment: Moment) throws(LocationSystemError) -> [Crossing] {
    do { return try monitor.advance(to: moment) } catch { throw LocationSystemError(.location(error)) }
  }
}
