import OpportuneApps
internal import OpportuneBase

/// A path rebuilt from samples, with its error. (R-SAMP-09)
///
/// Between two samples the position is modelled as a Brownian bridge around the shortest path, and the
/// velocity as differing from it by `sway`. So the error is least at the samples and greatest half-way
/// between them. A value; not thread-safe to change.
public struct PathHistory: Sendable {
  /// In the order of their times.
  public let samples: [Fix]
  /// Metres that a device strays from the shortest path in a second, growing with the root of time: 0 to
  /// 1000.
  public let wander: Double
  /// Metres a second by which a device's velocity differs from that on the shortest path: 0 to 1000. The
  /// error of the position grows with time.
  public let sway: Double

  /// - Parameters:
  ///   - samples: in any order; of several at one time the first is kept.
  ///   - sway: by default that of cars in and between towns.
  /// - Throws: ``LocationError``: `outOfRange`.
  public init(_ samples: [Fix], wander: Double = 5, sway: Double = 4) throws(LocationError) {
    try check(wander, "wander in metres per root of a second", within: 0...1000)
    try check(sway, "sway in metres a second", within: 0...1000)
    var kept: [Fix] = []
    for fix in samples.sorted(by: { $0.time < $1.time }) where kept.last?.time != fix.time {
      kept.append(fix)
    }
    self.samples = kept
    self.wander = wander
    self.sway = sway
  }

  /// Where the device was, and the standard deviation of the error on each axis in metres; `nil` before the
  /// first sample and after the last.
  public func position(at moment: Moment) -> (place: Coordinate, deviation: Double)? {
    // The first sample that is not earlier.
    var (low, high) = (0, samples.count)
    while low < high {
      let middle = (low + high) / 2
      if samples[middle].time < moment { low = middle + 1 } else { high = middle }
    }
    guard low < samples.count else { return nil }
    let to = samples[low]
    if to.time == moment { return (to.position, to.accuracy.standardDeviation) }
    guard low > 0 else { return nil }
    let from = samples[low - 1]
    let seconds = from.time.duration(to: to.time).inSeconds
    let share = from.time.duration(to: moment).inSeconds / seconds
    let way = Ellipsoid.way(from.position, to.position)
    let place = Ellipsoid.place(from: from.position, azimuth: way.azimuth, metres: way.metres * share)
    let (a, b) = ((1 - share) * from.accuracy.standardDeviation, share * to.accuracy.standardDeviation)
    let between = seconds * share * (1 - share)
    return (place, (a * a + b * b + wander * wander * between + sway * sway * between * between).squareRoot())
  }
}
