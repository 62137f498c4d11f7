public import Metrics

/// Hands statistics to `swift-metrics`: counters as what was added since the last report, the rest as gauges.
///
/// Names begin with `opportune_io_`; the dimensions are `app` and `class`, or `device` and `class`. The counts of apps of
/// one name add up.
public struct IOMetricsReporter: Sendable {
  private var last: [String: UInt64] = [:]
  private let factory: any MetricsFactory

  /// - Parameter factory: where to; the program's by default.
  public init(to factory: any MetricsFactory = MetricsSystem.factory) { self.factory = factory }

  /// Reports one snapshot. Not thread-safe: one reporter belongs to one caller.
  public mutating func report(_ statistics: IOStatistics) {
    // Apps that are gone are forgotten.
    var seen: [String: UInt64] = [:]
    defer { last = seen }
    func count(_ label: String, _ value: UInt64, _ dimensions: [(String, String)], of owner: String) {
      let key = label + owner
      seen[key] = value
      let added = value - min(value, last[key] ?? 0)
      guard added > 0 else { return }
      Counter(label: label, dimensions: dimensions, factory: factory).increment(by: Int64(clamping: added))
    }
    for app in statistics.apps {
      for (name, values) in [("foreground", app.foreground), ("background", app.background)] {
        let dimensions = [("app", app.name), ("class", name)]
        for (label, value) in [
          ("opportune_io_requests", values.submitted), ("opportune_io_failed", values.failed),
          ("opportune_io_cancelled", values.cancelled), ("opportune_io_at_once", values.atOnce),
          ("opportune_io_bytes_read", values.bytesRead), ("opportune_io_bytes_written", values.bytesWritten),
        ] {
          count(label, value, dimensions, of: " \(app.number) \(name)")
        }
        gauge("opportune_io_waiting_nanoseconds", values.waiting, dimensions)
        gauge("opportune_io_device_nanoseconds", values.inDevice, dimensions)
      }
    }
    for (name, device) in [("storage", statistics.storage), ("network", statistics.network)] {
      let dimensions = [("device", name)]
      gauge("opportune_io_background_cap", dimensions).record(device.cap)
      for (label, foreground, background) in [
        ("opportune_io_queued", device.foregroundQueued, device.backgroundQueued),
        ("opportune_io_in_flight", device.foregroundInFlight, device.backgroundInFlight),
      ] {
        gauge(label, dimensions + [("class", "foreground")]).record(foreground)
        gauge(label, dimensions + [("class", "background")]).record(background)
      }
      if let tokens = device.byteTokens {
        gauge("opportune_io_byte_tokens", dimensions).record(tokens)
      }
      if let tokens = device.operationTokens {
        gauge("opportune_io_operation_tokens", dimensions).record(tokens)
      }
    }
    count("opportune_io_wakeups", statistics.wakeups, [], of: "")
  }

  private func gauge(_ label: String, _ dimensions: [(String, String)]) -> Gauge {
    Gauge(label: label, dimensions: dimensions, factory: factory)
  }

  private func gauge(_ label: String, _ times: LatencyHistogram, _ dimensions: [(String, String)]) {
    for share in [0.5, 0.99] {
      guard let time = times.quantile(share) else { continue }
      gauge(label, dimensions + [("quantile", "\(share)")]).record(time.nanoseconds)
    }
  }
}
