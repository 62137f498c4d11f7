/// The workers that share one kernel scheduling class.
///
/// Which pool serves a piece of work follows from its level; see `Bands.pool(of:)`.
public enum WorkerPool: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// The lowest kernel priority; see ``BackgroundClass``.
  case background = 0
  /// Normal kernel priority.
  case foreground = 1
  /// `SCHED_RR` where the process may.
  case realTime = 2
}

/// The levels of background, foreground and real-time work. (R-CPU-01)
///
/// Background and foreground **overlap**, by one level unless configured otherwise (R-CPU-03, R-CPU-04). A
/// foreground thread that keeps using whole quanta is demoted into levels that background work has too, and
/// is served beside it. ``disjoint`` bands are possible as well.
///
/// Within a band, work has a *rank*: the number of levels below the band's top. The rank comes from the
/// task's priority and grows with demotion.
///
/// Values of this type are validated when made, so they are always consistent. Safe to use from any thread.
public struct Bands: Sendable, Hashable {
  /// Levels of work that nobody is waiting for.
  public let background: ClosedRange<Level>

  /// Levels of work that a person is waiting for.
  public let foreground: ClosedRange<Level>

  /// Levels of work with deadlines.
  public let realTime: ClosedRange<Level>

  /// The default: background 0...20, foreground 20...50, real-time 51...63; an overlap of one level.
  /// (R-CPU-04)
  public static let `default` = Bands(overlap: 1)

  /// The default without overlap: foreground is 21...50. Foreground work then never shares a level with
  /// background work, and a foreground hog may starve the background. (R-CPU-01, R-CPU-04)
  public static let disjoint = Bands(overlap: 0)

  /// The largest overlap that ``overlapping(by:)`` accepts: all of the default background band.
  public static let overlapMax = Int(defaultBackground.upperBound.rawValue) + 1

  private static let defaultBackground: ClosedRange<Level> = 0...20

  /// The lowest rank at which work starts: that of priority `.background`. Validation keeps it above the
  /// overlap.
  static let initialRankMax = 16

  /// Makes bands of the given levels.
  ///
  /// - Throws: ``ConfigurationError`` with code ``ConfigurationError/Code/bands`` unless all of these hold:
  ///   - Real-time lies above foreground.
  ///   - Foreground neither starts below background nor ends within it.
  ///   - Foreground has 17 levels or more above background. Then work that was never demoted stays out of the
  ///     overlap at every task priority.
  public init(
    background: ClosedRange<Level>, foreground: ClosedRange<Level>, realTime: ClosedRange<Level>
  ) throws(ConfigurationError) {
    func refuse(_ expected: String) -> ConfigurationError {
      ConfigurationError(
        .bands, value: "background \(background), foreground \(foreground), real-time \(realTime)",
        expected: expected)
    }
    guard foreground.upperBound < realTime.lowerBound else {
      throw refuse("real-time levels above all foreground levels")
    }
    guard background.lowerBound <= foreground.lowerBound else {
      throw refuse("foreground levels from \(background.lowerBound), the lowest background level, or higher")
    }
    let firstOwn = max(Int(foreground.lowerBound.rawValue), Int(background.upperBound.rawValue) + 1)
    let own = Int(foreground.upperBound.rawValue) - firstOwn + 1
    guard own > Bands.initialRankMax else {
      throw refuse(
        "\(Bands.initialRankMax + 1) or more foreground levels above background, not \(max(0, own))")
    }
    self.background = background
    self.foreground = foreground
    self.realTime = realTime
  }

  /// The default ranges, with foreground extended over the top `levels` levels of background. (R-CPU-04)
  ///
  /// - Parameter levels: 0 (the same as ``disjoint``) to ``overlapMax`` (21).
  /// - Throws: ``ConfigurationError`` with code ``ConfigurationError/Code/overlap`` where out of range.
  public static func overlapping(by levels: Int) throws(ConfigurationError) -> Bands {
    guard (0...overlapMax).contains(levels) else {
      throw ConfigurationError(.overlap, value: levels, expected: "0 to \(overlapMax) levels")
    }
    return Bands(overlap: UInt8(levels))
  }

  private init(overlap: UInt8) {
    background = Bands.defaultBackground
    foreground = Level(known: Bands.defaultBackground.upperBound.rawValue + 1 - overlap)...50
    realTime = 51...63
  }

  /// How many levels background and foreground share; 0 where they are disjoint. (R-CPU-03)
  public var overlap: Int {
    max(0, Int(background.upperBound.rawValue) - Int(foreground.lowerBound.rawValue) + 1)
  }

  /// The levels of `band`.
  package func range(of band: Band) -> ClosedRange<Level> {
    switch band {
    case .background: background
    case .foreground: foreground
    case .realTime: realTime
    }
  }

  /// The level that lies `rank` steps below the top of `band`. A rank below 0 counts as 0. A rank beyond the
  /// band gives the band's lowest level.
  package func level(band: Band, rank: Int) -> Level {
    let range = range(of: band)
    return range.upperBound.lowered(by: rank, floor: range.lowerBound)
  }

  /// The rank at which work of a task priority starts. Task priorities order work *within* an app and band
  /// only.
  ///
  /// | priority | rank |
  /// |---|---|
  /// | above `.high` (26 or more, such as user-interactive, 33) | 0 |
  /// | `.high` (25), above `.medium` | 4 |
  /// | none, `.medium` (21), above `.utility` | 8 |
  /// | `.low`, `.utility` (17), above `.background` | 12 |
  /// | `.background` (9) or less | 16 |
  ///
  /// The ranks in between are for demoted work. In the foreground band all five lie above the overlap. In a
  /// band of fewer levels the last ones share its lowest level.
  ///
  /// - Parameter band: the band of the work; its length bounds the result.
  package func initialRank(for priority: TaskPriority?, band: Band) -> Int {
    let rank =
      switch priority?.rawValue {
      case nil: 8
      case .some(26...): 0
      case .some(22...): 4
      case .some(18...): 8
      case .some(10...): 12
      case .some: Bands.initialRankMax
      }
    return min(rank, rankMax(of: band))
  }

  /// The rank of the lowest level of `band`: its number of levels minus one.
  package func rankMax(of band: Band) -> Int {
    let range = range(of: band)
    return Int(range.upperBound.rawValue) - Int(range.lowerBound.rawValue)
  }

  /// The number of levels by which work that started at `rank` can be lowered within `band`: the limit for
  /// ``DemotionAccount/depth``.
  package func depthMax(of band: Band, rank: Int) -> Int { max(0, rankMax(of: band) - max(0, rank)) }

  /// The pool that serves `level`.
  ///
  /// The background pool serves all levels of the background band, including those of the overlap. So a
  /// foreground thread that was demoted into the overlap runs beside background work and no longer before it
  /// (R-CPU-05).
  package func pool(of level: Level) -> WorkerPool {
    if level <= background.upperBound { return .background }
    return level < realTime.lowerBound ? .foreground : .realTime
  }

  /// Whether work at `level` is foreground work that was demoted into the overlap: without its demotion it
  /// would be above all background levels.
  ///
  /// - Parameter depth: how many levels of it are demotion.
  package func isOverlap(_ level: Level, depth: Int) -> Bool {
    level <= background.upperBound
      && Int(level.rawValue) + max(0, min(depth, Level.count)) > Int(background.upperBound.rawValue)
  }

  /// The raw level of each rank of `band`: entry `i` of 64 is `level(band: band, rank: i)`. The C core maps
  /// ranks to levels by this table.
  package func levelTable(for band: Band) -> [UInt8] {
    (0..<Level.count).map { level(band: band, rank: $0).rawValue }
  }
}
