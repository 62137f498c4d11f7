internal import COpportune

/// What an app has done and waited for since it was made. A value; counters are read one after the other, so they may
/// differ by what happened in between.
public struct AppStatistics: Sendable {
  /// The app's name and present band.
  public let name: String
  public let band: Band
  /// Whether the counters below are kept; without ``SchedulerConfiguration/collectsStatistics`` they are zero.
  public let isCollected: Bool
  /// Jobs run: slices of tasks, closures, turns of strands.
  public let jobs: UInt64
  /// Closures and strands' closures accepted, and those that were cancelled by a shutdown.
  public let submitted: UInt64
  public let cancelled: UInt64
  /// CPU time used by its jobs. Slices under 50 µs count as they stand, by the wall clock.
  public let cpuTime: Duration
  /// Jobs that another worker took than the one which queued them.
  public let stolen: UInt64
  /// Levels lost by using up quanta, and won back by blocking.
  public let demotions: UInt64
  public let restored: UInt64
  /// Jobs that went to the language's global pool. Tasks that the program itself started there are counted only with
  /// ``SchedulerConfiguration/countsEscapes``.
  public let escapes: UInt64
  /// How long jobs waited in the queue; one job in eight is measured, and of a strand one turn in eight.
  public let waiting: WaitingHistogram

  /// Tells apps of the same name apart.
  let number: UInt64

  init(_ app: AppRecord) {
    number = app.number
    let values = app.statistics.read()
    let counter = withUnsafeBytes(of: values.counter) { Array($0.bindMemory(to: UInt64.self)) }
    name = app.name
    isCollected = app.statistics.isCollecting
    band = app.band
    jobs = counter[Int(opp_counter.OPP_COUNTER_JOBS.rawValue)]
    cpuTime = .nanoseconds(Int64(clamping: counter[Int(opp_counter.OPP_COUNTER_CPU_NS.rawValue)]))
    stolen = counter[Int(opp_counter.OPP_COUNTER_STOLEN.rawValue)]
    demotions = counter[Int(opp_counter.OPP_COUNTER_DEMOTIONS.rawValue)]
    restored = counter[Int(opp_counter.OPP_COUNTER_RESTORED.rawValue)]
    escapes = counter[Int(opp_counter.OPP_COUNTER_ESCAPES.rawValue)]
    cancelled = counter[Int(opp_counter.OPP_COUNTER_CANCELLED.rawValue)]
    submitted = counter[Int(opp_counter.OPP_COUNTER_SUBMITTED.rawValue)]
    waiting = WaitingHistogram(counts: withUnsafeBytes(of: values.waited) { Array($0.bindMemory(to: UInt64.self)) })
  }
}

/// Counts of waiting times in buckets, four an octave from 1 µs on.
public struct WaitingHistogram: Sendable {
  let counts: [UInt64]

  /// How many waits were measured.
  public var count: UInt64 { counts.reduce(0, +) }

  /// The wait that a share of the jobs did not exceed, to the upper end of its bucket (at most a quarter too long), or
  /// nil where none was measured.
  ///
  /// - Parameter share: 0 to 1; 0.99 is the 99th percentile.
  public func quantile(_ share: Double) -> Duration? {
    let total = count
    guard total > 0 else { return nil }
    let wanted = max(1, UInt64((Double(total) * (share > 0 ? min(share, 1) : 0)).rounded(.up)))
    var seen: UInt64 = 0
    for (bucket, bucketCount) in counts.enumerated() {
      seen += bucketCount
      if seen >= wanted { return .microseconds(Int64(clamping: opp_stats_bucket_end(UInt32(bucket)))) }
    }
    return nil
  }
}

/// What a scheduler has done, and what its lanes look like.
public struct SchedulerStatistics: Sendable {
  /// One lane.
  public struct LaneStatistics: Sendable {
    public let lane: Lane
    /// Workers that hold a permit now, that run demoted jobs beside them, and that sleep.
    public let working: Int
    public let demoted: Int
    public let sleeping: Int
    /// System calls made to wake a worker.
    public let wakeups: UInt64
    /// Times that a worker was blocked inside a job while others waited, and another worker took its place.
    public let replaced: UInt64
  }

  /// Whether apps' counters are kept: ``SchedulerConfiguration/collectsStatistics``. The rest is told all the same.
  public let isCollected: Bool
  /// Every living app.
  public let apps: [AppStatistics]
  public let lanes: [LaneStatistics]
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
    lanes = engine.lanes.map {
      LaneStatistics(
        lane: $0.lane, working: Int(opp_lane_working($0.raw)), demoted: $0.demotedCount,
        sleeping: Int(opp_lane_sleeping($0.raw)), wakeups: opp_lane_wakeups($0.raw),
        replaced: $0.replaced.load(ordering: .relaxed))
    }
    escapes = engine.escapeCount
    accountsForgotten = engine.accounts.evictions
    queueMemory = opp_core_memory(engine.core)
  }
}
