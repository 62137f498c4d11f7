internal import COpportune

/// What a broker is made with.
public struct IOConfiguration: Sendable {
  /// What carries requests to the kernel.
  public enum Backend: Sendable, Hashable, CaseIterable, Codable {
    /// io_uring, or threads where the kernel refuses it; the logger says so once.
    case automatic
    /// io_uring, or an error.
    case uring
    /// A few threads for files, `poll` for sockets. The same class order, less speed, and limits: no more
    /// than 3,840 requests of all apps wait for sockets, pipes and terminals at a time (4 ×
    /// ``IOConfiguration/entries`` − 256, if that is more), and fewer than the process may have descriptors
    /// (`RLIMIT_NOFILE`). Those beyond, the newest, fail with `ENOBUFS` (`system(.noBufferSpace)`). Transfers
    /// of files, opens and the like are never too many. A cancelled open returns at once; its thread stays in
    /// it until the kernel lets go.
    case threads
  }

  /// Kernel I/O priorities of file requests; they matter only where the device's scheduler knows them
  /// (mq-deadline).
  public enum KernelPriorities: Sendable, Hashable, CaseIterable, Codable {
    /// Requests carry no priority.
    case none
    /// Foreground is real-time where the process may; background keeps the process's own.
    case raiseForeground
    /// Foreground is real-time, background is idle. The kernel starves idle requests for long: see `docs/`.
    case idleBackground
  }

  /// What a state lets through to an app's sockets. (R-NET-01, R-NET-02, R-NET-08)
  public struct SocketRestriction: Sendable, Hashable, Codable {
    /// Bytes that the socket takes in before the sender is told to wait: `SO_RCVBUF` and the TCP window;
    /// `nil` leaves it as it is. The kernel has a lowest value of its own, some 2 KiB. Afterwards both are
    /// what they were, and the kernel tunes them again if it did (before Linux 5.14 it does not).
    public var receiveBuffer: Int?
    /// Bytes that it holds to be sent: `SO_SNDBUF`; `nil` leaves it as it is. Afterwards it is what it was,
    /// as far as `net.core.wmem_max` lets it be; the kernel tunes it to more by itself.
    public var sendBuffer: Int?
    /// Whether incoming packets are dropped. The socket stays open, and its peer sends again. A packet filter
    /// that the app has attached (`SO_ATTACH_FILTER`) is back afterwards. Where the kernel does not give it
    /// back, since it is of eBPF or locked (`SO_LOCK_FILTER`), packets are kept, and the logger says so once
    /// for each socket.
    public var dropsIncoming: Bool

    /// Restricts what is given, and leaves the rest.
    public init(receiveBuffer: Int? = nil, sendBuffer: Int? = nil, dropsIncoming: Bool = false) {
      self.receiveBuffer = receiveBuffer
      self.sendBuffer = sendBuffer
      self.dropsIncoming = dropsIncoming
    }

    /// As in the foreground.
    public static let none = SocketRestriction()
  }

  /// What completions do that come while their app is suspended. (R-FTS-08)
  public enum HeldCompletions: Sendable, Hashable, CaseIterable, Codable {
    /// They wait for the app's resumption.
    case wait
    /// They wait as well, and the first is reported to ``IOConfiguration/onHeldCompletion``, which may resume
    /// the app.
    case report
  }

  /// Buffers that the kernel is told of beforehand, for direct reads and writes: it pins their pages once
  /// instead of at each request. They count against `RLIMIT_MEMLOCK`.
  public struct RegisteredBuffers: Sendable, Hashable, Codable {
    /// How many; 1 to 1024.
    public var count: Int
    /// Bytes of each: a multiple of 4096, to 64 MiB.
    public var size: Int

    /// So many buffers of so many bytes each.
    public init(count: Int, size: Int) {
      self.count = count
      self.size = size
    }
  }

  static let bufferRange: ClosedRange<Int> = 1024...64 << 20

  /// What carries the requests.
  public var backend = Backend.automatic
  /// How files are shared out.
  public var storage = DevicePolicy.storage
  /// How sockets are shared out.
  public var network = DevicePolicy.network
  /// Whether the kernel learns of the classes.
  public var kernelPriorities = KernelPriorities.raiseForeground
  /// For sockets of apps in the background; small buffers by default.
  public var backgroundSockets = SocketRestriction(receiveBuffer: 4096, sendBuffer: 8192)
  /// For sockets of suspended apps, except those that are kept alive; packets are dropped by default.
  public var suspendedSockets = SocketRestriction(receiveBuffer: 4096, sendBuffer: 8192, dropsIncoming: true)
  /// What becomes of a completion of a suspended app.
  public var heldCompletions = HeldCompletions.wait
  /// Called on the broker's thread with the app's name; must not block.
  public var onHeldCompletion: (@Sendable (String) -> Void)?
  /// Whether foreground reads and receives that need no waiting are done inline, on the calling thread.
  public var triesInline = true
  /// Sends of at least so many bytes are made without copying; `nil` is never. 4096 to 2^30.
  public var zeroCopyFrom: Int?
  /// How long the broker's thread polls before it sleeps: by loads alone, without system calls, and only
  /// where the wait before was no longer than that. Saves the wake-ups of dense traffic at the price of CPU
  /// time. 0 to 1 ms; see `docs/decisions`.
  public var busyPoll = Duration.zero
  /// What ``IOBroker/registeredBuffer()`` gives; `nil` is nothing. Where the kernel refuses them, the logger
  /// says so and they are buffers like others.
  public var registeredBuffers: RegisteredBuffers?
  /// Requests handed to the kernel at once; 8 to 4096.
  public var entries = 256
  /// Room for completions; `nil` is four times ``entries``. Nothing is lost where it overflows. 8 to 65,536.
  public var completions: Int?
  /// Threads where io_uring is not used; 1 to 64. Eight more close files, with io_uring as well, and sixteen
  /// more wait for the other ends of FIFOs.
  public var threads = 8
  /// For tests: see `opp_ring_config.fault`. The descriptor, the number of the request's code, and the
  /// answer.
  var fault: (@Sendable (opp_ring_op) -> Int32?)?
  /// For tests: called by who is about to make an inline call, and may.
  var onInlineCall: (@Sendable () -> Void)?
  /// For tests: the reactor's clock, in nanoseconds, where nothing has a time of its own.
  var clock: (@Sendable () -> UInt64)?
  /// For tests: as before Linux 6.9.
  var lacksTruncate = false

  /// The default of each setting.
  public init() {}

  /// - Throws: ``IOError`` with code `configuration`: the message names the setting, its value and the
  ///   limits.
  public func validate() throws(IOError) {
    try storage.validate(as: "storage.")
    try network.validate(as: "network.")
    for (restriction, name) in [
      (backgroundSockets, "backgroundSockets"), (suspendedSockets, "suspendedSockets"),
    ] {
      if let size = restriction.receiveBuffer {
        try require(size, in: Self.bufferRange, "\(name).receiveBuffer")
      }
      if let size = restriction.sendBuffer { try require(size, in: Self.bufferRange, "\(name).sendBuffer") }
    }
    if let zeroCopyFrom { try require(zeroCopyFrom, in: 4096...1 << 30, "zeroCopyFrom") }
    if let registeredBuffers {
      try require(registeredBuffers.count, in: 1...1024, "registeredBuffers.count")
      try require(registeredBuffers.size, in: 4096...64 << 20, "registeredBuffers.size")
      guard registeredBuffers.size % 4096 == 0 else {
        throw IOError(
          .configuration, "registeredBuffers.size is \(registeredBuffers.size): expected a multiple of 4096")
      }
    }
    try require(busyPoll, in: .zero ... .milliseconds(1), "busyPoll")
    try require(entries, in: 8...4096, "entries")
    if let completions { try require(completions, in: 8...65_536, "completions") }
    try require(threads, in: 1...64, "threads")
  }
}
