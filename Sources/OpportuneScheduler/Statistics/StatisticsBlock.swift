internal import COpportune

/// The counters of one app, by band. Workers add to them in batches. Without
/// ``SchedulerConfiguration/collectsStatistics`` there are none, and nothing is counted or timed for them.
final class StatisticsBlock: @unchecked Sendable {
  enum Counter {
    case jobs, cpuNanoseconds, stolen, demotions, restored, escapes, cancelled, submitted, wakeups

    fileprivate var raw: opp_counter {
      switch self {
      case .jobs: .OPP_COUNTER_JOBS
      case .cpuNanoseconds: .OPP_COUNTER_CPU_NS
      case .stolen: .OPP_COUNTER_STOLEN
      case .demotions: .OPP_COUNTER_DEMOTIONS
      case .restored: .OPP_COUNTER_RESTORED
      case .escapes: .OPP_COUNTER_ESCAPES
      case .cancelled: .OPP_COUNTER_CANCELLED
      case .submitted: .OPP_COUNTER_SUBMITTED
      case .wakeups: .OPP_COUNTER_WAKEUPS
      }
    }
  }

  // Every access to the memory behind it is atomic; that makes the class Sendable.
  private let raw: OpaquePointer?

  init(isCollecting: Bool) throws(SchedulerError) {
    guard isCollecting else {
      raw = nil
      return
    }
    guard let raw = opp_stats_create() else {
      throw SchedulerError(.outOfMemory, "no memory for an app's counters")
    }
    self.raw = raw
  }

  deinit {
    if let raw { opp_stats_destroy(raw) }
  }

  var isCollecting: Bool { raw != nil }

  func add(_ counter: Counter, _ amount: UInt64, in band: Band) {
    if amount > 0, let raw { opp_stats_add(raw, band.rawValue, counter.raw, amount) }
  }

  /// Counts jobs that have ended, with their CPU time in nanoseconds.
  func addJobs(_ jobs: UInt64, cpu: UInt64, stolen: UInt64, in band: Band) {
    if let raw { opp_stats_add_jobs(raw, band.rawValue, jobs, cpu, stolen) }
  }

  /// The current time, if the queueing time of the caller's job is to be measured (one job in eight);
  /// otherwise nil.
  func stamp() -> UInt64? { raw != nil && opp_stats_is_sample() ? opp_now_ns() : nil }

  /// Like `stamp()`, with the sample that `opp_thread_here()` has drawn.
  func stamp(_ here: opp_here) -> UInt64? { raw != nil && here.is_sample ? opp_now_ns() : nil }

  func waited(microseconds: UInt64, in band: Band) {
    if let raw { opp_stats_waited(raw, band.rawValue, microseconds) }
  }

  /// CPU time in all bands, in nanoseconds.
  var cpuNanoseconds: UInt64 {
    Band.allCases.reduce(0) { $0 &+ read($1)[.cpuNanoseconds] }
  }

  /// The counters of one band; zeros where nothing is collected.
  func read(_ band: Band) -> opp_stats_values {
    var values = opp_stats_values()
    if let raw { opp_stats_read(raw, band.rawValue, &values) }
    return values
  }
}

extension opp_stats_values {
  subscript(counter: StatisticsBlock.Counter) -> UInt64 {
    withUnsafeBytes(of: self.counter) { $0.bindMemory(to: UInt64.self)[Int(counter.raw.rawValue)] }
  }
}
