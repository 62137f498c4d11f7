public import OpportuneBase

/// What a broker has done and what it holds, at one moment. A value.
public struct IOStatistics: Sendable {
  /// Of one class.
  public struct Class: Sendable {
    /// Requests submitted, and how they ended. The rest is queued, in flight or held.
    public internal(set) var submitted: UInt64 = 0
    /// Ended as asked.
    public internal(set) var completed: UInt64 = 0
    /// Ended with an error.
    public internal(set) var failed: UInt64 = 0
    /// Cancelled, past their deadline, or ended with their app.
    public internal(set) var cancelled: UInt64 = 0
    /// Done whole inline, on the calling thread: counted in none of the three above. One that fails there is
    /// submitted and failed; where a part is done there, its bytes count, and the request is one submitted
    /// for the rest.
    public internal(set) var inline: UInt64 = 0
    /// Read and received.
    public internal(set) var bytesRead: UInt64 = 0
    /// Written and sent.
    public internal(set) var bytesWritten: UInt64 = 0
    /// From the call's arrival, or its app's resumption since, to the kernel, and from there to the
    /// completion; of each piece.
    public internal(set) var waiting = LatencyHistogram()
    /// From the hand-over to the kernel to the completion.
    public internal(set) var inDevice = LatencyHistogram()

    mutating func add(_ done: InlineCalls.Counts) {
      inline += done.requests
      submitted += done.failures
      failed += done.failures
      bytesRead += done.bytesRead
      bytesWritten += done.bytesWritten
    }

    /// Takes out what was done before.
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

  /// What one app has done, and has under way.
  public struct App: Sendable {
    /// No other app of this broker has had it.
    public let number: UInt64
    /// The app's name.
    public let name: String
    /// What its requests are treated as.
    public let state: IOState
    /// What it did in the foreground class.
    public let foreground: Class
    /// What it did in the background class.
    public let background: Class
    /// Requests that the kernel has, those done inline included, and answers that wait for the app's
    /// resumption.
    public let inFlight: Int
    /// Requests and completions that wait for its resumption.
    public let held: Int
    /// Descriptors that were made through the broker and are open.
    public let openDescriptors: Int
  }

  /// Of one device.
  public struct Device: Sendable {
    /// Requests that wait in our queue, and that are in flight, by class.
    public let foregroundQueued: Int
    /// Background requests that wait for their turn.
    public let backgroundQueued: Int
    /// Foreground requests with the kernel.
    public let foregroundInFlight: Int
    /// Background requests with the kernel.
    public let backgroundInFlight: Int
    /// Background requests that may be in flight now.
    public let cap: Int
    /// Tokens left; nil where there is no limit.
    public let byteTokens: UInt64?
    /// Operations that the limit allows at once; nil where there is no limit.
    public let operationTokens: UInt64?
  }

  /// Of each app that is there.
  public let apps: [App]
  /// The apps that were the last to go, at most 32, as they were then: what they did is also in
  /// ``foreground`` and ``background``.
  package let gone: [App]
  /// The queue of files.
  public let storage: Device
  /// The queue of sockets.
  public let network: Device
  /// Of all apps, those that are gone as well.
  public let foreground: Class
  /// All apps together, in the background class.
  public let background: Class
  /// How often the reactor's thread was woken.
  package let wakeups: UInt64
  /// Whether io_uring carries the requests; else threads do.
  public let usesUring: Bool
}
