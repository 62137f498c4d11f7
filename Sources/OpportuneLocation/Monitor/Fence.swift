import OpportuneApps
internal import OpportuneBase

/// A fence of a monitor. Never used again after the fence is gone.
public struct FenceID: Sendable, Hashable, CustomStringConvertible {
  let slot: UInt32
  let generation: UInt32

  public var description: String { "fence \(slot).\(generation)" }
}

/// A region to watch. (R-GEO-05)
public struct Fence: Sendable, Hashable {
  /// What is watched.
  public var region: Region
  /// How long a device must stay for a crossing of the kind ``Crossing/Kind/dwell``; `nil`: there is none.
  public var dwell: Duration?
  /// When it ends by itself; `nil`: never.
  public var expiry: Moment?
  /// Whether the side that the device is found on first is told like a crossing. Off by default.
  public var reportsInitialState: Bool

  /// A fence around a region.
  public init(
    _ region: Region, dwell: Duration? = nil, expiry: Moment? = nil, reportsInitialState: Bool = false
  ) {
    self.region = region
    self.dwell = dwell
    self.expiry = expiry
    self.reportsInitialState = reportsInitialState
  }
}

/// What is known of a device and a fence.
public enum FenceState: String, Sendable, Hashable, CaseIterable, Codable {
  /// No fix has decided yet.
  case unknown
  /// The device is outside.
  case outside
  /// The device is inside.
  case inside
}

/// Something that happened at a fence. (R-GEO-01)
public struct Crossing: Sendable, Hashable {
  /// What happened at a border.
  public enum Kind: String, Sendable, Hashable, CaseIterable, Codable {
    /// The device came in.
    case enter
    /// The device went out.
    case exit
    /// The device stayed for ``Fence/dwell``.
    case dwell
    /// The fence has ended, and is gone.
    case expired
  }

  /// Which fence.
  public let fence: FenceID
  /// What happened.
  public let kind: Kind
  /// The time of the fix that decided, or of the timer.
  public let at: Moment
  /// The probability that the device was on that side then, 0 to 1.
  public let confidence: Double
  /// The device was found there; it was not seen to come.
  public let isInitial: Bool
}

/// How a monitor decides.
///
/// Each fix is evidence for one side of a fence: the probability of being inside, in log odds. Evidence adds
/// up, and what was known fades with time, since devices move. A crossing is told when the odds for the other
/// side reach the confidence, so one fix decides where it is clear, several where it is not, and a poor one
/// nowhere.
public struct MonitorPolicy: Sendable, Hashable {
  /// How probable it must be that a device is on the other side before a crossing is told: 0.5 to 0.999999,
  /// by default 0.99. With 0.99 at most one crossing in a hundred is false, as far as the accuracy that
  /// fixes state is true.
  public var confidence = 0.99
  /// The hysteresis: how long devices stay on a side, on average. Longer needs more evidence to turn round
  /// what was known. 1 s to 1 day, by default a minute.
  public var stay = Duration.seconds(60)
  /// The correlation time of a receiver's errors: two fixes much nearer in time are hardly more evidence than
  /// one. 0 to 10 minutes, by default 5 s. Less makes false crossings more frequent for a device that lingers
  /// at a border, even if the errors are independent.
  public var correlation = Duration.seconds(5)
  /// Metres a second, beyond which a fix is an outlier: 1 to 10,000, by default 400, since airliners in a jet
  /// stream reach 370 over ground. A speed above 100 (the fastest trains in service reach 97) is believed
  /// only if the device can have reached it by ``acceleration``. So a leap that no car can make is an
  /// outlier, and the fixes of an aeroplane are not.
  public var fastest = 400.0
  /// Metres a second by which a device that is faster than 100 m/s gets faster each second: 0 to 100,000, by
  /// default 3, as airliners on their runway.
  public var acceleration = 3.0
  /// The number of successive fixes that agree with each other, within ``fastest``, but not with the last
  /// good one, after which they are believed: 2 to 100, by default 3.
  public var agreeing = 3
  /// Metres that a device strays from the straight line in a second, growing with the root of time. If set,
  /// circles that the device must have passed through between two fixes are reported as entered and left. 0
  /// to 1000, by default `nil`: only what a fix has seen is reported.
  public var wander: Double?
  /// 1 to 10 million, by default a million.
  public var maximumFences = 1_000_000

  /// The defaults.
  public static let standard = MonitorPolicy()

  /// The default of each setting.
  public init() {}

  func validate() throws(LocationError) {
    try check(confidence, "confidence", within: 0.5...0.999_999)
    try check(stay.inSeconds, "stay in seconds", within: 1...86_400)
    try check(correlation.inSeconds, "correlation in seconds", within: 0...600)
    try check(fastest, "fastest speed in m/s", within: 1...10_000)
    try check(acceleration, "acceleration in m/s\u{B2}", within: 0...100_000)
    if let wander { try check(wander, "wander in metres per root of a second", within: 0...1000) }
    try check(Double(agreeing), "number of agreeing fixes", within: 2...100)
    try check(Double(maximumFences), "number of fences", within: 1...10_000_000)
  }
}
