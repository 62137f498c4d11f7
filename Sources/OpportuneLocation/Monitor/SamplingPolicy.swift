import OpportuneApps
internal import OpportuneBase

/// How often a device is located while fences are all that is asked for.
public struct SamplingPolicy: Sendable, Hashable {
  /// Between two fixes, at least: 0.1 s to a minute, by default 1 s.
  public var shortest = Duration.seconds(1)
  /// Between two fixes, at most: up to a day, by default 10 minutes.
  public var longest = Duration.seconds(600)
  /// How long after its earliest possible time a crossing may be seen. A shorter stay may go unseen, except
  /// in a circle straight ahead. 0 to 10 minutes, by default 0.
  public var patience = Duration.zero
  /// Metres a second that a resting device may reach at once: 0.1 to 1000, by default 10.
  public var leastSpeed = 10.0
  /// How many times faster than it was a device may get: 1 to 10, by default 1.5.
  public var haste = 1.5
  /// The speed assumed of a device whose speed is unknown, before haste: 0.1 to 1000 m/s, by default 30.
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

extension SamplingPolicy {
  /// When the next fix is needed after the last one.
  ///
  /// - Parameter free: metres to the nearest border; 0 where some side is not sure.
  func nextSample(
    after fix: Fix, on track: FixTrack, free: Double, among fences: FenceTable
  ) -> Moment {
    let speed = fix.speed ?? track.velocity?.length
    let hasty = max(leastSpeed, haste * (speed ?? assumedSpeed))
    var seconds = min(
      max(0, free - 3 * fix.accuracy.standardDeviation) / hasty + patience.inSeconds, longest.inSeconds)
    if patience > .zero, let speed {
      seconds = Self.lastLook(before: seconds, at: speed, fix, on: track, among: fences)
    }
    return fix.time + max(shortest, .milliseconds(Int64(seconds * 1000)))
  }

  /// The seconds, or fewer, if the device on its present course would enter a circle and be about to leave it
  /// by then.
  private static func lastLook(
    before seconds: Double, at speed: Double, _ fix: Fix, on track: FixTrack, among fences: FenceTable
  ) -> Double {
    let deviation = fix.accuracy.standardDeviation
    // The course of a device that hardly moved is unknown.
    guard let velocity = track.velocity, let elapsed = track.elapsed, speed * seconds > deviation else {
      return seconds
    }
    guard velocity.length * elapsed > 3 * deviation else { return seconds }
    let way = velocity / velocity.length
    var soonest = seconds
    fences.forEach(near: track.point, within: speed * seconds) { item in
      let slot = fences[item]
      guard slot.state != .inside, slot.detail?.isCircle ?? true else { return }
      let away = slot.centre - track.point
      let along = (away * way).sum()
      let half = (slot.reach * slot.reach - (away * away).sum() + along * along).squareRoot()
      // Not a circle that is only grazed: a fix there is no evidence.
      guard half > 2 * deviation, along > half else { return }
      soonest = min(soonest, (along + half / 2) / speed)
    }
    return soonest
  }
}
