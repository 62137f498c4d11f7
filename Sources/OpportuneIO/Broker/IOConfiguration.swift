internal import COpportune

/// The settings of a broker.
public struct IOConfiguration: Sendable {
  /// The kernel interface that carries requests.
  public enum Backend: Sendable, Hashable, CaseIterable, Codable {
    /// io_uring, or threads where the kernel refuses it. The logger reports the refusal once.
    case automatic
    /// io_uring; where the kernel refuses it, making the broker throws.
    case uring
    /// A few threads for files, and `poll` for sockets. The order of classes is the same, at less speed.
    ///
    /// It has limits. At most 3,840 requests of all apps wait for sockets, pipes and terminals at the same
    /// time (4 × ``IOConfiguration/entries`` − 256, if that is more), and fewer than the process's limit of
    /// descriptors (`RLIMIT_NOFILE`). Requests beyond the limit fail with `ENOBUFS`
    /// (`system(.noBufferSpace)`), the newest first. File transfers, opens and the like are not limited. A
    /// cancelled open returns at once; its thread stays blocked until the kernel returns from the open.
    case threads
  }

  /// Kernel I/O priorities of file requests. They take effect only with a device scheduler that knows them
  /// (mq-deadline).
  public enum KernelPriorities: Sendable, Hashable, CaseIterable, Codable {
    /// Requests carry no priority.
    case none
    /// Foreground requests are real-time where the process may; background requests keep the process's own
    /// priority.
    case raiseForeground
    /// Foreground requests are real-time, background requests idle. The kernel may starve idle requests for
    /// long: see `docs/`.
    case idleBackground
  }

  /// The restrictions of an app's sockets in one state. (R-NET-01, R-NET-02, R-NET-08)
  public struct SocketRestriction: Sendable, Hashable, Codable {
    /// Bytes that the socket buffers before the sender is told to wait: `SO_RCVBUF` and the TCP window; `nil`
    /// leaves them unchanged. The kernel's minimum is about 2 KiB. Afterwards both are restored, and the
    /// kernel tunes them again if it did before (not before Linux 5.14).
    public var receiveBuffer: Int?
    /// Bytes that the socket buffers for sending: `SO_SNDBUF`; `nil` leaves it unchanged. Afterwards it is
    /// restored, up to `net.core.wmem_max`; the kernel raises it further by itself.
    public var sendBuffer: Int?
    /// Whether incoming packets are dropped. The socket stays open, and its peer sends again.
    ///
    /// A packet filter that the app has attached (`SO_ATTACH_FILTER`) is restored afterwards. Where the
    /// kernel cannot return that filter, because it is eBPF or locked (`SO_LOCK_FILTER`), packets are not
    /// dropped, and the logger reports it once for each socket.
    public var dropsIncoming: Bool

    /// Makes a restriction of the given properties; all others stay unrestricted.
    public init(receiveBuffer: Int? = nil, sendBuffer: Int? = nil, dropsIncoming: Bool = false) {
      self.receiveBuffer = receiveBuffer
      self.sendBuffer = sendBuffer
      self.dropsIncoming = dropsIncoming
    }

    /// No restriction, as in the foreground.
    public static let none = SocketRestriction()
  }

  /// What happens to completions that arrive while their app is suspended. (R-FTS-08)
  public enum HeldCompletions: Sendable, Hashable, CaseIterable, Codable {
    /// They are held until the app is resumed.
    case wait
    /// They are held as well. The first one is reported to ``IOConfiguration/onHeldCompletion``, which may
    /// resume the app.
    case report
  }

  /// Buffers that are registered with the kernel, for direct reads and writes. Their pages are pinned once,
  /// not at each request. They count against `RLIMIT_MEMLOCK`.
  public struct RegisteredBuffers: Sendable, Hashable, Codable {
    /// The number of buffers; 1 to 1024.
    public var count: Int
    /// The size of each buffer in bytes: a multiple of 4096, at most 64 MiB.
    public var size: Int

    /// Makes `count` buffers of `size` bytes each.
    public init(count: Int, size: Int) {
      self.count = count
      self.size = size
    }
  }

  static let bufferRange: ClosedRange<Int> = 1024...64 << 20

  /// The kernel interface that carries requests.
  public var backend = Backend.automatic
  /// How files are shared between the classes.
  public var storage = DevicePolicy.storage
  /// How sockets are shared between the classes.
  public var network = DevicePolicy.network
  /// Whether file requests carry their class as a kernel I/O priority.
  public var kernelPriorities = KernelPriorities.raiseForeground
  /// The restriction of sockets of background apps; small buffers by default.
  public var backgroundSockets = SocketRestriction(receiveBuffer: 4096, sendBuffer: 8192)
  /// The restriction of sockets of suspended apps, except those that are kept alive; packets are dropped by
  /// default.
  public var suspendedSockets = SocketRestriction(receiveBuffer: 4096, sendBuffer: 8192, dropsIncoming: true)
  /// What happens to completions of a suspended app.
  public var heldCompletions = HeldCompletions.wait
  /// Called with the app's name when the first completion of a suspended app is held. Called on the broker's
  /// thread; must not block.
  public var onHeldCompletion: (@Sendable (String) -> Void)?
  /// Whether foreground reads and receives that need no waiting are done inline, on the calling thread.
  public var triesInline = true
  /// The size in bytes from which sends are made without a copy; `nil` is never. 4096 to 2^30.
  public var zeroCopyFrom: Int?
  /// How long the broker's thread polls before it sleeps. It polls by loads alone, without system calls, and
  /// only after a wait that was no longer than this time. It saves wake-ups under dense traffic at the cost
  /// of CPU time. 0 to 1 ms; see `docs/decisions`.
  public var busyPoll = Duration.zero
  /// The buffers that ``IOBroker/registeredBuffer()`` returns; `nil` is none. Where the kernel refuses to
  /// register them, the logger reports it, and they are ordinary buffers.
  public var registeredBuffers: RegisteredBuffers?
  /// How many requests can be handed to the kernel at once; 8 to 4096.
  public var entries = 256
  /// The size of the completion queue; `nil` is four times ``entries``. Nothing is lost where it overflows. 8
  /// to 65,536.
  public var completions: Int?
  /// The number of threads where io_uring is not used; 1 to 64. In addition eight threads close files, also
  /// with io_uring, and sixteen wait for the other ends of FIFOs.
  public var threads = 8
  /// Whether who is waited for in the foreground has its requests in the foreground's class; the bench turns
  /// it off to show what it brings.
  package var followsDonations = true
  /// Whether receives of active apps wait where their workers wait, if ``triesInline`` is set; the bench
  /// turns it off to show what it brings.
  package var receivesOnWorkers = true
  /// For tests: see `opp_ring_config.fault`. Receives the operation; a result other than nil replaces the
  /// kernel's answer.
  var fault: (@Sendable (opp_ring_op) -> Int32?)?
  /// For tests: called by a thread that is about to make an inline call and is allowed to.
  var onInlineCall: (@Sendable () -> Void)?
  /// For tests: the reactor's clock, in nanoseconds; replaces the real one.
  var clock: (@Sendable () -> UInt64)?
  /// For tests: behaves as before Linux 6.9.
  var lacksTruncate = false
  /// For tests: behaves as before Linux 5.15.
  var lacksMakeFolder = false

  /// Makes a configuration of the defaults.
  public init() {}

  /// Checks every setting.
  ///
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
