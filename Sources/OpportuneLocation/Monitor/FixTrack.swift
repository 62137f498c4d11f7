import OpportuneApps
internal import OpportuneBase

/// The last fix that was used, and how the device came there. It decides whether the next fix is plausible.
struct FixTrack: Sendable {
  private(set) var fix: Fix?
  private(set) var point = SIMD3<Double>.zero
  /// Metres a second between the last two fixes used, in a straight line.
  private(set) var velocity: SIMD3<Double>?
  /// Seconds between them.
  private(set) var elapsed: Double?
  /// The highest speed in metres a second that the device can have had at the last fix, given the errors of
  /// both and the policy's acceleration; 0 before the second fix.
  private var highestSpeed = 0.0
  /// The last of the successive fixes that do not agree with the last good one, and their number.
  private var suspect: (fix: Fix, count: Int)?

  /// Metres a second that a device may reach at any time: the fastest trains in service go 97.
  private static let ordinary = 100.0
  /// Metres that two fixes of a device that has not moved may lie apart.
  private static func doubt(_ one: Fix, _ other: Fix) -> Double {
    let (a, b) = (one.accuracy.standardDeviation, other.accuracy.standardDeviation)
    return 4 * (a * a + b * b).squareRoot()
  }

  /// Seconds from the last fix to this one; infinite if there is none.
  func seconds(to fix: Fix) -> Double { self.fix?.time.duration(to: fix.time).inSeconds ?? .infinity }

  /// Whether a device can have come to this fix from the last good one, or from enough suspect ones that
  /// agree with each other. In the second case ``fix`` becomes the last of those.
  mutating func leads(to fix: Fix, _ point: SIMD3<Double>, _ policy: MonitorPolicy) -> Bool {
    func isInReach(of other: Fix, _ there: SIMD3<Double>, at speed: (_ seconds: Double) -> Double) -> Bool {
      let seconds = other.time.duration(to: fix.time).inSeconds
      return (point - there).length <= min(policy.fastest, speed(seconds)) * seconds + Self.doubt(other, fix)
    }
    guard let last = self.fix,
      !isInReach(
        of: last, self.point, at: { max(Self.ordinary, highestSpeed + policy.acceleration / 2 * $0) })
    else {
      suspect = nil
      return true
    }
    // The speed of a device that was not followed is unknown.
    guard let others = suspect, case let there = Point3(others.fix.position).vector,
      isInReach(of: others.fix, there, at: { _ in .infinity })
    else {
      suspect = (fix: fix, count: 1)
      return false
    }
    guard others.count + 1 >= policy.agreeing else {
      suspect = (fix: fix, count: others.count + 1)
      return false
    }
    (self.fix, self.point, suspect) = (others.fix, there, nil)
    return true
  }

  /// The fix is used.
  mutating func follow(_ fix: Fix, _ point: SIMD3<Double>, _ policy: MonitorPolicy) {
    if let last = self.fix {
      let (way, step) = (point - self.point, seconds(to: fix))
      (velocity, elapsed) = (way / step, step)
      highestSpeed = (way.length + Self.doubt(last, fix)) / step + policy.acceleration / 2 * step
    }
    (self.fix, self.point) = (fix, point)
  }
}
