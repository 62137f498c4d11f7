import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation
@testable import OpportuneTraces

@Suite(.bounded) struct ReplayPageTests {
  private func trace(_ places: [(Double, Double)], every seconds: Double = 60) throws -> LocationTrace {
    var table = "time,lat,lon,accuracy\n"
    for (index, place) in places.enumerated() {
      table += "\(1_581_041_700 + Double(index) * seconds),\(place.0),\(place.1),5\n"
    }
    return try LocationTrace.read(Data(table.utf8))
  }

  /// The points of the paths of a class, a list for each line without a break.
  private func lines(_ name: String, of html: String) -> [[SIMD2<Double>]] {
    html.components(separatedBy: "<path class=\"\(name)\" d=\"").dropFirst().flatMap { rest in
      rest.prefix { $0 != "\"" }.split(separator: "M").map { line in
        line.split { "LZ".contains($0) }.compactMap { pair in
          let numbers = pair.split(separator: " ").compactMap { Double($0) }
          return numbers.count == 2 ? SIMD2(numbers[0], numbers[1]) : nil
        }
      }
    }
  }

  private func length(_ vector: SIMD2<Double>) -> Double { (vector * vector).sum().squareRoot() }

  /// Across and along.
  private func extent(_ points: [SIMD2<Double>]) -> SIMD2<Double> {
    let high = points.reduce(SIMD2(repeating: -Double.infinity)) { pointwiseMax($0, $1) }
    return high - points.reduce(SIMD2(repeating: Double.infinity)) { pointwiseMin($0, $1) }
  }

  // R-GEO-01
  @Test func thePageSaysAllThatTheTextSays() throws {
    var places = (0..<60).map { (50 + Double($0) * 0.001, 8.0) }
    places[30] = (0, 0)
    let data =
      "time,lat,lon,accuracy\n,1,2,5\n"
      + places.enumerated().map { "\(1_581_041_700 + $0.offset * 60),\($0.element.0),\($0.element.1),5\n" }
      .joined()
    let trace = try LocationTrace.read(Data(data.utf8))
    var options = LocationReplay.Options()
    options.isContinuous = true
    let fence = NamedRegion("shop", try .circle(place(50.02, 8), radius: 400))
    let report = try LocationReplay.run(trace, fences: [fence], options: options)
    #expect(report.outliers.map(\.position) == [try place(0, 0)] && report.skipped == ["no time": 1])
    let page = report.page(trace, fences: [fence], title: "a")
    let lines = report.text().split(separator: "\n")
    #expect(lines.contains("60 of 60 fixes used, 1 outlier, 2 crossings"))
    for line in lines.dropFirst(2) { #expect(page.contains(line), "\(line)") }
    for crossing in report.crossings {
      #expect(page.contains("<td>\(crossing.kind.rawValue)</td><td>shop</td>"))
    }
    #expect(page.contains("outlier at 1800.0 s") && page.contains("; 1 of 1 beyond the map"))
    let json = try JSONSerialization.jsonObject(with: Data(report.json().utf8)) as? [String: Any]
    #expect(json?["outliers"] as? Int == 1 && json?["left_out"] as? [String: Int] == ["no time": 1])
    let alone = try LocationReplay.run(self.trace([(50, 8)]), fences: [], options: options).text()
    #expect(alone.hasPrefix("1 of 1 fix used, 0 outliers, 0 crossings\n"), "\(alone)")
    // The map is of the way, which the outlier is no part of: 6.6 km from south to north.
    let way = self.lines("way", of: page)
    #expect(way.count == 1 && extent(way[0]).y > 1000)
    // One that is near is on it.
    places[30] = (50.03, 8.02)
    let near = try self.trace(places, every: 10)
    let other = try LocationReplay.run(near, fences: [], options: options).page(near, fences: [], title: "a")
    #expect(!other.contains("beyond the map") && other.contains("outlier at 300.0 s"))
  }

  /// Latitude and longitude of two places, and by how much shapes may be drawn out beside each other.
  // R-GEO-05
  @Test(arguments: [
    [60, 10, 60, 10.5, 1.02], [89.9, 0, 89.9, 180, 1.02], [85, -100, 86, 80, 1.02], [-89, 0, -88, 120, 1.02],
    [5, 179.5, -5, -179.5, 1.02], [70, 170, 71, -160, 1.05], [0, 0, 0, 100, 1.3], [-30, -70, 40, 20, 1.3],
    [60, -100, 60, 80, 1.3], [0, -90, 0, 90, 1.6], [-40, 175, 40, -4, 1.6],
  ])
  func circlesStayRoundWhereverTheyAre(_ pair: [Double]) throws {
    let ends = [try place(pair[0], pair[1]), try place(pair[2], pair[3])]
    let metres = Ellipsoid.distance(ends[0], ends[1])
    let planes = MapPlane.planes(of: ends)
    try #require(planes.count == 1)
    for end in ends { try expectRound(end, metres / 100, planes, within: pair[4]) }
    let apart = length(planes[0].point(ends[0]) - planes[0].point(ends[1])) / planes[0].pixelsPerMetre
    #expect(abs(apart / metres - 1) < 0.03, "\(apart) for \(metres)")
  }

  // R-GEO-05
  @Test func theWholeEarthIsTwoMaps() throws {
    let places = try [place(0, 0), place(10, 120), place(-10, -120), place(80, 50)]
    let planes = MapPlane.planes(of: places)
    #expect(planes.count == 2 && planes.allSatisfy { $0.isHemisphere })
    for place in places { try expectRound(place, 100_000, planes, within: 1.6) }
  }

  private func expectRound(
    _ place: Coordinate, _ radius: Double, _ planes: [MapPlane], within ratio: Double
  ) throws {
    let plane = try #require(planes.first { $0.shows(place) })
    let middle = plane.point(place)
    let rim = stride(from: 0.0, to: 360, by: 10).map {
      length(plane.point(Ellipsoid.place(from: place, azimuth: $0, metres: radius)) - middle)
    }
    let (least, most) = (try #require(rim.min()), try #require(rim.max()))
    #expect(most / least < ratio, "\(most / least)")
    // True to the scale, too.
    #expect(abs(least / plane.pixelsPerMetre / radius - 1) < 0.02)
  }

  // R-GEO-05
  @Test func linesAreWhereTheyAreOnTheEarth() throws {
    // A way over the pole and one over the antimeridian are straight, and as long as they are.
    for ends in [[(89, 0), (89, 180)], [(0, 179), (0, -179)]] as [[(Double, Double)]] {
      let trace = try trace(ends, every: 36_000)
      let page = try LocationReplay.run(trace, fences: []).page(trace, fences: [], title: "a")
      let way = lines("way", of: page)
      try #require(way.count == 1)
      let length = zip(way[0], way[0].dropFirst()).reduce(0) { $0 + self.length($1.1 - $1.0) }
      let apart = self.length(way[0][way[0].count - 1] - way[0][0])
      #expect(abs(length / apart - 1) < 0.01 && apart > 880, "\(length) \(apart)")
    }
    // A box about the pole is a sector: its sides bend with the parallels.
    let sector = NamedRegion("a", try .polygon([ring([(0, 80), (90, 80), (90, 88), (0, 88)])]))
    let trace = try trace([(79, 45), (84, 45)], every: 36_000)
    let report = try LocationReplay.run(trace, fences: [sector])
    #expect(report.crossings.map(\.kind) == [.enter])
    let drawn = try #require(lines("fence", of: report.page(trace, fences: [sector], title: "a")).first)
    let plane = try #require(
      MapPlane.planes(
        of: trace.fixes.map(\.position)
          + [(0, 80), (90, 80), (90, 88), (0, 88)].map { try place($0.1, $0.0) }
      )
      .first)
    let pole = plane.point(try place(90, 0))
    for point in drawn {
      let metres = length(point - pole) / plane.pixelsPerMetre
      let range = Ellipsoid.metresFromPole(88) - 3000...Ellipsoid.metresFromPole(80) + 3000
      #expect(range.contains(metres), "\(metres)")
    }
    #expect(drawn.count > 20)
  }

  // R-GEO-05
  @Test func whatWasCutAlongTheAntimeridianIsDrawnWhole() throws {
    let cut = NamedRegion("a", try .multipolygon([[box(178, -2, 180, 2)], [box(-180, -2, -178, 2)]]))
    let trace = try trace([(0, 177.5), (0, 179), (0, -179)], every: 36_000)
    let page = try LocationReplay.run(trace, fences: [cut]).page(trace, fences: [cut], title: "a")
    let border = lines("fence border", of: page)
    let map = try #require(MapPlane.planes(of: trace.fixes.map(\.position)).first)
    #expect(
      !border.isEmpty && lines("fence area", of: page).count == 2 && map.centre.longitude.magnitude > 170)
    // No line runs along the cut: from corner to corner there.
    let joined = border.joined()
    let middle = (try #require(joined.map(\.x).min()) + #require(joined.map(\.x).max())) / 2
    for line in border {
      for (from, to) in zip(line, line.dropFirst()) {
        #expect(abs(from.x - middle) > 1 || abs(to.x - middle) > 1 || abs(from.y - to.y) < 2)
      }
    }
  }

  // R-GEO-05
  @Test func aPageOfALongBorderIsShort() throws {
    let corners = (0..<50_000).map {
      let angle = Double($0) / 50_000 * 2 * .pi
      return (11 + 0.3 * cos(angle), 48 + 0.2 * sin(angle))
    }
    let region = NamedRegion("a", try .polygon([ring(corners)]))
    // Once crossed, and shown whole; once about the device, whose map it fills.
    for start in [(48, 12), (48, 11)] as [(Double, Double)] {
      let trace = try trace([start, (48, 11.001), (48, 11.002)], every: 3600)
      let page = try LocationReplay.run(trace, fences: [region]).page(trace, fences: [region], title: "a")
      #expect(page.utf8.count < 120_000, "\(page.utf8.count)")
    }
  }
}
