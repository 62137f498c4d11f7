/// The kernel class of the real-time pool that the process actually gets.
public enum RealTimeClass: String, Sendable, Hashable, CaseIterable, Codable {
  /// `SCHED_RR`: runs before every ordinary thread of the machine.
  case roundRobin
  /// `SCHED_OTHER` at a nice value below the foreground's. It gets most of a contended CPU, but its waits
  /// have no upper bound.
  case raised
  /// The same as foreground work: the process may use neither of the above.
  case ordinary
  /// The configuration has no real-time pool. Foreground workers serve real-time levels before others.
  case noPool
}

extension Scheduler {
  /// The kernel class of real-time work, as found when the scheduler was made.
  public var realTimeClass: RealTimeClass {
    guard configuration.pools.contains(.realTime) else { return .noPool }
    let priority = engine.priority(of: .realTime)
    if priority.policy == .roundRobin { return .roundRobin }
    return priority.nice < engine.privileges.baseNice ? .raised : .ordinary
  }
}
