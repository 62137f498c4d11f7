import Foundation

/// Polygons on their way from corners to sides: continued across the antimeridian, laid into a frame, turned
/// the right way round and checked. (R-GEO-05)
struct PlanarPolygons {
  typealias Point = SIMD2<Double>

  let polygons: [[[Coordinate]]]
  let frame: PolygonShape.Frame
  private var rings: [[[Point]]]

  /// Shapes that come nearer to a pole than this are laid out about it.
  private static let polarLatitude = 86.0

  /// - Throws: ``LocationError``.
  init(_ given: [[[Coordinate]]]) throws(LocationError) {
    guard !given.isEmpty, given.allSatisfy({ !$0.isEmpty }) else { throw LocationError(.noPolygons) }
    polygons = given.map { $0.map(Self.opened) }
    var continued: [[[Point]]] = []
    var pole: Bool?
    for polygon in polygons {
      var rings: [[Point]] = []
      for ring in polygon {
        let (points, turns) = Self.continued(ring)
        let north: Bool? =
          if turns != 0 {
            points.reduce(0) { $0 + $1.y } >= 0
          } else if points.contains(where: { $0.y > Self.polarLatitude }) {
            true
          } else if points.contains(where: { $0.y < -Self.polarLatitude }) {
            false
          } else {
            nil
          }
        if let north {
          let other = points.contains { north ? $0.y < -Self.polarLatitude : $0.y > Self.polarLatitude }
          guard !other, pole ?? north == north else { throw LocationError(.bothPoles) }
          pole = north
        }
        rings.append(points)
      }
      continued.append(rings)
    }
    if let pole {
      frame = .polar(north: pole)
      rings = continued.map { $0.map { Self.laidOutAboutPole($0, north: pole) } }
    } else {
      let (middle, aligned) = Self.aligned(continued)
      frame = .plate(middle: middle)
      rings = aligned
    }
    for polygon in rings {
      for ring in polygon {
        var corners: Set<Point> = []
        for corner in ring where corners.count < 3 { corners.insert(corner) }
        guard corners.count == 3 else { throw LocationError(.ringTooShort(corners: corners.count)) }
      }
    }
    try Validity.check(rings, isOnCut: isOnAntimeridian)
    for polygon in rings.indices {
      for ring in rings[polygon].indices where (Self.area(rings[polygon][ring]) > 0) != (ring == 0) {
        rings[polygon][ring].reverse()
      }
    }
  }

  /// RFC 7946 has shapes cut there.
  private func isOnAntimeridian(_ point: Point) -> Bool {
    switch frame {
    case .plate: abs(remainder(point.x, 360)) == 180
    case .polar: point.x <= 0 && abs(point.y) < 1e-3
    }
  }

  /// The sides of all rings. Sides that lie on each other in opposite directions cancel: the cut along the
  /// antimeridian.
  func sides() -> [PolygonShape.Side] {
    var sides: [PolygonShape.Side] = []
    for ring in rings.joined() {
      var from = ring[ring.count - 1]
      for to in ring {
        sides.append(PolygonShape.Side(ax: from.x, ay: from.y, bx: to.x, by: to.y))
        from = to
      }
    }
    guard rings.count > 1 else { return sides }
    let known = Set(sides)
    return sides.filter { !known.contains(PolygonShape.Side(ax: $0.bx, ay: $0.by, bx: $0.ax, by: $0.ay)) }
  }

  private static func opened(_ ring: [Coordinate]) -> [Coordinate] {
    guard let first = ring.first, ring.count > 1, ring[ring.count - 1] == first else { return ring }
    return ring.dropLast()
  }

  /// Corners with longitudes that go on beyond 180 instead of jumping; and how often the ring goes round the
  /// Earth.
  private static func continued(_ ring: [Coordinate]) -> (points: [Point], turns: Int) {
    var points: [Point] = []
    for corner in ring {
      var longitude = corner.longitude
      if let last = points.last {
        longitude += 360 * ((last.x - longitude) / 360).rounded()
        if last.x == longitude, last.y == corner.latitude { continue }
      }
      points.append(Point(longitude, corner.latitude))
    }
    guard let first = points.first, let last = points.last else { return (points, 0) }
    // How far the first corner is from where the ring comes back to it.
    let back = first.x + 360 * ((last.x - first.x) / 360).rounded()
    return (points, Int(((back - first.x) / 360).rounded()))
  }

  /// Moves each polygon by whole turns next to the first, and holes to their shell.
  private static func aligned(_ polygons: [[[Point]]]) -> (middle: Double, [[[Point]]]) {
    func middle(_ ring: [Point]) -> Double {
      let longitudes = ring.map { $0.x }
      return ((longitudes.min() ?? 0) + (longitudes.max() ?? 0)) / 2
    }
    let reference = middle(polygons[0][0])
    let moved = polygons.map { polygon in
      let shell = middle(polygon[0])
      let target = shell + 360 * ((reference - shell) / 360).rounded()
      return polygon.map { ring in
        let own = middle(ring)
        let turns = 360 * ((target - own) / 360).rounded()
        return ring.map { Point($0.x + turns, $0.y) }
      }
    }
    let longitudes = moved.joined().joined().map { $0.x }
    return (((longitudes.min() ?? 0) + (longitudes.max() ?? 0)) / 2, moved)
  }

  // MARK: About a pole

  /// Metres from a pole along the meridian, at the angle of the longitude.
  static func polar(_ place: Coordinate, north: Bool) -> (x: Double, y: Double) {
    let toPole = metres(from: place.latitude, north: north)
    return (toPole * cos(place.longitude.radians), toPole * sin(place.longitude.radians))
  }

  private static func metres(from latitude: Double, north: Bool) -> Double {
    let near = Ellipsoid.metresFromPole(latitude)
    return (latitude >= 0) == north ? near : 2 * Ellipsoid.metresFromPole(0) - near
  }

  static func place(polarX x: Double, polarY y: Double, north: Bool) -> Coordinate {
    let pole = Coordinate(unchecked: north ? 90 : -90, 0)
    let radius = (x * x + y * y).squareRoot()
    let there = Ellipsoid.place(from: pole, azimuth: north ? 180 : 0, metres: radius)
    return Coordinate(unchecked: there.latitude, atan2(y, x).degrees)
  }

  /// Sides are bent there, so they are cut into pieces of a degree; and what runs out and back on itself is
  /// dropped.
  private static func laidOutAboutPole(_ ring: [Point], north: Bool) -> [Point] {
    var points: [Point] = []
    for (index, to) in ring.enumerated() {
      let from = ring[(index + ring.count - 1) % ring.count]
      var change = to - from
      change.x -= 360 * (change.x / 360).rounded()
      let pieces = max(1, Int(abs(change.x).rounded(.up)))
      for piece in 1...pieces {
        let point = from + change * (Double(piece) / Double(pieces))
        let toPole = metres(from: point.y, north: north)
        // The antimeridian is the same line from both sides, to the last digit: what was cut there has to
        // cancel.
        let turned = remainder(point.x, 360)
        let angle = (turned == -180 ? 180 : turned).radians
        points.append(Point(toPole * cos(angle), toPole * sin(angle)))
      }
    }
    func isSame(_ a: Point, _ b: Point) -> Bool {
      let d = a - b
      return (d * d).sum() < 1e-6
    }
    var result: [Point] = []
    for point in points {
      if let last = result.last, isSame(last, point) { continue }
      result.append(point)
      while result.count > 2, isSame(result[result.count - 3], result[result.count - 1]) {
        result.removeLast(2)
      }
    }
    // The same where the ring closes.
    while result.count > 3 {
      let last = result.count - 1
      if isSame(result[0], result[last]) {
        result.removeLast()
      } else if isSame(result[0], result[last - 1]) {
        result.removeLast(2)
      } else if isSame(result[1], result[last]) {
        result.removeLast()
        result.removeFirst()
      } else {
        break
      }
    }
    return result
  }

  private static func area(_ ring: [Point]) -> Double {
    var sum = 0.0
    var from = ring[ring.count - 1]
    // About a corner, so that large coordinates do not cost digits.
    let origin = ring[0]
    for to in ring {
      let (a, b) = (from - origin, to - origin)
      sum += a.x * b.y - a.y * b.x
      from = to
    }
    return sum / 2
  }
}
