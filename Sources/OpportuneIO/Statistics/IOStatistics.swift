public import OpportuneBase

/// Counters of a broker, and the state of its queues at the time of the call. A value.
public struct IOStatistics: Sendable {
  /// The counters of one class.
  public struct Class: Sendable {
    /// Requests submitted. Each ends as completed, failed or cancelled; the others are queued, in flight or
    /// held.
    public internal(set) var submitted: UInt64 = 0
    /// Requests that ended as asked.
    public internal(set) var completed: UInt64 = 0
    /// Requests that ended with an error.
    public internal(set) var failed: UInt64 = 0
    /// Requests that were cancelled, exceeded their deadline, or ended with their app.
    public internal(set) var cancelled: UInt64 = 0
    /// Calls that were completed inline, on the calling thread; they count in none of the three above. A call
    /// that fails inline counts as submitted and failed. If a call is done inline in part, its bytes count,
    /// and the rest counts as one submitted request.
    public internal(set) var inline: UInt64 = 0
    /// Bytes read and received.
    public internal(set) var bytesRead: UInt64 = 0
    /// Bytes written and sent.
    public internal(set) var bytesWritten: UInt64 = 0
    /// The time of each piece from the call's arrival, or its app's resumption since, to the hand-over to the
    /// kernel.
    public internal(set) var waiting = LatencyHistogram()
    /// The time of each piece from the hand-over to the kernel to the completion.
    public internal(set) var inDevice = LatencyHistogram()

    mutating func add(_ done: InlineCalls.Counts) {
      inline += done.requests
      submitted += done.failures
      failed += done.failures
      bytesRead += done.bytesRead
      bytesWritten += done.bytesWritten
    }

    /// Subtracts earlier counters.
    mutating func subtract(_ before: Class) {
      submitted -= min(submitted, before.submitted)
      completed -= min(completed, before.completed)
      failed -= min(failed, before.failed)
      cancelled -= min(cancelled, before.cancelled)
      inline -= min(inline, before.inline)
      bytesRead -= min(bytesRead, before.bytesRead)
      bytesWritten -= min(bytesWritten, before.bytesWritten)
      waiting.subtract(before.waiting)
      inDevice.subtract(before.inDevice)
    }

    mutating func add(_ other: Class) {
      submitted += other.submitted
      completed += other.completed
      failed += other.failed
      cancelled += other.cancelled
      inline += other.inline
      bytesRead += other.bytesRead
      bytesWritten += other.bytesWritten
      waiting.add(other.waiting)
      inDevice.add(other.inDevice)
    }
  }

  /// The counters and current requests of one app.
  public struct App: Sendable {
    /// Unique among all apps of this broker, past ones included.
    public let number: UInt64
    /// The app's name.
    public let name: String
    /// The state that decides the class of its requests.
    public let state: IOState
    /// Its counters in the foreground class.
    public let foreground: Class
    /// Its counters in the background class.
    public let background: Class
    /// Requests that the kernel has, inline calls included, and answers that wait until the app is resumed.
    public let inFlight: Int
    /// Requests and completions that wait until the app is resumed.
    public let held: Int
    /// Open descriptors that were made through the broker.
    public let openDescriptors: Int
  }

  /// The queue of one kind of device.
  public struct Device: Sendable {
    /// Foreground requests that wait in the broker's queue.
    public let foregroundQueued: Int
    /// Background requests that wait in the broker's queue.
    public let backgroundQueued: Int
    /// Foreground requests in flight.
    public let foregroundInFlight: Int
    /// Background requests in flight.
    public let backgroundInFlight: Int
    /// How many background requests may be in flight now.
    public let cap: Int
    /// Byte tokens left; nil where there is no limit.
    public let byteTokens: UInt64?
    /// Operation tokens left; nil where there is no limit.
    public let operationTokens: UInt64?
  }

  /// Every current app.
  public let apps: [App]
  /// The last apps that have ended, at most 32, as they were then. Their counters are also in ``foreground``
  /// and ``background``.
  package let gone: [App]
  /// The queue of files.
  public let storage: Device
  /// The queue of sockets.
  public let network: Device
  /// All apps together, ended ones included, in the foreground class.
  public let foreground: Class
  /// All apps together, ended ones included, in the background class.
  public let background: Class
  /// How often the reactor's thread was woken.
  package let wakeups: UInt64
  /// Whether io_uring carries the requests; otherwise threads do.
  public let usesUring: Bool
}

extension IOStatistics: CustomStringConvertible {
  /// For people: a line for each app and class that had requests, then one for all.
  public var description: String {
    let lines = apps.flatMap { app in
      [("foreground", app.foreground), ("background", app.background)].compactMap { name, counts in
        counts.submitted + counts.inline == 0 ? nil : "\(app.name), \(name): \(counts)"
      }
    }
    return (lines + ["all, foreground: \(foreground)", "all, background: \(background)"])
      .joined(separator: "\n")
  }
}

extension IOStatistics.Class: CustomStringConvertible {
  /// For people: requests, bytes and times in a line.
  public var description: String {
    "\(submitted + inline) requests, \(failed) failed, \(cancelled) cancelled; \(bytesRead) bytes read, "
      + "\(bytesWritten) written; waiting \(waiting); in the device \(inDevice)"
  }
}
