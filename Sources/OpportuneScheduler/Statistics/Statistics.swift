internal import COpportune
public import OpportuneBase

/// What an app has done and waited for since it was made. A value; counters are read one after the other, so
/// they may differ by what happened in between.
public struct AppStatistics: Sendable {
  /// What was counted while the app was in one band.
  public struct Counts: Sendable {
    /// Jobs run: slices of tasks, closures, turns of strands.
    public let jobs: UInt64
    /// Closures and strands' closures accepted, and those that were cancelled by a shutdown.
    public let submitted: UInt64
    /// Accepted closures that were cancelled by a shutdown.
    public let cancelled: UInt64
    /// CPU time used by its jobs. Slices under 50 µs count as they stand, by the wall clock.
    public let cpuTime: Duration
    /// Jobs that another worker took than the one which queued them.
    public let stolen: UInt64
    /// Levels lost by using up quanta, and won back by blocking.
    public let demotions: UInt64
    /// Levels won back by blocking.
    public let restored: UInt64
    /// Jobs that went to the language's global pool. Tasks that the program itself started there are counted
    /// only with ``SchedulerConfiguration/countsEscapes``.
    public let escapes: UInt64
    /// System calls made to wake a worker for a job that was queued; most jobs find one that is awake.
    public let wakeups: UInt64
    /// How long jobs waited in the queue; one job in eight is measured, and of a strand one turn in eight.
    public let waiting: LatencyHistogram
  }

  /// The app's name and present band.
  public let name: String
  /// The band that it is in now.
  public let band: Band
  /// Whether anything is counted; without ``SchedulerConfiguration/collectsStatistics`` all counters are
  /// zero.
  public let isCollected: Bool
  private let byBand: [Counts]
  private let all: Counts

  /// Tells apps of the same name apart.
  let number: UInt64

  /// What was counted while the app was in `band`. A job counts where it ran.
  public func counts(in band: Band) -> Counts { byBand[Int(band.rawValue)] }

  // In all bands, see ``Counts``.
  /// Jobs run: slices of tasks, closures, turns of strands.
  public var jobs: UInt64 { all.jobs }
  /// Closures and strands' closures accepted.
  public var submitted: UInt64 { all.submitted }
  /// Those of them that were cancelled by a shutdown.
  public var cancelled: UInt64 { all.cancelled }
  /// CPU time used by its jobs. Slices under 50 µs count as they stand, by the wall clock.
  public var cpuTime: Duration { all.cpuTime }
  /// Jobs that another worker took than the one which queued them.
  public var stolen: UInt64 { all.stolen }
  /// Levels lost by using up quanta.
  public var demotions: UInt64 { all.demotions }
  /// Levels won back by blocking.
  public var restored: UInt64 { all.restored }
  /// Jobs that went to the language's global pool; see ``Counts/escapes``.
  public var escapes: UInt64 { all.escapes }
  /// System calls made to wake a worker for a job that was queued.
  public var wakeups: UInt64 { all.wakeups }
  /// How long jobs waited in the queue; one job in eight is measured, and of a strand one turn in eight.
  public var waiting: LatencyHistogram { all.waiting }

  init(_ app: AppRecord) {
    number = app.number
    name = app.name
    isCollected = app.statistics.isCollecting
    band = app.band
    let values = Band.allCases.map { app.statistics.read($0) }
    byBand = values.map { Counts([$0]) }
    all = Counts(values)
  }
}

extension AppStatistics.Counts {
  /// The sum of some.
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

/// What a scheduler has done, and what its pools look like.
public struct SchedulerStatistics: Sendable {
  /// One pool.
  public struct PoolStatistics: Sendable {
    /// Which pool.
    public let pool: WorkerPool
    /// Workers that hold a token now, that run demoted jobs beside them, and that sleep.
    public let working: Int
    /// Workers that run demoted jobs beside them.
    public let demoted: Int
    /// Workers that sleep.
    public let sleeping: Int
    /// System calls made to wake a worker.
    public let wakeups: UInt64
    /// Times that a worker was blocked inside a job while others waited, and another worker took its place.
    public let replaced: UInt64
  }

  /// Whether apps' counters are kept: ``SchedulerConfiguration/collectsStatistics``. The rest is told all the
  /// same.
  public let isCollected: Bool
  /// Every living app.
  public let apps: [AppStatistics]
  /// Of each pool that is configured.
  public let pools: [PoolStatistics]
  /// Jobs that went to the language's global pool, of all apps.
  public let escapes: UInt64
  /// Accounts that the table of tasks forgot for want of room: each may cost one task its demotion.
  public let accountsForgotten: UInt64
  /// Memory of the run queue, in bytes.
  public let queueMemory: UInt64

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
        replaced: $0.replaced.load(ordering: .relaxed))
    }
    escapes = engine.escapeCount
    accountsForgotten = engine.accounts.evictions
    queueMemory = opp_core_memory(engine.core)
  }
}
