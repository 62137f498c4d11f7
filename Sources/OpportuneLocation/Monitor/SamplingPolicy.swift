import OpportuneApps

/// How often a device is located while fences are all that is asked for.
public struct SamplingPolicy: Sendable, Hashable {
  /// Between two fixes, at least: 0.1 s to a minute, by default 1 s.
  public var shortest = Duration.seconds(1)
  /// Between two fixes, at most: up to a day, by default 10 minutes.
  public var longest = Duration.seconds(600)
  /// Metres a second that a device may start off with at any time: 0.1 to 1000, by default 10.
  public var leastSpeed = 10.0
  /// How many times faster than it was a device may get: 1 to 10, by default 1.5.
  public var haste = 1.5
  /// The speed of a device of which nothing says one, before haste: 0.1 to 1000 m/s, by default 30.
  public var assumedSpeed = 30.0

  public static let standard = SamplingPolicy()

  public init() {}

  func validate() throws(LocationError) {
    try check(shortest.inSeconds, "shortest interval in seconds", within: 0.1...60)
    try check(longest.inSeconds, "longest interval in seconds", within: max(1, shortest.inSeconds)...86_400)
    try check(leastSpeed, "least speed in m/s", within: 0.1...1000)
    try check(haste, "haste", within: 1...10)
    try check(assumedSpeed, "assumed speed in m/s", within: 0.1...1000)
  }
}

extension RegionMonitor {
  /// When the next fix is needed: when a device can be at the nearest border at the soonest. (R-LOC-14)
  ///
  /// - Returns: `nil` without fences: no fix is needed at all. Now, without a fix.
  /// - Throws: ``LocationError/outOfRange(_:_:)`` for a policy out of its ranges.
  public func nextSample(_ policy: SamplingPolicy = .standard) throws(LocationError) -> Moment? {
    try policy.validate()
    guard count > 0 else { return nil }
    guard let fix = lastFix, fresh.isEmpty else { return now }
    // Unsure of a fence: the next fix decides.
    guard attentive.allSatisfy(\.isClear) else { return max(now, fix.time + policy.shortest) }
    let speed = max(policy.leastSpeed, policy.haste * (fix.speed ?? measuredSpeed ?? policy.assumedSpeed))
    let seconds = max(0, nearestBorder() - 3 * fix.accuracy.standardDeviation) / speed
    let interval = min(policy.longest, max(policy.shortest, .milliseconds(Int64(min(seconds, 1e6) * 1000))))
    return max(now, fix.time + interval)
  }
}
