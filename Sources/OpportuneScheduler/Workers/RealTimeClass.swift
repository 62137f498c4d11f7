/// What the real-time pool of a scheduler is to the kernel: what the process may have, not what it asked for.
public enum RealTimeClass: String, Sendable, Hashable, CaseIterable, Codable {
  /// `SCHED_RR`: before every ordinary thread of the machine.
  case roundRobin
  /// `SCHED_OTHER` at a nice value below the foreground's: most of the CPU where it is contended, without a
  /// bound on the wait.
  case raised
  /// As foreground work: the process may have neither.
  case ordinary
  /// The configuration has no real-time pool; foreground workers serve real-time levels before others.
  case noPool
}

extension Scheduler {
  /// What work of the real-time band gets from the kernel, as it was found when the scheduler was made.
  public var realTimeClass: RealTimeClass {
    guard configuration.pools.contains(.realTime) else { return .noPool }
    let priority = engine.priority(of: .realTime)
    if priority.policy == .roundRobin { return .roundRobin }
    return priority.nice < engine.privileges.baseNice ? .raised : .ordinary
  }
}
