import OpportuneApps
import OpportuneLocation
import TestSupport
import Testing

@Suite(.bounded) struct OperatingModeTests {
  private let office: Coordinate
  private let street: Coordinate

  init() throws {
    office = try place(47, 8)
    street = try place(47, 8.1)
  }

  private func rig(_ modes: [OperatingMode]) throws -> LocationRig {
    var rig = try LocationRig { $0.modes = modes }
    try rig.wait(1)
    return rig
  }

  private func told(_ rig: LocationRig) -> [String?] {
    rig.log.compactMap { if case .mode(let name) = $0 { .some(name) } else { nil } }
  }

  /// Sees the device there until that is certain.
  private func stay(_ place: Coordinate, _ rig: inout LocationRig) throws {
    for _ in 0..<3 {
      try rig.wait(300)
      try rig.see(place)
    }
  }

  // R-SYS-05
  @Test func theRegionChoosesTheMode() throws {
    var rig = try rig([OperatingMode("wired", in: try .circle(office, radius: 300))])
    #expect(rig.system.operatingMode == nil)
    // It is watched though no app asks for anything, and no app hears of it.
    #expect(rig.sources == [.satellite])
    try stay(office, &rig)
    #expect(rig.system.operatingMode?.name == "wired")
    try stay(street, &rig)
    try stay(office, &rig)
    #expect(told(rig) == ["wired", nil, "wired"])
    #expect(rig.notices().isEmpty && rig.indicators.isEmpty)
    // The system pays for what it asks.
    #expect(rig.system.broker.costs[.locationSystem]?[.satellite]?.fixes ?? 0 > 0)
    #expect(rig.system.broker.costs[rig.app] == nil)
  }

  // R-SYS-05
  @Test func whereRegionsOverlapTheFirstHolds() throws {
    var rig = try rig([
      OperatingMode("quiet", in: try .circle(office, radius: 300)),
      OperatingMode("town", in: try .circle(office, radius: 20_000)),
    ])
    try stay(street, &rig)
    try stay(office, &rig)
    try stay(street, &rig)
    #expect(told(rig) == ["town", "quiet", "town"])
  }

  // R-SYS-05
  @Test func withoutLocationServicesNoneHolds() throws {
    var rig = try rig([OperatingMode("wired", in: try .circle(office, radius: 300))])
    try stay(office, &rig)
    try rig.post(.enabled(false))
    // Nor is a fix asked for when the next would be due.
    try rig.wait(700)
    #expect(rig.system.operatingMode == nil && rig.system.broker.running == nil)
    try rig.post(.enabled(true))
    #expect(told(rig) == ["wired", nil, "wired"])
  }

  // R-SYS-05, R-LOC-07
  @Test func theModesFinestAccuracyChoosesTheSource() throws {
    let (office, town) = (try Region.circle(office, radius: 300), try Region.circle(office, radius: 20_000))
    for (accuracies, source) in [([100.0], SourceKind.satellite), ([3000, 500], .wifi), ([3000], .cell)] {
      let modes = accuracies.map { OperatingMode("mode", in: $0 < 3000 ? office : town, accuracy: $0) }
      #expect(try rig(modes).sources == [source], "\(accuracies)")
    }
  }

  // R-SYS-05
  @Test func anAccuracyOutOfRangeIsRefused() throws {
    var policy = LocationPolicy()
    policy.modes = [OperatingMode("wired", in: try .circle(office, radius: 300), accuracy: 0)]
    #expect(throws: LocationError(.outOfRange("accuracy in metres", 0.01...1e6))) {
      try LocationSystem(policy: policy)
    }
  }
}
