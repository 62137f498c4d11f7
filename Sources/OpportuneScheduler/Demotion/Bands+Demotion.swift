/// The rank at which undemoted work of a task priority starts: one of five ranks that are reserved for
/// undemoted work. Each queued job carries it; the job's depth of demotion follows from it and the rank.
struct BasePriority: Sendable, Hashable {
  static let count = 5
  /// 0 to 4; 0 is the highest.
  let index: UInt8

  /// - Parameter rawValue: raw value of a `TaskPriority`; see ``Bands/initialRank(for:band:)``.
  init(_ rawValue: UInt8) {
    index =
      switch rawValue {
      case 26...: 0
      case 22...: 1
      case 18...: 2
      case 10...: 3
      default: 4
      }
  }

  init(_ priority: TaskPriority) { self.init(priority.rawValue) }

  /// The base of work without a priority: `.medium`.
  static let medium = BasePriority(21 as UInt8)

  /// From the index that a queue entry carries.
  init(index: UInt8) { self.index = min(index, UInt8(Self.count - 1)) }
}

/// The ranks of demoted work.
///
/// The ranks at which undemoted work starts (0, 4, 8, 12, 16) hold no demoted work. So a pool that has
/// reached its limit of demoted workers can exclude demoted work by a mask of levels.
extension Bands {
  private static let initialRanks = stride(from: 0, through: initialRankMax, by: 4)

  /// The rank of work that started at `base` and was lowered `depth` times. Each step goes to the next lower
  /// rank that is not reserved for undemoted work. (R-CPU-06, R-CPU-07)
  func rank(base: Int, depth: Int) -> Int {
    var rank = base
    for _ in 0..<max(0, depth) {
      rank += 1
      if rank <= Bands.initialRankMax, rank % 4 == 0 { rank += 1 }
    }
    return min(rank, Level.count - 1)
  }

  /// The number of steps by which work of that base was lowered to `rank`: the inverse of
  /// ``rank(base:depth:)``. In a band of fewer levels, where the last bases share the lowest level, the
  /// result is a lower bound.
  static func depth(rank: Int, base: BasePriority) -> Int {
    let base = min(4 * Int(base.index), min(rank, initialRankMax) / 4 * 4)
    return rank - base - (min(rank, initialRankMax) / 4 - base / 4)
  }

  /// Whether `rank` of `band` holds only demoted work.
  func isDemoted(rank: Int, band: Band) -> Bool {
    if Bands.initialRanks.contains(rank) { return false }
    // In a band of fewer levels the last initial rank is the band's lowest.
    return !(rank == rankMax(of: band) && rank < Bands.initialRankMax)
  }

  /// The levels that `pool` serves, one bit each.
  func mask(of pool: WorkerPool, in configuration: SchedulerConfiguration) -> UInt64 {
    mask { configuration.pool(of: $0) == pool }
  }

  /// The levels that hold nothing but demoted work of the foreground and real-time bands.
  var demotedMask: UInt64 {
    var undemoted: UInt64 = 0
    for band in Band.allCases where band != .background {
      for rank in 0..<Level.count where !isDemoted(rank: rank, band: band) {
        undemoted |= 1 << UInt64(level(band: band, rank: rank).rawValue)
      }
    }
    return mask { $0 > background.upperBound && undemoted & (1 << UInt64($0.rawValue)) == 0 }
  }

  /// The levels of the foreground and real-time bands that hold work which was lowered exactly once.
  var loweredOnceMask: UInt64 {
    var once: UInt64 = 0
    for band in Band.allCases where band != .background {
      for base in Self.initialRanks {
        once |= 1 << UInt64(level(band: band, rank: rank(base: base, depth: 1)).rawValue)
      }
    }
    return once
  }

  private func mask(where holds: (Level) -> Bool) -> UInt64 {
    (0..<UInt8(Level.count)).reduce(0) { holds(Level(known: $1)) ? $0 | 1 << UInt64($1) : $0 }
  }
}
