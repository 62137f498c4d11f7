/// How a scheduler is set up: a value, checked as a whole by ``validate()``, which every start of a scheduler
/// calls.
///
/// Every setting has a default that suits a program with one foreground and much background (R-SYS-03:
/// nothing here assumes a kind of device; workers follow the processors found). Safe to use from any thread.
public struct SchedulerConfiguration: Sendable, Hashable {
  /// How many workers a pool has.
  public enum Workers: Sendable, Hashable {
    /// One for each CPU that the process may use, bounded by its CPU quota, and following both when they
    /// change.
    case automatic
    /// So many, 1 to 256, whatever the machine has.
    case fixed(Int)
  }

  /// What happens to jobs that are queued when their app changes band.
  public enum QueuedJobs: Sendable, Hashable, CaseIterable, Codable {
    /// They run in the app's new band. (R-CPU-10)
    case follow
    /// They run in the band in which they were submitted.
    case stay
  }

  /// Numbers of workers that are accepted: 1 to 256.
  public static let workersRange: ClosedRange<Int> = 1...256
  /// Limits of demoted workers per core that are accepted: 1 to 64.
  public static let demotedLimitPerCoreRange: ClosedRange<Int> = 1...64
  /// Delays of the spare worker that are accepted: 50 µs to 10 ms.
  public static let spareDelayRange: ClosedRange<Duration> = .microseconds(50) ... .milliseconds(10)
  /// Tolerances that are accepted: 0 to 1 s.
  public static let timerToleranceRange: ClosedRange<Duration> = .zero ... .seconds(1)
  /// Numbers of apps that are accepted: 1 to 32,767.
  public static let maximumAppsRange: ClosedRange<Int> = 1...32_767
  /// Length of a name in bytes of UTF-8 that is accepted: 1 to 64.
  public static let nameLengthRange: ClosedRange<Int> = 1...64

  /// Appears in thread names (as much as fits), statistics and errors. 1 to 64 bytes of UTF-8 without control
  /// characters; "opportune" by default.
  public var name = "opportune"

  /// Which levels belong to which band; an overlap of one level by default. (R-CPU-03, R-CPU-04)
  public var bands = Bands.default

  /// When threads are demoted; 10 ms, one level, full recovery by default. (R-CPU-06, R-CPU-07)
  public var quantum = QuantumPolicy()

  /// The kernel class of the background pool; `SCHED_IDLE` by default. (R-CPU-01)
  public var backgroundClass = BackgroundClass.idle

  /// How many workers each pool has; one per usable CPU by default.
  public var workers = Workers.automatic

  /// The pools that run. Foreground and background are needed; real-time is off by default. Without it the
  /// foreground pool serves real-time levels, before all others.
  public var pools: Set<WorkerPool> = [.foreground, .background]

  /// How many demoted workers may run beside the counted ones, per core and pool; 1 to 64, 4 by default. Jobs
  /// that turn out to be hogs while they run count up to twice that, up to sixteen times where they would
  /// else keep fresh work from running for several quanta, and beyond that if they had blocked and been
  /// replaced before.
  public var demotedLimitPerCore = 4

  /// How long all of a pool's workers must have been inside their jobs before the one in reserve is woken; 50
  /// µs to 10 ms, 500 µs by default. Where the pool's jobs ordinarily take longer, it is twice as long as
  /// they do, a quantum at most. A blocked job's worker is replaced after as long, which doubles with every
  /// eight workers a core that the pool has, a second at most: hundreds of jobs that block at once begin one
  /// by one.
  public var spareDelay: Duration = .microseconds(500)

  /// How late a timer may fire, where its owner does not say, so that it can fire together with others; 0 to
  /// 1 s, 1 ms by default.
  public var timerTolerance: Duration = .milliseconds(1)

  /// What happens to queued jobs when their app changes band; they follow by default. (R-CPU-10)
  public var queuedJobs = QueuedJobs.follow

  /// How many apps may exist at a time; 1 to 32,767, 4,096 by default.
  public var maximumApps = 4096

  /// Whether tasks that apps' work starts in the runtime's global pool are counted, once each. Off by
  /// default: it places a hook in the runtime. A task that is older than the hook counts when an app's work
  /// resumes it.
  public var countsEscapes = false

  /// Whether each app's jobs, CPU time and waiting times are counted; on by default, and cheap. Off, apps
  /// have no counters, and their statistics say so; CPU time is still measured where demotion needs it.
  public var collectsStatistics = true

  /// The defaults.
  public init() {}

  /// Checks every setting; changes nothing.
  ///
  /// - Throws: ``ConfigurationError`` for the first setting that is out of range: its code names the
  ///   setting, its description the value and what was expected.
  public func validate() throws(ConfigurationError) {
    try quantum.validate()
    if case .fixed(let count) = workers { try requireInRange(count, Self.workersRange, .workers) }
    guard pools.isSuperset(of: [.foreground, .background]) else {
      let named = pools.sorted { $0.rawValue < $1.rawValue }.map { "\($0)" }.joined(separator: ", ")
      throw ConfigurationError(.pools, value: "[\(named)]", expected: "at least foreground and background")
    }
    try requireInRange(demotedLimitPerCore, Self.demotedLimitPerCoreRange, .demotedLimitPerCore)
    try requireInRange(spareDelay, Self.spareDelayRange, .spareDelay)
    try requireInRange(timerTolerance, Self.timerToleranceRange, .timerTolerance)
    try requireInRange(maximumApps, Self.maximumAppsRange, .maximumApps)
    try validateName()
  }

  /// The pool that serves `level` with the pools that are configured: as ``Bands/pool(of:)``, with foreground
  /// for real-time where that pool is off.
  package func pool(of level: Level) -> WorkerPool {
    let pool = bands.pool(of: level)
    return pool == .realTime && !pools.contains(.realTime) ? .foreground : pool
  }

  private func validateName() throws(ConfigurationError) {
    let isPlain = name.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    guard Self.nameLengthRange.contains(name.utf8.count), isPlain else {
      throw ConfigurationError(
        .name, value: name.prefix(64).debugDescription,
        expected: "1 to \(Self.nameLengthRange.upperBound) bytes of UTF-8 without control characters")
    }
  }
}
