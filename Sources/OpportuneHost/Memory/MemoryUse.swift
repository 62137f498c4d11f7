internal import Glibc

/// What an app has in main memory, and how that was found.
package struct MemoryUse: Sendable, Hashable {
  package enum Source: String, Sendable, Hashable, CaseIterable, Codable {
    /// Its control group counts it.
    case group
    /// Of each process its own pages, and its share of those that others have as well.
    case pss
    /// Of each process its own pages, and once the most that one shares.
    case rss
  }

  package var bytes: UInt64
  package var by: Source

  /// - Parameters:
  ///   - group: that counts it from its beginning; `nil` where none does, as for a process that was taken in
  ///     with what it had: its pages stay charged to the group where it was.
  ///   - members: all processes of it.
  static func look(_ group: MemoryGroup?, _ members: [pid_t]) -> MemoryUse {
    choose(
      group: group?.usage(), proportional: { ProcessTable.proportionalMemory(of: members) },
      resident: { ProcessTable.memory(of: members) })
  }

  /// The best that is known. A group that counts nothing is one that nobody has entered.
  static func choose(
    group: UInt64?, proportional: () -> UInt64?, resident: () -> UInt64
  ) -> MemoryUse {
    if let group, group > 0 { return MemoryUse(bytes: group, by: .group) }
    if let bytes = proportional() { return MemoryUse(bytes: bytes, by: .pss) }
    return MemoryUse(bytes: resident(), by: .rss)
  }
}
