/// How one kind of device, storage or network, is shared between the classes.
public struct DevicePolicy: Sendable, Hashable, Codable {
  /// What bounds the background requests in flight.
  public enum Cap: Sendable, Hashable, Codable {
    /// Only the depth.
    case none
    /// At most so many; 1 to 4096.
    case fixed(Int)
    /// Follows foreground latency: as many as keep 99 of 100 foreground requests within `target` (1 µs to 10
    /// s), at least one and at most `maximum`.
    case adaptive(target: Duration, maximum: Int = 64)
  }

  /// A rate; both for bytes and for operations.
  public struct Rate: Sendable, Hashable, Codable {
    /// Units a second, 1 to 10^12.
    public var perSecond: Int
    /// Units that may go at once after a pause, 1 to 8 * 10^9.
    public var burst: Int

    /// - Parameter burst: `nil` is a tenth of a second's worth, at least one.
    public init(perSecond: Int, burst: Int? = nil) {
      self.perSecond = perSecond
      self.burst = burst ?? min(max(1, perSecond / 10), Int(TokenBucket.burstRange.upperBound))
    }
  }

  /// What happens to requests that are queued when their app changes state.
  public enum QueuedRequests: Sendable, Hashable, CaseIterable, Codable {
    /// They take its new class. (R-NET-07)
    case follow
    /// They keep their class. (R-NET-06)
    case stay
  }

  static let depthRange: ClosedRange<Int> = 1...4096
  static let chunkRange: ClosedRange<Int> = 4096...1 << 30
  static let targetRange: ClosedRange<Duration> = .microseconds(1) ... .seconds(10)

  /// While both classes wait.
  public var ratio: Ratio
  /// Requests in flight, of both classes together; 1 to 4096. One is kept free of background where it is
  /// above 1.
  public var depth: Int
  /// What bounds the background requests in flight.
  public var cap: Cap
  /// Whether background starts nothing beyond a quarter of a fixed cap, at least one, while foreground is at
  /// the device: what is in flight stays, and makes no room for more. It changes nothing of the other caps.
  /// (Decision 0021)
  public var yieldsToForeground: Bool
  /// Limits of background; `nil` is none.
  public var bytes: Rate?
  /// The same, in operations.
  public var operations: Rate?
  /// Background transfers are cut into pieces of so many bytes; 4096 to 2^30.
  public var chunk: Int
  /// What becomes of queued requests when their app changes state.
  public var queuedRequests: QueuedRequests
  /// Whether foreground apps that are not active count as background.
  public var limitsInactive: Bool

  /// Storage: 90:10, 4 background requests in flight, 1 beside foreground, chunks of 128 KiB.
  public static let storage = DevicePolicy(ratio: .ninetyToTen, depth: 64, cap: .fixed(4), chunk: 128 << 10)
  /// Network: strict, as R-NET-04 has it by default; chunks of 64 KiB.
  public static let network = DevicePolicy(
    ratio: .strict, depth: 256, cap: .fixed(16), yieldsToForeground: false, chunk: 64 << 10)
  /// No classes: everything goes as it comes. To compare with.
  package static let uncontrolled = DevicePolicy(ratio: .even, depth: 4096, cap: .none, chunk: 1 << 30)

  /// The defaults are those of ``storage``.
  public init(
    ratio: Ratio = .ninetyToTen, depth: Int = 64, cap: Cap = .fixed(4), yieldsToForeground: Bool = true,
    bytes: Rate? = nil, operations: Rate? = nil, chunk: Int = 128 << 10,
    queuedRequests: QueuedRequests = .follow,
    limitsInactive: Bool = false
  ) {
    self.ratio = ratio
    self.depth = depth
    self.cap = cap
    self.yieldsToForeground = yieldsToForeground
    self.bytes = bytes
    self.operations = operations
    self.chunk = chunk
    self.queuedRequests = queuedRequests
    self.limitsInactive = limitsInactive
  }

  /// - Throws: ``IOError`` with code `configuration`: the message names the setting, its value and the
  ///   limits.
  package func validate() throws(IOError) { try validate(as: "") }

  /// - Parameter prefix: of the settings' names in messages.
  func validate(as prefix: String) throws(IOError) {
    try require(depth, in: Self.depthRange, prefix + "depth")
    try require(chunk, in: Self.chunkRange, prefix + "chunk")
    switch cap {
    case .none: break
    case .fixed(let count): try require(count, in: Self.depthRange, prefix + "cap")
    case .adaptive(let target, let maximum):
      try require(target, in: Self.targetRange, prefix + "cap.target")
      try require(maximum, in: Self.depthRange, prefix + "cap.maximum")
    }
    for (rate, name) in [(bytes, "bytes"), (operations, "operations")] {
      guard let rate else { continue }
      try require(rate.perSecond, in: 1...1_000_000_000_000, "\(prefix)\(name).perSecond")
      try require(rate.burst, in: 1...8_000_000_000, "\(prefix)\(name).burst")
    }
  }

  /// The class of an app's requests; a suspended one's, when it is resumed, is that of its state then.
  func ioClass(of state: IOState) -> IOClass {
    switch state {
    case .active: .foreground
    case .inactive: limitsInactive ? .background : .foreground
    case .background, .suspended: .background
    }
  }
}

func require<Value: Comparable>(_ value: Value, in range: ClosedRange<Value>, _ name: String) throws(IOError)
{
  guard range.contains(value) else {
    throw IOError(.configuration, "\(name) is \(value): expected \(range.lowerBound) to \(range.upperBound)")
  }
}
