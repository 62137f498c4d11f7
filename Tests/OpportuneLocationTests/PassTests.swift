import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

/// Circles that were crossed entirely between two fixes.
@Suite(.bounded) struct PassTests {
  private func told(
    wander: Double?, aside: Double = 0, region: Region? = nil, end: Double = 300, deviation: Double = 5
  ) throws -> [Crossing] {
    let centre = try place(48, 11)
    var rig = try MonitorRig { $0.wander = wander }
    _ = try rig.add(region ?? .circle(centre, radius: 100))
    for east in [-600, -300, end] {
      try rig.see(moved(centre, east: east, north: aside), deviation: deviation, every: 20)
    }
    return rig.told
  }

  // R-GEO-01
  @Test func aCircleOnTheStraightWayIsToldWhereThatIsAsked() throws {
    #expect(try told(wander: nil).isEmpty)
    let passed = try told(wander: 3)
    #expect(
      passed.map(\.kind) == [.enter, .exit] && passed.allSatisfy { $0.at == .seconds(60) && !$0.isInitial })
    #expect(passed.allSatisfy { $0.confidence >= 0.99 && abs($0.confidence - passed[0].confidence) < 1e-9 })
    // Not what may have been missed: by its place, by the errors, by how far devices stray.
    #expect(try told(wander: 3, aside: 50).count == 2 && told(wander: 3, aside: 90).isEmpty)
    #expect(try told(wander: 3, aside: 50, deviation: 40).isEmpty && told(wander: 30, aside: 50).isEmpty)
    // Where the device is now, its fix says.
    #expect(try told(wander: 3, end: 60).map(\.kind) == [.enter])
    #expect(throws: LocationError.self) { try told(wander: -1) }
  }

  // R-GEO-01, R-GEO-05
  @Test func onlyCirclesWithoutAltitudesArePassed() throws {
    let centre = try place(48, 11)
    #expect(try told(wander: 3, region: .circle(centre, radius: 100, altitude: 0...100)).isEmpty)
    #expect(try told(wander: 3, region: .polygon([box(10.999, 47.999, 11.001, 48.001)])).isEmpty)
  }

  /// Devices that go 15 m/s and stray as they are taken to, seen every 20 s.
  // R-GEO-01
  @Test func falsePassesAreRarerThanTheStatedConfidence() throws {
    var generator = SplitMix64(seed: 3)
    var errors = NormalErrors(seed: 4)
    let centre = try place(48, 11)
    var (count, wrong) = (0, 0)
    for _ in 0..<600 {
      var rig = try MonitorRig { $0.wander = 3 }
      _ = try rig.add(.circle(centre, radius: 100))
      let start = -600 + Double.random(in: 0..<300, using: &generator)
      var north = Double.random(in: -130...130, using: &generator)
      var wasInside = false
      for second in 0...60 {
        let east = start + 15 * Double(second)
        north += 3 * errors.pair().0
        if second > 20, east * east + north * north < 100 * 100 { wasInside = true }
        guard second % 20 == 0 else { continue }
        let error = errors.pair()
        try rig.see(moved(centre, east: east + 5 * error.0, north: north + 5 * error.1), every: 20)
      }
      // Those of the fixes alone are of other tests.
      guard rig.told.count == 2, rig.told[0].at == rig.told[1].at else { continue }
      count += 1
      if !wasInside { wrong += 1 }
    }
    print("\(count) passes, \(wrong) false")
    #expect(count > 100 && Double(wrong) <= 0.01 * Double(count), "\(wrong) of \(count)")
  }
}
