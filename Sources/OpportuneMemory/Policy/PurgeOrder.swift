/// Which purgeable region goes first: a pure function. (R-MEM-05)
///
/// Suspended apps give before background apps, and these before inactive ones; the active app gives nothing.
/// Within a standing the lower group goes first, and within a group the older region.
public struct PurgeOrder: Sendable, Hashable {
  /// What makes a region old.
  public enum Age: Sendable, Hashable, CaseIterable {
    /// It was made, or filled again, earlier than others.
    case firstIn
    /// It was used last longer ago than others, to the 1 to 10 ms of the kernel's tick; at the same tick, as
    /// `firstIn`.
    case leastRecentlyUsed
  }

  /// Among apps that are alike.
  public var age: Age

  /// An order by standing, and then by age.
  public init(age: Age = .leastRecentlyUsed) { self.age = age }

  /// What the order looks at.
  package struct Candidate: Sendable, Hashable {
    package var standing: AppStanding
    /// Given by the app: the lower, the sooner.
    package var group: UInt32
    /// Grows with each region that is made or filled.
    package var born: UInt64
    /// Nanoseconds of a clock that never goes back.
    package var used: UInt64

    package init(standing: AppStanding, group: UInt32, born: UInt64, used: UInt64) {
      self.standing = standing
      self.group = group
      self.born = born
      self.used = used
    }
  }

  /// Whether `left` goes before `right`.
  package func takes(_ left: Candidate, before right: Candidate) -> Bool {
    if left.standing != right.standing { return left.standing < right.standing }
    if left.group != right.group { return left.group < right.group }
    switch age {
    case .firstIn: return left.born < right.born
    case .leastRecentlyUsed: return (left.used, left.born) < (right.used, right.born)
    }
  }

  /// Whether anything may be taken from an app of this standing.
  package static func mayTake(from standing: AppStanding) -> Bool { standing != .active }
}
