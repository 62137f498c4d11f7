import Foundation
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct GeometryTests {
  // R-GEO-05
  @Test(.enabled(if: TestData.has("geodesic"), TestData.absent)) func distancesAgreeWithTheReference() throws
  {
    var worst = 0.0
    var lines = 0
    for line in try TestData.text("geodesic/GeodTest-100.odd-lines.dat").split(separator: "\n") {
      let values = line.split(separator: " ").compactMap { Double($0) }
      try #require(values.count == 10)
      let distance = Ellipsoid.distance(
        try place(values[0], values[1]), try place(values[3], values[4].wrappedLongitude))
      worst = max(worst, abs(distance - values[6]))
      lines += 1
    }
    #expect(lines == 50)
    #expect(worst < 0.001, "\(worst) m")
  }

  // R-GEO-05
  @Test func chordsServeForCirclesUpToAHundredKilometres() throws {
    var generator = SplitMix64(seed: 7)
    for _ in 0..<2000 {
      let start = try place(
        Double.random(in: -90...90, using: &generator), Double.random(in: -180...180, using: &generator))
      let metres = Double.random(in: 1...Point3.longestChord, using: &generator)
      let end = Ellipsoid.place(
        from: start, azimuth: Double.random(in: 0...360, using: &generator), metres: metres)
      let chord = Point3(start).chord(to: Point3(end))
      #expect(chord <= metres + 1e-6)
      #expect(abs(Point3.arc(ofChord: chord) - metres) < 0.03)
    }
  }

  // R-GEO-05
  @Test func aDiscHoldsWhatTheRiceDistributionSays() {
    for radius in [0.01, 0.5, 1, 3, 20, 1000] {
      #expect(
        abs(Normal.inDisc(radius: radius, distance: 0) - -expm1(-radius * radius / 2)) < 1e-9, "\(radius)")
    }
    // A wide rim is a straight line.
    for z in [-3.0, -1, 0, 0.5, 2] {
      #expect(abs(Normal.inDisc(radius: 1e4, distance: 1e4 + z) - Normal.below(-z)) < 1e-4, "\(z)")
    }
    // Against drawing: within four deviations of the count.
    var errors = NormalErrors(seed: 11)
    let draws = 200_000
    for (radius, distance) in [(1.0, 1.0), (0.7, 2.0), (4.0, 4.5), (2.0, 0.5)] {
      var hits = 0
      for _ in 0..<draws {
        let (x, y) = errors.pair()
        if (x - distance) * (x - distance) + y * y <= radius * radius { hits += 1 }
      }
      let p = Normal.inDisc(radius: radius, distance: distance)
      let spread = 4 * (p * (1 - p) / Double(draws)).squareRoot()
      #expect(abs(Double(hits) / Double(draws) - p) < spread, "\(radius) \(distance)")
    }
  }

  // R-GEO-05
  @Test func aBoxHoldsTheProductOfItsSides() throws {
    // In metres about a place where the box is small, so that its plane is that of the product.
    let middle = try place(52, 13)
    let scale = Ellipsoid.metresPerRadian(at: 52)
    func corner(_ x: Double, _ y: Double) throws -> (Double, Double) {
      (13 + (x / scale.east).degrees, 52 + (y / scale.north).degrees)
    }
    for (west, south, east, north) in [
      (-10.0, -10.0, 10.0, 10.0), (3, -50, 60, 2), (-100, -100, -20, 100), (-5, 0, 5, 200), (30, 30, 40, 50),
    ] {
      let region = try Region.polygon([
        ring([corner(west, south), corner(east, south), corner(east, north), corner(west, north)])
      ])
      for deviation in [2.0, 10, 60, 300] {
        let found = try #require(region.probability(fix(middle, deviation: deviation, at: 0)))
        let across = Normal.below(east / deviation) - Normal.below(west / deviation)
        let along = Normal.below(north / deviation) - Normal.below(south / deviation)
        #expect(abs(found - across * along) < 1e-6, "\(west) \(deviation): \(found), \(across * along)")
      }
    }
  }

  // R-GEO-05
  @Test func holesAndSecondPolygonsCount() throws {
    let region = try Region.multipolygon([[box(0, 0, 10, 10), box(4, 4, 6, 6)], [box(20, 0, 30, 10)]])
    #expect(try region.contains(place(2, 2)) && region.contains(place(5, 25)))
    #expect(try !region.contains(place(5, 5)) && !region.contains(place(5, 15)))
    #expect(try region.probability(fix(place(5, 5), at: 0)) == 0)
    // 1 degree of latitude from the hole's border.
    #expect(try abs(region.borderDistance(from: place(5, 5)) - 110_000) < 2000)
  }

  // R-GEO-05
  @Test func theAntimeridianIsNoBorder() throws {
    let whole = try Region.polygon([box(178, -2, -178, 2)])
    let cut = try Region.multipolygon([[box(178, -2, 180, 2)], [box(-180, -2, -178, 2)]])
    for region in [whole, cut] {
      for longitude in [179.0, 180, -180, -179.9999, -178.5] {
        #expect(try region.contains(place(0, longitude)), "\(longitude)")
        #expect(try region.probability(fix(place(0, longitude), deviation: 50, at: 0)) == 1)
      }
      #expect(
        try !region.contains(place(0, 177)) && !region.contains(place(0, -177))
          && !region.contains(place(0, 0)))
      #expect(try region.borderDistance(from: place(0, 180)) > 200_000)
    }
    let circle = try Region.circle(place(10, 179.9999), radius: 1000)
    #expect(try circle.contains(place(10, -179.9999)) && !circle.contains(place(10, -179.98)))
  }

  // R-GEO-05
  @Test func polygonsOfOneRegionMeetInPointsOnly() throws {
    // Corner to corner, and a corner on a side.
    _ = try Region.multipolygon([[box(0, 0, 10, 10)], [box(10, 10, 20, 20)]])
    _ = try Region.multipolygon([[box(0, 0, 10, 10)], [ring([(10, 5), (20, 0), (20, 10)])]])
    // An island in a lake, which it touches.
    let lake = try box(2, 2, 8, 8)
    _ = try Region.multipolygon([[box(0, 0, 10, 10), lake], [ring([(2, 5), (5, 4), (5, 6)])]])
    let sharing: [[[[Coordinate]]]] = try [
      [[box(0, 0, 10, 10)], [box(10, 0, 20, 10)]], [[box(0, 0, 10, 10)], [box(10, 4, 20, 6)]],
      [[box(10, 4, 20, 6)], [box(30, 0, 40, 10)], [box(0, 0, 10, 10)]],
      [[box(0, 0, 10, 10), lake], [box(2, 4, 5, 6)]],
      [[box(0, 87, 10, 88)], [box(10, 87, 20, 88)]],
    ]
    for polygons in sharing {
      #expect(throws: LocationError(.polygonsShareSide)) { try Region.multipolygon(polygons) }
    }
    let text =
      #"{"type":"MultiPolygon","coordinates":[[[[0,0],[1,0],[1,1],[0,1],[0,0]]],[[[1,0],[2,0],[2,1],[1,1],[1,0]]]]}"#
    let error = #expect(throws: GeoJSONError.self) { try GeoJSON.regions(Data(text.utf8)) }
    #expect(
      "\(try #require(error))".hasSuffix(
        "two polygons of the region share a side; join them to one, or make each a region"))
  }

  /// Parts are compared with those that they meet only: above one another, beside one another, or crosswise.
  // R-GEO-05
  @Test func partsAreNotComparedWithAllOthers() throws {
    func part(_ west: Double, _ south: Double, _ east: Double, _ north: Double) -> [[SIMD2<Double>]] {
      [[SIMD2(west, south), SIMD2(east, south), SIMD2(east, north), SIMD2(west, north)]]
    }
    let many = 300
    let stack = (0..<many).map { part(0, Double($0), 150, Double($0) + 0.5) }
    let row = (0..<many).map { part(200 + Double($0), -300, 200.5 + Double($0), 300) }
    // Two halves of each, cut where that is no border.
    let halves = stack.flatMap { [$0, [$0[0].map { SIMD2(300 - $0.x, $0.y) }]] }
    #expect(try Validity.check(stack + row, isOnCut: { _ in false }) == 0)
    #expect(try Validity.check(halves, isOnCut: { $0.x == 150 }) == many)
    #expect(throws: LocationError(.polygonsShareSide)) { try Validity.check(halves, isOnCut: { _ in false }) }
    #expect(throws: LocationError(.overlappingPolygons)) {
      try Validity.check(stack + stack, isOnCut: { _ in false })
    }
    #expect(throws: LocationError(.invalidPolygon(reason: "Self-intersection"))) {
      try Validity.check(
        stack + [[[SIMD2(0, -9), SIMD2(9, -1), SIMD2(9, -9), SIMD2(0, -1)]]], isOnCut: { _ in false })
    }
  }

  // R-GEO-05
  @Test func whatIsCutAlongTheAntimeridianIsWholeNearAPoleToo() throws {
    let cut = try Region.multipolygon([[box(170, 87, 180, 88)], [box(-180, 87, -170, 88)]])
    #expect(try cut.contains(place(87.5, 180)) && !cut.contains(place(86.9, 180)))
    // The cut is no border.
    #expect(try cut.borderDistance(from: place(87.5, 180)) > 40_000)
    #expect(try cut.probability(fix(place(87.5, -179.999), deviation: 50, at: 0)) == 1)
    #expect(throws: LocationError(.overlappingPolygons)) {
      try Region.multipolygon([[box(170, 87, 180, 88)], [box(175, 87, -170, 88)]])
    }
  }

  // R-GEO-05
  @Test func aLongBorderIsSearchedAsAShortOneIs() throws {
    // Rings of ever more corners on the same circle, which boxes of boxes are made of: all say the same, and
    // as all sides taken one by one.
    var generator = SplitMix64(seed: 5)
    let centre = try place(48, 11)
    for corners in [3, 16, 17, 256, 257, 5000] {
      let border = (0..<corners).map {
        Ellipsoid.place(from: centre, azimuth: -360 * Double($0) / Double(corners), metres: 20_000)
      }
      let region = try Region.polygon([border])
      for _ in 0..<20 {
        let metres = Double.random(in: 0...40_000, using: &generator)
        let azimuth = Double.random(in: 0..<360, using: &generator)
        let there = Ellipsoid.place(from: centre, azimuth: azimuth, metres: metres)
        let plain = Self.relation(of: there, to: border)
        #expect(region.contains(there) == plain.isInside, "\(corners) \(azimuth) \(metres)")
        #expect(
          abs(region.borderDistance(from: there) - plain.distance) < 1 + plain.distance / 100, "\(corners)")
      }
    }
  }

  /// Of a place to a ring, by all its sides in longitude and latitude.
  private static func relation(of place: Coordinate, to ring: [Coordinate]) -> (
    isInside: Bool, distance: Double
  ) {
    let scale = Ellipsoid.metresPerRadian(at: place.latitude)
    func local(_ corner: Coordinate) -> (x: Double, y: Double) {
      (
        (corner.longitude - place.longitude).radians * scale.east,
        (corner.latitude - place.latitude).radians * scale.north
      )
    }
    var (isInside, distance) = (false, Double.infinity)
    for (from, to) in zip(ring, ring.dropFirst() + ring.prefix(1)) {
      let (a, b) = (local(from), local(to))
      if (a.y > 0) != (b.y > 0), a.x + (b.x - a.x) * a.y / (a.y - b.y) > 0 { isInside.toggle() }
      let (dx, dy) = (b.x - a.x, b.y - a.y)
      let share = min(1, max(0, -(a.x * dx + a.y * dy) / (dx * dx + dy * dy)))
      let (x, y) = (a.x + share * dx, a.y + share * dy)
      distance = min(distance, (x * x + y * y).squareRoot())
    }
    return (isInside, distance)
  }

  // R-GEO-05
  @Test func aPoleIsAPlaceLikeAnyOther() throws {
    // Round the pole, once as such and once with the seams that maps in longitude and latitude have.
    let round = try Region.polygon([ring(stride(from: -180.0, to: 180, by: 20).map { ($0, -80) })])
    let seamed = try Region.polygon([
      ring(stride(from: -180.0, through: 180, by: 20).map { ($0, -80) } + [(180, -90), (-180, -90)])
    ])
    for region in [round, seamed] {
      for (latitude, longitude) in [
        (-90.0, 0.0), (-85, 179.99), (-85, -179.99), (-80.01, 77), (-89.9999, 10),
      ] {
        #expect(try region.contains(place(latitude, longitude)), "\(latitude) \(longitude)")
      }
      #expect(
        try !region.contains(place(-79.99, 77)) && !region.contains(place(80, 0))
          && !region.contains(place(90, 0)))
      // Neither the pole nor the seam is a border.
      #expect(try region.probability(fix(place(-89.99, 180), deviation: 1000, at: 0)) == 1)
      #expect(
        try abs(region.borderDistance(from: place(-90, 0)) - Ellipsoid.distance(place(-90, 0), place(-80, 0)))
          < 500)
    }
    let beside = try Region.polygon([ring([(0, 89), (90, 89), (180, 89.9), (-90, 89.9)])])
    #expect(
      try beside.contains(place(90, 0)) && beside.contains(place(89.3, 45))
        && !beside.contains(place(89.3, -135)))
    let circle = try Region.circle(place(89.999, 0), radius: 1000)
    #expect(try circle.contains(place(89.995, 180)) && !circle.contains(place(89.98, 180)))
  }

  // R-GEO-05
  @Test func altitudesBoundARegion() throws {
    let region = try Region.circle(place(0, 0), radius: 1000, altitude: 100...200)
    func at(_ metres: Double) throws -> Fix {
      try fix(place(0, 0), at: 0, altitude: Fix.Altitude(metres: metres, standardDeviation: 10))
    }
    #expect(try #require(region.probability(at(150))) > 0.99)
    #expect(try abs(#require(region.probability(at(100))) - 0.5) < 1e-6)
    #expect(try #require(region.probability(at(50))) < 1e-4)
    #expect(try region.probability(fix(place(0, 0), at: 0)) == nil)
  }

  // R-GEO-05
  @Test func whatIsNoRegionIsRefused() throws {
    #expect(throws: LocationError.self) { try Coordinate(latitude: 90.1, longitude: 0) }
    #expect(throws: LocationError.self) { try Coordinate(latitude: .nan, longitude: 0) }
    #expect(throws: LocationError.self) { try Region.circle(place(0, 0), radius: 0) }
    #expect(throws: LocationError(.ringTooShort(corners: 2))) {
      try Region.polygon([ring([(0, 0), (1, 1), (0, 0)])])
    }
    #expect(throws: LocationError(.noPolygons)) { try Region.multipolygon([]) }
    #expect(throws: LocationError(.noPolygons)) { try Region.polygon([]) }
    #expect(throws: LocationError(.invalidPolygon(reason: "Self-intersection"))) {
      try Region.polygon([ring([(0, 0), (10, 10), (10, 0), (0, 10)])])
    }
    #expect(throws: LocationError(.overlappingPolygons)) {
      try Region.multipolygon([[box(0, 0, 10, 10)], [box(5, 5, 15, 15)]])
    }
    #expect(throws: LocationError(.bothPoles)) {
      try Region.polygon([ring([(0, -88), (10, -88), (10, 88), (0, 88)])])
    }
    #expect(throws: LocationError.self) { try Region.circle(place(0, 0), radius: 10, altitude: 0...1e10) }
    #expect(throws: LocationError.self) { try Accuracy(standardDeviation: 0) }
    #expect(throws: LocationError.self) { try Accuracy.radius(10, confidence: 1) }
  }

  @Test func aStatedRadiusHoldsItsShare() throws {
    let accuracy = try Accuracy.radius(200)
    #expect(abs(accuracy.radius(confidence: 0.68) - 200) < 1e-9)
    #expect(abs(Normal.inDisc(radius: 200 / accuracy.standardDeviation, distance: 0) - 0.68) < 1e-9)
    let wide = try Accuracy.radius(200, confidence: 0.95)
    #expect(abs(Normal.inDisc(radius: 200 / wide.standardDeviation, distance: 0) - 0.95) < 1e-9)
  }

  /// A canary in each coordinate: nothing that is printed or dumped holds it.
  @Test func nothingPrintedSaysWhere() throws {
    let secret = try place(12.345678, 76.543219)
    let region = try Region.circle(secret, radius: 7777.5)
    let polygon = try Region.polygon([ring([(76.543219, 12.345678), (77, 12), (77, 13)])])
    let fix = try Fix(
      secret, accuracy: Accuracy(standardDeviation: 5),
      altitude: Fix.Altitude(metres: 4321.125, standardDeviation: 1), time: .zero)
    let notice = LocationNotice.update(RequestID(number: 1), old: fix, new: fix)
    let values: [Any] = [
      secret, region, polygon, fix, Fence(region), notice, LocationEvent.fix(fix),
      LocationRequest.region(Fence(polygon)), [fix], Optional(secret) as Any,
    ]
    for value in values {
      var dumped = ""
      dump(value, to: &dumped)
      for text in ["\(value)", String(reflecting: value), dumped] {
        for canary in ["12.345", "76.543", "7777", "4321"] { #expect(!text.contains(canary), "\(text)") }
      }
    }
    let crossed = try ring([(76.543219, 12.345678), (77, 13), (77, 12.345678), (76.543219, 13)])
    let error = #expect(throws: LocationError.self) { try Region.polygon([crossed]) }
    #expect(!"\(String(describing: error))".contains("12."))
  }
}
