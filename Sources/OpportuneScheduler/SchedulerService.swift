import Logging
import Metrics
import ServiceLifecycle

/// Runs a scheduler as a service of `swift-service-lifecycle`: shuts it down when the group does, and reports its
/// figures to `swift-metrics` meanwhile.
///
/// ```swift
/// let group = ServiceGroup(services: [SchedulerService(scheduler)], logger: logger)
/// ```
public struct SchedulerService: Service {
  private let scheduler: Scheduler
  private let interval: Duration
  private let limit: Duration

  /// - Parameters:
  ///   - interval: between two reports; at least a second.
  ///   - limit: how long the shutdown waits for jobs that run or are queued.
  public init(
    _ scheduler: Scheduler, reportingEvery interval: Duration = .seconds(10),
    shutdownWithin limit: Duration = .seconds(10)
  ) {
    self.scheduler = scheduler
    self.interval = max(interval, .seconds(1))
    self.limit = limit
  }

  public func run() async throws {
    await cancelWhenGracefulShutdown { await report() }
    try await scheduler.shutdown(within: limit)
  }

  /// Until it is cancelled, and once more then.
  private func report() async {
    var reporter = MetricsReporter()
    let clock = AppClock(scheduler.engine)
    while !Task.isCancelled {
      try? await clock.sleep(for: interval, tolerance: interval / 10)  // only a cancellation ends it early
      reporter.report(await scheduler.statistics())
    }
  }
}

/// Hands statistics to `swift-metrics`: counters as what was added since the last report, the rest as gauges.
///
/// Names begin with `opportune_`; the dimension `app` is the app's name, `lane` the lane's.
public struct MetricsReporter: Sendable {
  private var last: [String: UInt64] = [:]

  public init() {}

  /// Reports one snapshot. Not thread-safe: one reporter belongs to one caller.
  public mutating func report(_ statistics: SchedulerStatistics) {
    for app in statistics.apps {
      let dimensions = [("app", app.name), ("band", "\(app.band)")]
      count("opportune_jobs", app.jobs, dimensions)
      count("opportune_cpu_nanoseconds", UInt64(clamping: app.cpuTime.clampedNanoseconds), dimensions)
      count("opportune_demotions", app.demotions, dimensions)
      count("opportune_stolen", app.stolen, dimensions)
      count("opportune_cancelled", app.cancelled, dimensions)
      count("opportune_escapes", app.escapes, dimensions)
      for share in [0.5, 0.99] {
        guard let wait = app.waiting.quantile(share) else { continue }
        Gauge(label: "opportune_wait_nanoseconds", dimensions: dimensions + [("quantile", "\(share)")])
          .record(wait.clampedNanoseconds)
      }
    }
    for lane in statistics.lanes {
      let dimensions = [("lane", "\(lane.lane)")]
      count("opportune_wakeups", lane.wakeups, dimensions)
      Gauge(label: "opportune_workers_working", dimensions: dimensions).record(lane.working)
      Gauge(label: "opportune_workers_demoted", dimensions: dimensions).record(lane.demoted)
    }
    Gauge(label: "opportune_queue_bytes").record(statistics.queueMemory)
  }

  private mutating func count(_ label: String, _ value: UInt64, _ dimensions: [(String, String)]) {
    let key = label + dimensions.map { "|\($0.0)=\($0.1)" }.joined()
    let before = last.updateValue(value, forKey: key) ?? 0
    if value > before { Counter(label: label, dimensions: dimensions).increment(by: Int64(clamping: value - before)) }
  }
}
