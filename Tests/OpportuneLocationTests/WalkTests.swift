import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

/// Random walks with a known truth, observed with known errors.
@Suite(.bounded) struct WalkTests {
  struct Outcome {
    var told = 0
    var wrong = 0
    /// Stays of half a minute or more on the other side, and those never noticed.
    var stays = 0
    var missed = 0
  }

  /// - Parameters:
  ///   - deviation: of each fix, metres.
  ///   - memory: seconds after which errors are new; 0: each is.
  static func walk(
    seed: UInt64, deviation: Double, speed: Double, memory: Double, region: Region, about centre: Coordinate
  )
    throws -> Outcome
  {
    var policy = MonitorPolicy()
    // The default, unless the receiver is known to be worse.
    policy.correlation = max(policy.correlation, .seconds(memory))
    var monitor = try RegionMonitor(policy: policy)
    let fence = try monitor.add(Fence(region))
    var generator = SplitMix64(seed: seed)
    var errors = NormalErrors(seed: seed &+ 1000)
    var outcome = Outcome()
    var (x, y, heading) = (0.0, 0.0, Double.random(in: 0..<2 * .pi, using: &generator))
    var error = errors.pair()
    let kept = memory > 0 ? exp(-1 / memory) : 0
    var side = true
    var since = 0
    for second in 0..<4000 {
      heading += Double.random(in: -0.3...0.3, using: &generator)
      // Turned towards the middle when far, so that it crosses often.
      if (x * x + y * y).squareRoot() > 400 {
        heading = atan2(-y, -x) + Double.random(in: -1...1, using: &generator)
      }
      x += speed * cos(heading)
      y += speed * sin(heading)
      let fresh = errors.pair()
      let new = (1 - kept * kept).squareRoot()
      error = (kept * error.0 + new * fresh.0, kept * error.1 + new * fresh.1)
      let truth = region.contains(moved(centre, east: x, north: y))
      if truth != side {
        (side, since) = (truth, second)
      }
      let seen = moved(centre, east: x + deviation * error.0, north: y + deviation * error.1)
      for crossing in monitor.update(try fix(seen, deviation: deviation, at: Double(second + 1))) {
        outcome.told += 1
        if (crossing.kind == .enter) != truth { outcome.wrong += 1 }
      }
      if second - since == 30 {
        outcome.stays += 1
        if (monitor.state(of: fence) == .inside) != truth { outcome.missed += 1 }
      }
    }
    return outcome
  }

  // R-GEO-01
  @Test(arguments: [
    (5.0, 1.4, 0.0), (20, 1.4, 0), (20, 12, 0), (40, 5, 0), (5, 1.4, 5), (20, 5, 5), (20, 5, 20),
  ])
  func falseCrossingsAreRarerThanTheStatedConfidence(_ deviation: Double, _ speed: Double, _ memory: Double)
    throws
  {
    let centre = try place(53.3, -6.2)
    var total = Outcome()
    for seed in 1...12 as ClosedRange<UInt64> {
      let outcome = try Self.walk(
        seed: seed, deviation: deviation, speed: speed, memory: memory, region: .circle(centre, radius: 200),
        about: centre)
      total.told += outcome.told
      total.wrong += outcome.wrong
      total.stays += outcome.stays
      total.missed += outcome.missed
    }
    let summary = "\(deviation) m at \(speed) m/s, memory \(memory) s: \(total)"
    print(summary)
    #expect(total.told > 50, "\(summary)")
    #expect(Double(total.wrong) < (1 - MonitorPolicy().confidence) * Double(total.told), "\(summary)")
  }
}
