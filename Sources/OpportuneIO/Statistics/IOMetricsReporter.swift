public import CoreMetrics
internal import OpportuneBase

/// Reports statistics to `swift-metrics`: counters as the increase since the last report, latencies to
/// timers, one by one, and current values as gauges.
///
/// Names begin with `opportune_io_`; the dimensions are `app` and `class`, or `device` and `class`. Apps of
/// the same name are added up. Counts of ended apps are not lost: if more apps have ended since the last
/// report than `IOStatistics.gone` holds, their counts are reported with an empty name.
public struct IOMetricsReporter: Sendable {
  /// The last counters by the app's number; 0 is all apps together.
  private var last: [UInt64: [IOStatistics.Class]] = [:]
  private var lastWakeups: UInt64 = 0
  private let factory: any MetricsFactory

  /// - Parameter factory: the destination; the program's own by default.
  public init(to factory: any MetricsFactory = MetricsSystem.factory) { self.factory = factory }

  /// Reports one snapshot. Not thread-safe: one reporter belongs to one caller and to one broker. Its time is
  /// proportional to the number of requests since the last report, whose latencies it records.
  public mutating func report(_ statistics: IOStatistics) {
    var seen: [UInt64: [IOStatistics.Class]] = [:]
    var rest = difference([statistics.foreground, statistics.background], of: 0, &seen)
    for app in statistics.apps + statistics.gone {
      let added = difference([app.foreground, app.background], of: app.number, &seen)
      for index in added.indices {
        count(added[index], of: app.name, Self.classes[index])
        rest[index].subtract(added[index])
      }
    }
    for index in rest.indices { count(rest[index], of: "", Self.classes[index]) }
    last = seen
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
    increment("opportune_io_wakeups", statistics.wakeups - min(statistics.wakeups, lastWakeups), [])
    lastWakeups = statistics.wakeups
  }

  private static let classes = ["foreground", "background"]

  /// The increase of both classes of an app since the last report.
  private func difference(
    _ values: [IOStatistics.Class], of number: UInt64, _ seen: inout [UInt64: [IOStatistics.Class]]
  ) -> [IOStatistics.Class] {
    seen[number] = values
    guard let before = last[number] else { return values }
    var values = values
    for index in values.indices { values[index].subtract(before[index]) }
    return values
  }

  private func count(_ added: IOStatistics.Class, of app: String, _ name: String) {
    let dimensions = [("app", app), ("class", name)]
    for (label, value) in [
      ("opportune_io_requests", added.submitted), ("opportune_io_failed", added.failed),
      ("opportune_io_cancelled", added.cancelled), ("opportune_io_inline", added.inline),
      ("opportune_io_bytes_read", added.bytesRead), ("opportune_io_bytes_written", added.bytesWritten),
    ] {
      increment(label, value, dimensions)
    }
    record("opportune_io_waiting", added.waiting, dimensions)
    record("opportune_io_device", added.inDevice, dimensions)
  }

  private func increment(_ label: String, _ added: UInt64, _ dimensions: [(String, String)]) {
    guard added > 0 else { return }
    Counter(label: label, dimensions: dimensions, factory: factory).increment(by: Int64(clamping: added))
  }

  private func gauge(_ label: String, _ dimensions: [(String, String)]) -> Gauge {
    Gauge(label: label, dimensions: dimensions, factory: factory)
  }

  private func record(_ label: String, _ times: LatencyHistogram, _ dimensions: [(String, String)]) {
    guard times.count > 0 else { return }
    let timer = Timer(label: label, dimensions: dimensions, factory: factory)
    for (middle, count) in times.middles {
      for _ in 0..<count { timer.recordNanoseconds(middle) }
    }
  }
}
