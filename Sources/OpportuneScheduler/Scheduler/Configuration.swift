/// The settings of a scheduler: a value, checked as a whole by ``validate()``, which every start of a
/// scheduler calls.
///
/// Every setting has a default that suits a program with one foreground app and many background apps. Nothing
/// here assumes a kind of device; the number of workers follows the processors found (R-SYS-03). Safe to use
/// from any thread.
public struct SchedulerConfiguration: Sendable, Hashable {
  /// The number of workers that run at once in each pool.
  public enum Workers: Sendable, Hashable {
    /// One for each CPU that the process may use, limited by its CPU quota; two in the foreground pool, so
    /// that a short job need not wait for a long one: the kernel gives it the CPU after a slice of 100 µs.
    /// Changes of both are followed.
    case automatic
    /// A fixed number, 1 to 256, whatever the machine has.
    case fixed(Int)
  }

  /// The accepted fixed numbers of workers: 1 to 256.
  public static let workersRange: ClosedRange<Int> = 1...256
  /// The accepted values of ``demotedLimitPerCore``: 1 to 64.
  public static let demotedLimitPerCoreRange: ClosedRange<Int> = 1...64
  /// The accepted values of ``spareDelay``: 50 µs to 10 ms.
  public static let spareDelayRange: ClosedRange<Duration> = .microseconds(50) ... .milliseconds(10)
  /// The accepted values of ``timerTolerance``: 0 to 1 s.
  public static let timerToleranceRange: ClosedRange<Duration> = .zero ... .seconds(1)
  /// The accepted values of ``maximumApps``: 1 to 32,767.
  public static let maximumAppsRange: ClosedRange<Int> = 1...32_767
  /// The accepted length of ``name`` in bytes of UTF-8: 1 to 64.
  public static let nameLengthRange: ClosedRange<Int> = 1...64

  /// The scheduler's name, which appears in thread names (truncated to fit), statistics and errors. 1 to 64
  /// bytes of UTF-8 without control characters; "opportune" by default.
  public var name = "opportune"

  /// The levels of each band; an overlap of one level by default. (R-CPU-03, R-CPU-04)
  public var bands = Bands.default

  /// When threads are demoted; 10 ms, one level, full recovery by default. (R-CPU-06, R-CPU-07)
  public var quantum = QuantumPolicy()

  /// The kernel class of the background pool; `SCHED_IDLE` by default. (R-CPU-01)
  public var backgroundClass = BackgroundClass.idle

  /// The kernel class of fresh foreground work; `SCHED_OTHER` by default. A real-time class, bounded by a
  /// quantum and a share, is a choice. (R-CPU-01)
  public var foregroundClass = ForegroundClass.normal

  /// The kernel class of foreground work that was demoted into the overlap; nice 19 by default, which leaves
  /// a background thread one sixth of a CPU that both use. (R-CPU-05)
  public var overlapClass = OverlapClass.nice19

  /// How many workers of each pool run at once; one per usable CPU by default, and two of the foreground's.
  public var workers = Workers.automatic

  /// The pools that run. Foreground and background are required; real-time is off by default. Without it the
  /// foreground pool serves real-time levels, before all others.
  public var pools: Set<WorkerPool> = [.foreground, .background]

  /// How many demoted workers may run beside the run tokens, per core and pool; 1 to 64, 4 by default.
  ///
  /// Jobs that were lowered once, and may be short, begin up to twice that number. Jobs that turn out to be
  /// hogs while they run count up to three times that number. Where they would otherwise
  /// keep fresh work from running for several quanta, they count up to sixteen times that number. Jobs that
  /// had blocked and been replaced before may exceed even that.
  public var demotedLimitPerCore = 4

  /// How long all of a pool's workers must have been inside their jobs before the spare worker is woken; 50
  /// µs to 10 ms, 500 µs by default.
  ///
  /// Where the pool's jobs ordinarily take longer, the delay is twice their ordinary CPU time, a quantum at
  /// most. A blocked job's worker is replaced after the same delay, doubled with every eight workers per core
  /// that the pool has, a second at most. So hundreds of jobs that block at once begin one by one.
  public var spareDelay: Duration = .microseconds(500)

  /// How late a timer may fire if its owner sets no tolerance, so that timers can fire together; 0 to 1 s, 1
  /// ms by default.
  public var timerTolerance: Duration = .milliseconds(1)

  /// How many apps may exist at the same time; 1 to 32,767, 4,096 by default.
  public var maximumApps = 4096

  /// Whether tasks that apps' work starts in the runtime's global pool are counted, once each. Off by
  /// default, since it installs a hook in the runtime. A task that is older than the hook is counted when an
  /// app's work resumes it.
  public var countsEscapes = false

  /// Whether each app's jobs, CPU time and waiting times are counted. On by default, at little cost. Without
  /// it apps have no counters, and their statistics say so; CPU time is still measured where demotion needs
  /// it.
  public var collectsStatistics = true

  /// Makes a configuration of the defaults.
  public init() {}

  /// Checks every setting; changes nothing.
  ///
  /// - Throws: ``ConfigurationError`` for the first setting that is out of range. Its code names the setting;
  ///   its description names the value and what was expected.
  public func validate() throws(ConfigurationError) {
    try quantum.validate()
    try foregroundClass.validate()
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

  /// The pool that serves `level` with the configured pools: like ``Bands/pool(of:)``, but foreground serves
  /// real-time levels where that pool is off.
  package func pool(of level: Level) -> WorkerPool {
    let pool = bands.pool(of: level)
    return pool == .realTime && !pools.contains(.realTime) ? .foreground : pool
  }

  /// The run tokens of a pool on `width` CPUs, where there are threads enough.
  func runTokens(of pool: WorkerPool, width: Int) -> Int {
    switch workers {
    case .automatic: pool == .foreground ? 2 * width : width
    case .fixed: width
    }
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
