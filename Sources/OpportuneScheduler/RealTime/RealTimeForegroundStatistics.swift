/// What a scheduler's real-time foreground got and did; see ``ForegroundClass/realTime(quantum:share:)``.
///
/// A value: safe to use from any thread.
public struct RealTimeForegroundStatistics: Sendable, Hashable {
  /// Who may be in the class.
  public enum Access: String, Sendable, Hashable, CaseIterable, Codable {
    /// Fresh foreground jobs, and the threads of I/O brokers that serve them, all within the bounds.
    case roundRobin
    /// The threads of I/O brokers alone, by leave of RealtimeKit. It grants a thread the class a few times a
    /// minute, so it is not for jobs, which would leave it and come back many times a second.
    case realtimeKit
    /// Nobody: the process may not enter `SCHED_RR`, and RealtimeKit has not answered yet, or does not run,
    /// or refuses.
    case refused
  }

  /// Who may be in the class, now.
  public let access: Access
  /// Jobs that left the class while they ran: after the quantum, or because the share was used up.
  public let jobsLeft: UInt64
  /// How often the class had used its share, and all left it.
  public let exhausted: UInt64
}
