/// The order in which purgeable regions are taken: a pure function. (R-MEM-05)
///
/// Suspended apps give memory before background apps, and these before inactive ones; the active app gives
/// none. Within a standing the lower group is taken first, and within a group the older region.
public struct PurgeOrder: Sendable, Hashable {
  /// How the age of a region is measured.
  public enum Age: Sendable, Hashable, CaseIterable {
    /// By the time at which the region was made or last filled.
    case firstIn
    /// By its last use, to the resolution of the kernel's tick, 1 to 10 ms; within a tick as `firstIn`.
    case leastRecentlyUsed
  }

  /// The age that counts within a standing and group.
  public var age: Age

  /// Makes an order by standing, group and age.
  public init(age: Age = .leastRecentlyUsed) { self.age = age }

  /// The properties by which regions are ordered.
  package struct Candidate: Sendable, Hashable {
    package var standing: AppStanding
    /// Set by the app; lower groups are taken first.
    package var group: UInt32
    /// Increases with each region that is made or filled.
    package var born: UInt64
    /// The time of the last use, nanoseconds of a monotonic clock.
    package var used: UInt64

    package init(standing: AppStanding, group: UInt32, born: UInt64, used: UInt64) {
      self.standing = standing
      self.group = group
      self.born = born
      self.used = used
    }
  }

  /// Whether `left` is taken before `right`.
  package func takes(_ left: Candidate, before right: Candidate) -> Bool {
    if left.standing != right.standing { return left.standing < right.standing }
    if left.group != right.group { return left.group < right.group }
    switch age {
    case .firstIn: return left.born < right.born
    case .leastRecentlyUsed: return (left.used, left.born) < (right.used, right.born)
    }
  }

  /// Whether memory may be taken from an app of this standing.
  package static func mayTake(from standing: AppStanding) -> Bool { standing != .active }
}
