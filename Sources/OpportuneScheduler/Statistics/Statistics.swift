internal import COpportune
public import OpportuneBase

/// Counters of one app since it was made.
///
/// A value. The counters are read one after the other, so they may differ by what happened in between.
public struct AppStatistics: Sendable {
  /// The counters of one band.
  public struct Counts: Sendable {
    /// Jobs run: slices of tasks, closures, turns of strands.
    public let jobs: UInt64
    /// Accepted closures: the app's own and those of its strands.
    public let submitted: UInt64
    /// Accepted closures that a shutdown cancelled.
    public let cancelled: UInt64
    /// CPU time used by the app's jobs. A slice under 50 µs counts its wall-clock time.
    public let cpuTime: Duration
    /// Jobs that were taken by another worker than the one which queued them.
    public let stolen: UInt64
    /// Levels lost by using up quanta.
    public let demotions: UInt64
    /// Levels restored by blocking.
    public let restored: UInt64
    /// Jobs that went to the language's global pool. Tasks that the program itself started there are counted
    /// only with ``SchedulerConfiguration/countsEscapes``.
    public let escapes: UInt64
    /// System calls made to wake a worker for a queued job. For most jobs a worker is already awake.
    public let wakeups: UInt64
    /// How long jobs waited in the queue. One job in eight is measured; of a strand, one turn in eight.
    public let waiting: LatencyHistogram
  }

  /// The app's name.
  public let name: String
  /// The app's current band.
  public let band: Band
  /// Whether the app is suspended; a job that ran then may not have ended yet.
  public let isSuspended: Bool
  /// Whether anything is counted. Without ``SchedulerConfiguration/collectsStatistics`` all counters are
  /// zero.
  public let isCollected: Bool
  private let byBand: [Counts]
  private let all: Counts

  /// Distinguishes apps of the same name.
  package let number: UInt64

  /// The counters of one band. A job counts in the band where it ran.
  public func counts(in band: Band) -> Counts { byBand[Int(band.rawValue)] }

  // Sums over all bands; see ``Counts``.
  /// Jobs run: slices of tasks, closures, turns of strands.
  public var jobs: UInt64 { all.jobs }
  /// Accepted closures: the app's own and those of its strands.
  public var submitted: UInt64 { all.submitted }
  /// Accepted closures that a shutdown cancelled.
  public var cancelled: UInt64 { all.cancelled }
  /// CPU time used by the app's jobs. A slice under 50 µs counts its wall-clock time.
  public var cpuTime: Duration { all.cpuTime }
  /// Jobs that were taken by another worker than the one which queued them.
  public var stolen: UInt64 { all.stolen }
  /// Levels lost by using up quanta.
  public var demotions: UInt64 { all.demotions }
  /// Levels restored by blocking.
  public var restored: UInt64 { all.restored }
  /// Jobs that went to the language's global pool; see ``Counts/escapes``.
  public var escapes: UInt64 { all.escapes }
  /// System calls made to wake a worker for a queued job.
  public var wakeups: UInt64 { all.wakeups }
  /// How long jobs waited in the queue. One job in eight is measured; of a strand, one turn in eight.
  public var waiting: LatencyHistogram { all.waiting }

  init(_ app: AppRecord) {
    number = app.number
    name = app.name
    isCollected = app.statistics.isCollecting
    (band, isSuspended) = app.standing
    let values = Band.allCases.map { app.statistics.read($0) }
    byBand = values.map { Counts([$0]) }
    all = Counts(values)
  }
}

extension AppStatistics.Counts {
  /// The sum of several readings.
  init(_ values: [opp_stats_values]) {
    func sum(_ counter: StatisticsBlock.Counter) -> UInt64 {
      values.reduce(0) { $0 &+ $1[counter] }
    }
    jobs = sum(.jobs)
    cpuTime = .nanoseconds(Int64(clamping: sum(.cpuNanoseconds)))
    stolen = sum(.stolen)
    demotions = sum(.demotions)
    restored = sum(.restored)
    escapes = sum(.escapes)
    cancelled = sum(.cancelled)
    submitted = sum(.submitted)
    wakeups = sum(.wakeups)
    var waited = [UInt64](repeating: 0, count: Int(OPP_BUCKETS))
    for values in values {
      withUnsafeBytes(of: values.waited) { bytes in
        for (bucket, count) in bytes.bindMemory(to: UInt64.self).enumerated() { waited[bucket] &+= count }
      }
    }
    waiting = LatencyHistogram(counts: waited, bits: Int(OPP_BUCKET_BITS), unit: Int(OPP_BUCKET_UNIT))
  }
}

/// Counters of a scheduler, and the state of its pools at the time of the call.
public struct SchedulerStatistics: Sendable {
  /// One pool.
  public struct PoolStatistics: Sendable {
    /// The pool.
    public let pool: WorkerPool
    /// Workers that hold a run token now.
    public let working: Int
    /// Workers that run demoted jobs, or long ones that have yielded, beside the run tokens now.
    public let demoted: Int
    /// Workers that are parked now.
    public let sleeping: Int
    /// System calls made to wake a worker.
    public let wakeups: UInt64
    /// How often a worker was blocked inside a job while others waited, and was replaced by another worker.
    public let replaced: UInt64
    /// How often a fresh job that had used the CPU for a millisecond or longer went on beside the run tokens,
    /// so that fresh work that waited could begin.
    public let yielded: UInt64
  }

  /// What apps' targets leave the background, and why; see ``App/target(_:)``.
  public struct BackgroundShare: Sendable, Hashable {
    /// Why the background's share was changed.
    public enum Reason: String, Sendable, Hashable {
      /// More than one in a hundred requests were late.
      case late
      /// The same, soon after the number was raised: that was undone.
      case lateOnTrial
      /// The same; but background has the least that it may have, or has not run, so nothing was changed.
      case outOfReach
      /// All targets held with room, and background used all that it might.
      case room
      /// There were no requests for a while.
      case noRequests
      /// No target is left that counts: background has all workers again.
      case noTarget
    }

    /// How many workers of background work may run at once now.
    public internal(set) var workers = 0
    /// The share of the storage device that background has beside the foreground, as far as an I/O broker
    /// serves apps of the scheduler: of its requests in flight, and of its rates; 1/8 to 1.
    public internal(set) var device = 1.0
    /// How often either was lowered for a target.
    public internal(set) var cuts: UInt64 = 0
    /// How often either was raised again, as far as targets allow or because they ended.
    public internal(set) var raises: UInt64 = 0
    /// The reason of the last change; nil where there was none yet.
    public internal(set) var reason: Reason?
    /// The app whose target was that reason; nil where it is no single one.
    public internal(set) var app: String?
  }

  /// Whether apps' counters are kept: ``SchedulerConfiguration/collectsStatistics``. All other figures are
  /// always kept.
  public let isCollected: Bool
  /// Every app that exists.
  public let apps: [AppStatistics]
  /// Every configured pool.
  public let pools: [PoolStatistics]
  /// Jobs of all apps that went to the language's global pool.
  public let escapes: UInt64
  /// Accounts that the table of tasks has evicted for want of room. Each may cost one task its demotion.
  public let accountsForgotten: UInt64
  /// Memory of the run queue, in bytes.
  public let queueMemory: UInt64

  /// Times that foreground work was seen to wait for a lock of the program's whose holder stood below it, and
  /// that something was done about it; ``lockHoldersRaised`` and ``cpusCleared`` say what. Each is a place
  /// where shared state would better be kept in another way.
  public let lockInversions: UInt64
  /// Holders of such locks that were given the priority of who waits.
  public let lockHoldersRaised: UInt64
  /// Holders of such locks, where the process may not raise them, whose CPU demoted work left to them.
  public let cpusCleared: UInt64
  /// Times that the scheduler has looked for such waits: each 0.7 ms at most, while foreground jobs run
  /// beside others that stand lower. Each takes some 20 µs of a CPU.
  public let lockLooks: UInt64
  /// Threads that it has asked for that what they wait for: four in a look at most, and the holders of their
  /// locks, unless a holder is being helped. Each takes some 4 µs of a CPU.
  public let lockQuestions: UInt64

  /// What apps' targets leave the background, and why.
  public let backgroundShare: BackgroundShare

  /// The real-time foreground; nil where ``SchedulerConfiguration/foregroundClass`` is the normal class.
  public let realTimeForeground: RealTimeForegroundStatistics?

  /// Sleeps on apps' clocks that have not ended.
  public let timers: Int

  init(_ engine: Engine, _ known: Monitor.Snapshot) {
    isCollected = engine.configuration.collectsStatistics
    apps = known.apps.map(AppStatistics.init)
    timers = known.timers
    pools = engine.pools.map {
      PoolStatistics(
        pool: $0.pool, working: Int(opp_pool_working($0.raw)), demoted: $0.demotedCount,
        sleeping: Int(opp_pool_sleeping($0.raw)), wakeups: opp_pool_wakeups($0.raw),
        replaced: $0.replaced.load(ordering: .relaxed), yielded: $0.yielded.load(ordering: .relaxed))
    }
    backgroundShare = known.share
    realTimeForeground = engine.realTime.map { realTime in
      RealTimeForegroundStatistics(
        access: known.realTime ?? .refused, jobsLeft: realTime.left.load(ordering: .relaxed),
        exhausted: realTime.exhausted.load(ordering: .relaxed))
    }
    escapes = engine.escapeCount
    accountsForgotten = engine.accounts.evictions
    queueMemory = opp_core_memory(engine.core)
    lockInversions = engine.monitor.lockCounts.inversions.load(ordering: .relaxed)
    lockHoldersRaised = engine.monitor.lockCounts.raised.load(ordering: .relaxed)
    cpusCleared = engine.monitor.lockCounts.cleared.load(ordering: .relaxed)
    lockLooks = engine.monitor.lockCounts.looks.load(ordering: .relaxed)
    lockQuestions = engine.monitor.lockCounts.questions.load(ordering: .relaxed)
  }
}
