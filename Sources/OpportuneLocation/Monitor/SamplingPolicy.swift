import OpportuneApps
internal import OpportuneBase

/// How often a device is located while fences are all that is asked for.
public struct SamplingPolicy: Sendable, Hashable {
  /// Between two fixes, at least: 0.1 s to a minute, by default 1 s.
  public var shortest = Duration.seconds(1)
  /// Between two fixes, at most: up to a day, by default 10 minutes.
  public var longest = Duration.seconds(600)
  /// How much later than it can happen at the soonest a crossing may be seen. A stay that is shorter may go
  /// unseen, though a circle that lies straight ahead is looked into. 0 to 10 minutes, by default 0.
  public var patience = Duration.zero
  /// Metres a second that a device may start off with at any time: 0.1 to 1000, by default 10.
  public var leastSpeed = 10.0
  /// How many times faster than it was a device may get: 1 to 10, by default 1.5.
  public var haste = 1.5
  /// The speed of a device of which nothing says one, before haste: 0.1 to 1000 m/s, by default 30.
  public var assumedSpeed = 30.0

  /// The defaults.
  public static let standard = SamplingPolicy()

  /// The default of each setting.
  public init() {}

  func validate() throws(LocationError) {
    try check(shortest.inSeconds, "shortest interval in seconds", within: 0.1...60)
    try check(longest.inSeconds, "longest interval in seconds", within: max(1, shortest.inSeconds)...86_400)
    try check(patience.inSeconds, "patience in seconds", within: 0...600)
    try check(leastSpeed, "least speed in m/s", within: 0.1...1000)
    try check(haste, "haste", within: 1...10)
    try check(assumedSpeed, "assumed speed in m/s", within: 0.1...1000)
  }
}

extension RegionMonitor {
  /// When the next fix is needed: when a device can be at the nearest border at the soonest, and the policy's
  /// patience later; before it leaves a circle that lies on its way. (R-LOC-14)
  ///
  /// - Returns: `nil` without fences: no fix is needed at all. Now, without a fix.
  /// - Throws: ``LocationError``: `outOfRange` for a policy out of its ranges.
  public func nextSample(_ policy: SamplingPolicy = .standard) throws(LocationError) -> Moment? {
    try policy.validate()
    guard count > 0 else { return nil }
    guard let fix = lastFix, fresh.isEmpty else { return now }
    let speed = fix.speed ?? velocity?.length
    let hasty = max(policy.leastSpeed, policy.haste * (speed ?? policy.assumedSpeed))
    // Unsure of a fence: a fix decides.
    let isSure = candidates.allSatisfy { $0.isSure }
    let free = isSure ? max(0, nearestBorder() - 3 * fix.accuracy.standardDeviation) : 0
    var seconds = min(free / hasty + policy.patience.inSeconds, policy.longest.inSeconds)
    if policy.patience > .zero, let speed { seconds = lastLook(before: seconds, at: speed, fix) }
    return max(now, fix.time + max(policy.shortest, .milliseconds(Int64(seconds * 1000))))
  }

  /// The seconds, or fewer, if a device that goes on as it does enters a circle and is about to leave it
  /// again by then.
  private func lastLook(before seconds: Double, at speed: Double, _ fix: Fix) -> Double {
    let deviation = fix.accuracy.standardDeviation
    // Which way it goes is not known of what hardly moved.
    guard let velocity, let lastElapsed, speed * seconds > deviation else { return seconds }
    guard velocity.length * lastElapsed > 3 * deviation else { return seconds }
    let way = velocity / velocity.length
    var soonest = seconds
    index.forEach(near: lastPoint, within: speed * seconds, slots) { item in
      let slot = slots[Int(item)]
      guard slot.state != .inside, slot.detail?.isCircle ?? true else { return }
      let away = slot.centre - lastPoint
      let along = (away * way).sum()
      let half = (slot.reach * slot.reach - (away * away).sum() + along * along).squareRoot()
      // Not what is only grazed, where a fix says nothing.
      guard half > 2 * deviation, along > half else { return }
      soonest = min(soonest, (along + half / 2) / speed)
    }
    return soonest
  }
}
