import CoreMetrics
import Logging
internal import OpportuneBase
import ServiceLifecycle

/// A scheduler as a service of `swift-service-lifecycle`.
///
/// It reports the scheduler's statistics to `swift-metrics`, and shuts the scheduler down when the service
/// group shuts down.
///
/// ```swift
/// let group = ServiceGroup(services: [SchedulerService(scheduler)], logger: logger)
/// ```
public struct SchedulerService: Service {
  private let scheduler: Scheduler
  private let interval: Duration
  private let limit: Duration
  private let factory: any MetricsFactory

  /// Makes the service.
  ///
  /// - Parameters:
  ///   - interval: the time between two reports; at least a second.
  ///   - limit: how long the shutdown waits for jobs that run or are queued.
  ///   - factory: the destination of the metrics; the program's own by default.
  public init(
    _ scheduler: Scheduler, reportingEvery interval: Duration = .seconds(10),
    shutdownWithin limit: Duration = .seconds(10), metrics factory: any MetricsFactory = MetricsSystem.factory
  ) {
    self.scheduler = scheduler
    self.interval = max(interval, .seconds(1))
    self.limit = limit
    self.factory = factory
  }

  /// Reports until the group shuts down or the task is cancelled, and then shuts the scheduler down.
  ///
  /// - Throws: ``SchedulerError``: `jobsStillRunning`; or `shutDown`, at once, if the scheduler was shut down
  ///   by other code.
  public func run() async throws {
    await cancelWhenGracefulShutdown { await report() }
    try await scheduler.shutdown(within: limit)
  }

  /// Reports periodically until cancelled, and once more then. Also ends when other code has shut the
  /// scheduler down, since its clock ends all sleeps early from then on.
  private func report() async {
    var reporter = MetricsReporter(to: factory)
    let clock = AppClock(scheduler.engine)
    while !Task.isCancelled, !scheduler.engine.isClosed {
      try? await clock.sleep(for: interval, tolerance: interval / 10)  // only a cancellation ends it early
      reporter.report(await scheduler.statistics())
    }
  }
}

/// Reports statistics to `swift-metrics`: counters as the increase since the last report, all other figures
/// as gauges.
///
/// Names begin with `opportune_`. The dimension `app` is the app's name, `band` the band in which it was
/// counted, `pool` the pool. Apps of the same name and band are added up.
public struct MetricsReporter: Sendable {
  private typealias Counts = [String: UInt64]

  private let factory: any MetricsFactory
  /// What was reported last: of each app, by its number, in each band; of each pool; of locks; of targets.
  private var apps: [UInt64: [Counts]] = [:]
  private var pools: [WorkerPool: Counts] = [:]
  private var locks: Counts?
  private var targets: Counts?

  /// - Parameter factory: the destination; the program's own by default.
  public init(to factory: any MetricsFactory = MetricsSystem.factory) { self.factory = factory }

  /// Reports one snapshot. Not thread-safe: one reporter belongs to one caller.
  public mutating func report(_ statistics: SchedulerStatistics) {
    // Apps that have ended are dropped.
    var reported: [UInt64: [Counts]] = [:]
    for app in statistics.apps where app.isCollected {
      let last = apps[app.number]
      reported[app.number] = Band.allCases.enumerated().map { report(app, in: $1, since: last?[$0]) }
    }
    apps = reported
    for pool in statistics.pools {
      let dimensions = [("pool", "\(pool.pool)")]
      pools[pool.pool] = add(
        [
          "opportune_wakeups": pool.wakeups, "opportune_replaced": pool.replaced,
          "opportune_yielded": pool.yielded,
        ], since: pools[pool.pool], dimensions)
      gauge("opportune_workers_working", dimensions, pool.working)
      gauge("opportune_workers_demoted", dimensions, pool.demoted)
    }
    locks = add(
      [
        "opportune_lock_inversions": statistics.lockInversions,
        "opportune_lock_holders_raised": statistics.lockHoldersRaised,
        "opportune_cpus_cleared": statistics.cpusCleared,
        "opportune_lock_looks": statistics.lockLooks,
        "opportune_lock_questions": statistics.lockQuestions,
        "opportune_real_time_jobs_left": statistics.realTimeForeground?.jobsLeft ?? 0,
        "opportune_real_time_exhausted": statistics.realTimeForeground?.exhausted ?? 0,
      ], since: locks, [])
    let share = statistics.backgroundShare
    targets = add(
      ["opportune_target_cuts": share.cuts, "opportune_target_raises": share.raises], since: targets, [])
    gauge("opportune_background_workers", [], share.workers)
    gauge("opportune_queue_bytes", [], Int64(clamping: statistics.queueMemory))
  }

  private func report(_ app: AppStatistics, in band: Band, since last: Counts?) -> Counts {
    let dimensions = [("app", app.name), ("band", "\(band)")]
    let counted = app.counts(in: band)
    for share in [0.5, 0.99] {
      guard let wait = counted.waiting.quantile(share) else { continue }
      gauge("opportune_wait_nanoseconds", dimensions + [("quantile", "\(share)")], wait.clampedNanoseconds)
    }
    let counts = [
      "opportune_jobs": counted.jobs,
      "opportune_cpu_nanoseconds": UInt64(clamping: counted.cpuTime.clampedNanoseconds),
      "opportune_demotions": counted.demotions, "opportune_stolen": counted.stolen,
      "opportune_cancelled": counted.cancelled, "opportune_escapes": counted.escapes,
      "opportune_app_wakeups": counted.wakeups,
    ]
    return add(counts, since: last, dimensions)
  }

  /// Adds the increase to the counters; returns the counts for the next report.
  private func add(_ counts: Counts, since last: Counts?, _ dimensions: [(String, String)]) -> Counts {
    for (label, value) in counts {
      let added = value.saturatingSubtract(last?[label] ?? 0)
      guard added > 0 else { continue }
      Counter(label: label, dimensions: dimensions, factory: factory).increment(by: Int64(clamping: added))
    }
    return counts
  }

  private func gauge(_ label: String, _ dimensions: [(String, String)], _ value: some BinaryInteger) {
    Gauge(label: label, dimensions: dimensions, factory: factory).record(Int64(value))
  }
}
