/// A range of levels with one purpose. Runs lower in this list give way to those further down it.
public enum Band: UInt8, Sendable, Hashable, CaseIterable, Codable, Comparable {
  /// Work that nobody is waiting for. It gets what the foreground leaves.
  case background = 0
  /// Work that a person is waiting for.
  case foreground = 1
  /// Work with deadlines, such as audio; `SCHED_RR` where the process may.
  case realTime = 2

  public static func < (lhs: Band, rhs: Band) -> Bool { lhs.rawValue < rhs.rawValue }
}
