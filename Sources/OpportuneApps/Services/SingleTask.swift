/// The rule "exactly one task in the list" and its cycle of work and sleep, as a value. (R-SAMP-01,
/// R-SAMP-02, R-SAMP-08)
///
/// Begin a task for each stretch of work, ``add(_:)`` it, and end the tasks that this returns. For work in
/// samples, ``Sampler`` says when to begin and when to pause.
public struct SingleTask: Sendable, Hashable {
  /// The open tasks: one, or none.
  public private(set) var tasks: [TaskID] = []

  /// Makes an empty list.
  public init() {}

  /// The open task; ``TaskID/invalid`` if there is none.
  public var current: TaskID { tasks.last ?? .invalid }

  /// Adds a task that was begun. Returns the other tasks, which are removed, and which the caller must end.
  public mutating func add(_ task: TaskID) -> [TaskID] {
    guard task != .invalid else { return [] }
    let others = tasks.filter { $0 != task }
    tasks = [task]
    return others
  }

  /// Removes a task, as its expiration handler does. Returns false if it is not in the list.
  public mutating func remove(_ task: TaskID) -> Bool {
    guard current == task, task != .invalid else { return false }
    tasks = []
    return true
  }
}

/// Work in samples: it runs until it has its result, or at most for a bound, and then rests for an interval.
/// The owner calls ``fired(at:)`` at ``next``. (R-SAMP-08)
public struct Sampler: Sendable, Hashable {
  /// What the sampler is doing.
  public enum Phase: Sendable, Hashable {
    /// It works.
    case working
    /// It waits for the next stretch.
    case resting
  }

  /// The time from the end of one stretch of work to the next.
  public let interval: Duration
  /// The time limit of one stretch of work; `nil` is none.
  public let bound: Duration?
  /// The current phase.
  public private(set) var phase = Phase.working
  /// When to call ``fired(at:)``; `nil` is never.
  public private(set) var next: Moment?

  /// - Throws: ``PolicyError`` for a duration that is not positive.
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

  /// The work has its result: it stops, and the timer is set.
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
