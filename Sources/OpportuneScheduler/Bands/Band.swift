/// A range of levels with one purpose. Later cases in this list run before earlier ones.
public enum Band: UInt8, Sendable, Hashable, CaseIterable, Codable, Comparable {
  /// Work that nobody is waiting for. It gets the CPU time that the foreground leaves.
  case background = 0
  /// Work that a person is waiting for.
  case foreground = 1
  /// Work with deadlines, such as audio. Uses `SCHED_RR` where the process may.
  case realTime = 2

  public static func < (lhs: Band, rhs: Band) -> Bool { lhs.rawValue < rhs.rawValue }
}
