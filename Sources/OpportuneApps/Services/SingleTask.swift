/// The rule "exactly one task in the list" and the cycle of work and sleep that goes with it, as a value.
/// (R-SAMP-01,
/// R-SAMP-02, R-SAMP-08)
///
/// Begin a task for each stretch of work, ``add(_:)`` it, and end what that returns. For work that comes in
/// samples, ``Sampler`` says when to begin and when to pause.
public struct SingleTask: Sendable, Hashable {
  /// One, or none.
  public private(set) var tasks: [TaskID] = []

  /// No task.
  public init() {}

  /// The one that is open.
  public var current: TaskID { tasks.last ?? .invalid }

  /// Adds a task that was begun; the others are out of the list, and are the caller's to end.
  public mutating func add(_ task: TaskID) -> [TaskID] {
    guard task != .invalid else { return [] }
    let others = tasks.filter { $0 != task }
    tasks = [task]
    return others
  }

  /// Takes a task out, as its expiration handler does. False if it is not the one.
  public mutating func remove(_ task: TaskID) -> Bool {
    guard current == task, task != .invalid else { return false }
    tasks = []
    return true
  }
}

/// Work in samples: it runs until it has what it wants, or at most for a bound, then rests for an interval.
/// Whoever owns it calls ``fired(at:)`` at ``next``. (R-SAMP-08)
public struct Sampler: Sendable, Hashable {
  /// Whether it works.
  public enum Phase: Sendable, Hashable {
    /// It works.
    case working
    /// It waits for the next stretch.
    case resting
  }

  /// From the end of one stretch of work to the next.
  public let interval: Duration
  /// How long one stretch of work may take; `nil`: until it has something.
  public let bound: Duration?
  /// What it does now.
  public private(set) var phase = Phase.working
  /// When ``fired(at:)`` is to be called; `nil`: not by itself.
  public private(set) var next: Moment?

  /// - Throws: ``PolicyError`` for a span that is not positive.
  public init(interval: Duration, bound: Duration? = nil, at now: Moment) throws(PolicyError) {
    guard interval > .zero else {
      throw PolicyError(setting: "interval", value: "\(interval)", limit: "more than 0")
    }
    if let bound, bound <= .zero {
      throw PolicyError(setting: "bound", value: "\(bound)", limit: "more than 0")
    }
    self.interval = interval
    self.bound = bound
    next = bound.map { now + $0 }
  }

  /// The work has what it wanted: it stops, and the timer is armed.
  public mutating func sampled(at now: Moment) {
    phase = .resting
    next = now + interval
  }

  /// The timer fired.
  public mutating func fired(at now: Moment) {
    guard let due = next, due <= now else { return }
    switch phase {
    case .working: sampled(at: now)
    case .resting:
      phase = .working
      next = bound.map { now + $0 }
    }
  }
}
