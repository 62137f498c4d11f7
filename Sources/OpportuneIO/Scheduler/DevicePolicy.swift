import OpportuneScheduler

/// How one kind of device, storage or network, is shared between the two classes.
public struct DevicePolicy: Sendable, Hashable, Codable {
  /// The limit of background requests in flight.
  public enum Cap: Sendable, Hashable, Codable {
    /// Only the depth limits them.
    case none
    /// At most this many; 1 to 4096.
    case fixed(Int)
    /// Adapts to foreground latency: the largest number for which 99 of 100 foreground requests end within
    /// `target` (1 µs to 10 s). At least one, at most `maximum`.
    case adaptive(target: Duration, maximum: Int = 64)
  }

  /// A rate limit, in bytes or in operations.
  public struct Rate: Sendable, Hashable, Codable {
    /// Units per second, 1 to 10^12.
    public var perSecond: Int
    /// Units that may go at once after a pause, 1 to 8 * 10^9.
    public var burst: Int

    /// - Parameter burst: `nil` is the units of a tenth of a second, at least one.
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

  /// The shares of the classes while both wait.
  public var ratio: Ratio
  /// The limit of requests in flight, of both classes together; 1 to 4096. Where it is above 1, one of them
  /// is reserved for foreground.
  public var depth: Int
  /// The limit of background requests in flight.
  public var cap: Cap
  /// Whether background yields to foreground. If so, background starts no requests beyond a quarter of a
  /// fixed cap, at least one, while foreground requests are in flight. Requests that are already in flight
  /// stay. It has no effect on other caps. (Decision 0021)
  public var yieldsToForeground: Bool
  /// The rate limit of background in bytes; `nil` is none.
  public var bytes: Rate?
  /// The rate limit of background in operations; `nil` is none.
  public var operations: Rate?
  /// The size of the pieces into which background transfers are divided, in bytes; 4096 to 2^30.
  public var chunk: Int
  /// What happens to queued requests when their app changes state.
  public var queuedRequests: QueuedRequests
  /// Whether inactive foreground apps count as background.
  public var limitsInactive: Bool

  /// The default of storage: 90:10, 4 background requests in flight, 1 beside foreground, chunks of 128 KiB.
  public static let storage = DevicePolicy(ratio: .ninetyToTen, depth: 64, cap: .fixed(4), chunk: 128 << 10)
  /// The default of the network: strict, as R-NET-04 requires; chunks of 64 KiB.
  public static let network = DevicePolicy(
    ratio: .strict, depth: 256, cap: .fixed(16), yieldsToForeground: false, chunk: 64 << 10)
  /// No classes: requests go in the order of arrival. For comparison.
  package static let uncontrolled = DevicePolicy(ratio: .even, depth: 4096, cap: .none, chunk: 1 << 30)

  /// Makes a policy; the defaults are those of ``storage``.
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

  /// The most background requests that the cap lets be in flight, in all of the device.
  var mostBackground: Int {
    let room = depth > 1 ? depth - 1 : 1
    return switch cap {
    case .none: room
    case .fixed(let count): min(count, room)
    case .adaptive(_, let maximum): min(maximum, room)
    }
  }

  /// The least share of the device, in eighths, at which background has less than at any larger one: a cap of
  /// one is not lowered. A rate is, at each.
  var leastEighths: Int {
    if bytes != nil || operations != nil { return 1 }
    return max(1, (DeviceShare.whole + mostBackground - 1) / mostBackground)
  }

  /// Checks every setting.
  ///
  /// - Throws: ``IOError`` with code `configuration`: the message names the setting, its value and the
  ///   limits.
  package func validate() throws(IOError) { try validate(as: "") }

  /// - Parameter prefix: put before the names of settings in messages.
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

  /// The class of an app's requests in a state. Requests of a suspended app get the class of its state when
  /// it is resumed.
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
