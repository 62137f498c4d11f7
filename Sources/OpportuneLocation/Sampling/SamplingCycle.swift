import OpportuneApps
internal import OpportuneBase

/// The cycle by which an app follows its way without being located all the time: a location arrives, updates
/// stop, a timer runs, updates start again. (R-SAMP-04)
///
/// It is pure. Of the app's open tasks, exactly one at a time keeps it in background meanwhile (R-SAMP-02).
/// Not thread-safe: a value.
public struct SamplingCycle: Sendable {
  /// How long the device is located, and how long it rests.
  public struct Policy: Sendable, Hashable {
    /// From the end of a run to the start of the next: 1 s to a day, by default 2 minutes. (R-SAMP-04)
    public var rest = Duration.seconds(120)
    /// How long a run goes on after its first location, for a better one; `nil`: the first ends it. Up to an
    /// hour. (R-SAMP-06)
    public var run: Duration?
    /// How often the collected samples are returned; `nil`: only on request. 1 s to 30 days. (R-SAMP-07)
    public var processing: Duration?

    /// The default of each setting.
    public init() {}

    func validate() throws(LocationError) {
      try check(rest.inSeconds, "rest in seconds", within: 1...86_400)
      if let run { try check(run.inSeconds, "run in seconds", within: 0.1...3600) }
      if let processing {
        try check(processing.inSeconds, "processing interval in seconds", within: 1...2_592_000)
      }
    }
  }

  /// What the cycle asks of its owner.
  public enum Effect: Sendable, Hashable {
    /// Start location updates.
    case startUpdates
    /// Stop location updates.
    case stopUpdates
    /// The best location of a run.
    case sample(Fix)
    /// All samples since the last time.
    case process([Fix])
  }

  /// What it was made with.
  public let policy: Policy
  /// The time of the last event.
  public private(set) var now = Moment.zero
  /// Whether updates run. Never while the timer waits. (R-SAMP-05)
  public private(set) var isTracking = false
  /// What was collected and not yet handed out.
  public private(set) var collected: [Fix] = []
  private var isOn = false
  private var best: Fix?
  private var runEnds: Moment?
  private var restEnds: Moment?
  private var processes: Moment?

  /// - Throws: ``LocationError``: `outOfRange`.
  public init(policy: Policy = Policy()) throws(LocationError) {
    try policy.validate()
    self.policy = policy
  }

  /// - Throws: ``LocationError``: `clockWentBack`.
  public mutating func start(at moment: Moment) throws(LocationError) -> [Effect] {
    var effects = try pass(until: moment)
    guard !isOn else { return effects }
    isOn = true
    isTracking = true
    processes = policy.processing.map { now + $0 }
    effects.append(.startUpdates)
    return effects
  }

  /// Ends the cycle. What was collected is kept.
  ///
  /// - Throws: ``LocationError``: `clockWentBack`.
  public mutating func stop(at moment: Moment) throws(LocationError) -> [Effect] {
    var effects = try pass(until: moment)
    if isTracking { effects.append(.stopUpdates) }
    isOn = false
    isTracking = false
    (best, runEnds, restEnds, processes) = (nil, nil, nil, nil)
    return effects
  }

  /// Takes a location. One that arrives while the timer waits is ignored.
  ///
  /// - Throws: ``LocationError``: `clockWentBack`.
  public mutating func receive(_ fix: Fix, at moment: Moment) throws(LocationError) -> [Effect] {
    var effects = try pass(until: moment)
    guard isTracking else { return effects }
    if (best?.accuracy.standardDeviation ?? .infinity) > fix.accuracy.standardDeviation { best = fix }
    if let run = policy.run {
      if runEnds == nil { runEnds = now + run }
    } else {
      endRun(&effects)
    }
    return effects
  }

  /// When ``advance(to:)`` must be called next; `nil`: never.
  public var nextDeadline: Moment? { [runEnds, restEnds, processes].compactMap { $0 }.min() }

  /// Lets time pass.
  ///
  /// - Throws: ``LocationError``: `clockWentBack`.
  public mutating func advance(to moment: Moment) throws(LocationError) -> [Effect] {
    try pass(until: moment)
  }

  private mutating func pass(until moment: Moment) throws(LocationError) -> [Effect] {
    guard moment >= now else { throw LocationError(.clockWentBack) }
    var effects: [Effect] = []
    while let due = nextDeadline, due <= moment {
      now = due
      if runEnds == due {
        endRun(&effects)
      } else if restEnds == due {
        restEnds = nil
        isTracking = true
        effects.append(.startUpdates)
      } else {
        processes = policy.processing.map { due + $0 }
        if !collected.isEmpty { effects.append(.process(collected)) }
        collected = []
      }
    }
    now = moment
    return effects
  }

  private mutating func endRun(_ effects: inout [Effect]) {
    runEnds = nil
    isTracking = false
    restEnds = now + policy.rest
    effects.append(.stopUpdates)
    if let best {
      collected.append(best)
      effects.append(.sample(best))
    }
    best = nil
  }
}
