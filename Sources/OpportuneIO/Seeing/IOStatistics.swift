import Metrics

/// What a broker has done and what it holds, at one moment. A value.
public struct IOStatistics: Sendable {
  /// Of one class.
  public struct Class: Sendable {
    /// Requests submitted, and how they ended. The rest is queued, in flight or held.
    public internal(set) var submitted: UInt64 = 0
    public internal(set) var completed: UInt64 = 0
    public internal(set) var failed: UInt64 = 0
    /// Cancelled, past their deadline, or ended with their app.
    public internal(set) var cancelled: UInt64 = 0
    /// Done at once on the calling thread; counted in none of the others.
    public internal(set) var atOnce: UInt64 = 0
    public internal(set) var bytesRead: UInt64 = 0
    public internal(set) var bytesWritten: UInt64 = 0
    /// From the call's arrival to the kernel, and from there to the completion; of each piece.
    public internal(set) var waiting = LatencyHistogram()
    public internal(set) var inDevice = LatencyHistogram()

    mutating func add(_ done: AppIO.DoneAtOnce) {
      atOnce += done.requests
      bytesRead += done.bytesRead
      bytesWritten += done.bytesWritten
    }

    mutating func add(_ other: Class) {
      submitted += other.submitted
      completed += other.completed
      failed += other.failed
      cancelled += other.cancelled
      atOnce += other.atOnce
      bytesRead += other.bytesRead
      bytesWritten += other.bytesWritten
      waiting.add(other.waiting)
      inDevice.add(other.inDevice)
    }
  }

  public struct App: Sendable {
    public let name: String
    public let state: IOState
    public let foreground: Class
    public let background: Class
    /// Requests that the kernel has, and answers that wait for the app's resumption.
    public let inFlight: Int
    public let held: Int
    /// Descriptors that were made through the broker and are open.
    public let openDescriptors: Int
  }

  /// Of one device.
  public struct Device: Sendable {
    /// Requests that wait in our queue, and that are in flight, by class.
    public let foregroundQueued: Int
    public let backgroundQueued: Int
    public let foregroundInFlight: Int
    public let backgroundInFlight: Int
    /// Background requests that may be in flight now.
    public let cap: Int
    /// Tokens left; nil where there is no limit.
    public let byteTokens: UInt64?
    public let operationTokens: UInt64?
  }

  public let apps: [App]
  public let storage: Device
  public let network: Device
  /// Of all apps, those that are gone as well.
  public let foreground: Class
  public let background: Class
  /// How often the owner thread was woken.
  public let wakeups: UInt64
  /// Whether io_uring carries the requests; else threads do.
  public let usesUring: Bool
}

/// Hands statistics to `swift-metrics`: counters as what was added since the last report, the rest as gauges.
///
/// Apps of one name are one. Names begin with `opportune_io_`; the dimensions are `app` and `class`, or `device` and `class`.
public struct IOMetricsReporter: Sendable {
  private var last: [String: UInt64] = [:]

  public init() {}

  /// Reports one snapshot. Not thread-safe: one reporter belongs to one caller.
  public mutating func report(_ statistics: IOStatistics) {
    var apps: [String: (foreground: IOStatistics.Class, background: IOStatistics.Class)] = [:]
    for app in statistics.apps {
      apps[app.name, default: (IOStatistics.Class(), IOStatistics.Class())].foreground.add(app.foreground)
      apps[app.name, default: (IOStatistics.Class(), IOStatistics.Class())].background.add(app.background)
    }
    var seen: [String: UInt64] = [:]
    defer { last = seen }
    func count(_ label: String, _ value: UInt64, _ dimensions: [(String, String)]) {
      let key = label + dimensions.map { "|\($0.0)=\($0.1)" }.joined()
      seen[key] = value
      // Less than before: another app that has the name of one that is gone.
      let before = last[key] ?? 0
      let added = value >= before ? value - before : value
      if added > 0 { Counter(label: label, dimensions: dimensions).increment(by: Int64(clamping: added)) }
    }
    for (app, classes) in apps {
      for (name, values) in [("foreground", classes.foreground), ("background", classes.background)] {
        let dimensions = [("app", app), ("class", name)]
        count("opportune_io_requests", values.submitted, dimensions)
        count("opportune_io_failed", values.failed, dimensions)
        count("opportune_io_cancelled", values.cancelled, dimensions)
        count("opportune_io_at_once", values.atOnce, dimensions)
        count("opportune_io_bytes_read", values.bytesRead, dimensions)
        count("opportune_io_bytes_written", values.bytesWritten, dimensions)
        gauge("opportune_io_waiting_nanoseconds", values.waiting, dimensions)
        gauge("opportune_io_device_nanoseconds", values.inDevice, dimensions)
      }
    }
    for (name, device) in [("storage", statistics.storage), ("network", statistics.network)] {
      let dimensions = [("device", name)]
      Gauge(label: "opportune_io_background_cap", dimensions: dimensions).record(device.cap)
      for (label, foreground, background) in [
        ("opportune_io_queued", device.foregroundQueued, device.backgroundQueued),
        ("opportune_io_in_flight", device.foregroundInFlight, device.backgroundInFlight),
      ] {
        Gauge(label: label, dimensions: dimensions + [("class", "foreground")]).record(foreground)
        Gauge(label: label, dimensions: dimensions + [("class", "background")]).record(background)
      }
      if let tokens = device.byteTokens {
        Gauge(label: "opportune_io_byte_tokens", dimensions: dimensions).record(tokens)
      }
      if let tokens = device.operationTokens {
        Gauge(label: "opportune_io_operation_tokens", dimensions: dimensions).record(tokens)
      }
    }
    count("opportune_io_wakeups", statistics.wakeups, [])
  }

  private func gauge(_ label: String, _ times: LatencyHistogram, _ dimensions: [(String, String)]) {
    for share in [0.5, 0.99] {
      guard let time = times.quantile(share) else { continue }
      Gauge(label: label, dimensions: dimensions + [("quantile", "\(share)")]).record(time.nanoseconds)
    }
  }
}
