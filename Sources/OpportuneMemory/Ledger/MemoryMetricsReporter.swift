internal import COpportune
public import CoreMetrics

/// Reports a broker's memory figures to `swift-metrics`: purges as counters of the increase since the last
/// report, all else as gauges, in bytes.
///
/// - `opportune_memory_bytes`: the exact ledgers, by `app` (apps of one name are added up) and `kind`, a
///   column of ``MemoryLedger``.
/// - `opportune_memory_process_bytes`: the whole process as the kernel counts it, by `kind`. It is sampled no
///   more often than the interval says. It includes what apps and libraries allocate themselves, such as with
///   `malloc`, which is in no ledger.
/// - `opportune_memory_purged_regions`, `opportune_memory_purged_bytes`.
public struct MemoryMetricsReporter: Sendable {
  private let factory: any MetricsFactory
  private var sampler: ProcessSampler
  private var last: (regions: UInt64, bytes: UInt64) = (0, 0)

  /// Makes a reporter.
  ///
  /// - Parameters:
  ///   - factory: the destination; the program's own by default.
  ///   - interval: the minimum time between two samples of the process; a sample takes the kernel about 6 µs
  ///     per MB.
  /// - Throws: ``MemoryError`` with code `configuration` for a negative interval.
  public init(
    to factory: any MetricsFactory = MetricsSystem.factory, interval: Duration = .seconds(10)
  ) throws(MemoryError) {
    self.factory = factory
    sampler = try ProcessSampler(interval: interval)
  }

  /// Reports the current figures. Not thread-safe: one reporter belongs to one caller and to one broker.
  public mutating func report(_ broker: MemoryBroker) {
    var ledgers: [String: MemoryLedger] = [:]
    for (record, ledger) in broker.core.ledgers().values {
      ledgers[record.name, default: MemoryLedger()] += ledger
    }
    for (name, ledger) in ledgers {
      for (kind, bytes) in [
        ("dirty", ledger.dirty), ("clean", ledger.clean), ("wired", ledger.wired), ("pinned", ledger.pinned),
        ("volatile", ledger.volatile), ("lazy", ledger.lazy), ("purged", ledger.purged),
      ] {
        gauge("opportune_memory_bytes", [("app", name), ("kind", kind)], bytes)
      }
    }
    // Where the kernel lacks the file, `opportune doctor` reports it.
    if let process = try? sampler.sample(now: opp_now_ns()) {
      for (kind, bytes) in [
        ("proportional", process.proportional), ("resident", process.resident), ("dirty", process.dirty),
        ("clean", process.clean), ("lazy", process.lazy), ("wired", process.wired),
        ("swapped", process.swapped),
      ] {
        gauge("opportune_memory_process_bytes", [("kind", kind)], bytes)
      }
    }
    let purges = broker.purges
    count("opportune_memory_purged_regions", purges.regions - last.regions)
    count("opportune_memory_purged_bytes", purges.bytes - last.bytes)
    last = purges
  }

  private func gauge(_ label: String, _ dimensions: [(String, String)], _ bytes: UInt64) {
    Gauge(label: label, dimensions: dimensions, factory: factory).record(Int64(clamping: bytes))
  }

  private func count(_ label: String, _ added: UInt64) {
    if added > 0 {
      Counter(label: label, dimensions: [], factory: factory).increment(by: Int64(clamping: added))
    }
  }
}
