/// An area of the Earth, with or without a range of altitudes: a circle, a polygon with holes, or several.
/// (R-GEO-05)
///
/// * A circle is all that is within its radius over the ellipsoid.
/// * The sides of polygons are straight in longitude and latitude, as in GeoJSON (RFC 7946). A side goes the
///   shorter way round, so a shape may cross the antimeridian as it is, or be cut there into several. A ring
///   that goes round the Earth holds the nearer pole. Rings may run either way; the first is the border,
///   others are holes.
///
/// Descriptions say what it is, never where.
public struct Region: Sendable, Hashable {
  package enum Shape: Sendable, Hashable {
    case circle(centre: Coordinate, radius: Double)
    case polygons(PolygonShape)
  }

  package let shape: Shape
  /// Metres above the ellipsoid; `nil`: all.
  public let altitude: ClosedRange<Double>?

  /// Metres.
  public static let radii = 1.0...5_000_000

  /// - Throws: ``LocationError``: `outOfRange` for a radius outside ``radii``.
  public static func circle(
    _ centre: Coordinate, radius: Double, altitude: ClosedRange<Double>? = nil
  ) throws(LocationError) -> Region {
    try check(radius, "radius in metres", within: radii)
    return try Region(.circle(centre: centre, radius: radius), altitude)
  }

  /// - Parameter rings: the border, then holes; the first corner may be repeated at the end.
  /// - Throws: ``LocationError`` for rings that make no valid polygon.
  public static func polygon(
    _ rings: [[Coordinate]], altitude: ClosedRange<Double>? = nil
  ) throws(LocationError) -> Region {
    try multipolygon([rings], altitude: altitude)
  }

  /// - Throws: ``LocationError`` for rings that make no valid polygons, or polygons that overlap.
  public static func multipolygon(
    _ polygons: [[[Coordinate]]], altitude: ClosedRange<Double>? = nil
  ) throws(LocationError) -> Region {
    try Region(.polygons(PolygonShape(polygons)), altitude)
  }

  private init(_ shape: Shape, _ altitude: ClosedRange<Double>?) throws(LocationError) {
    if let altitude {
      try check(altitude.lowerBound, "lower altitude in metres", within: -2e7...1e9)
      try check(altitude.upperBound, "upper altitude in metres", within: -2e7...1e9)
    }
    self.shape = shape
    self.altitude = altitude
  }

  /// Whether a place lies inside, the altitude apart. On a border the answer is either.
  public func contains(_ place: Coordinate) -> Bool {
    switch shape {
    case .circle(let centre, let radius): Ellipsoid.distance(centre, place) <= radius
    case .polygons(let polygons): polygons.relation(to: place).isInside
    }
  }

  /// Metres over the ellipsoid from a place to the border, whichever side it is on. To a polygon's it is
  /// right within 1 % up to 100 km, since the nearest point is sought in a plane; then it can only be too
  /// far.
  public func borderDistance(from place: Coordinate) -> Double {
    switch shape {
    case .circle(let centre, let radius): abs(Ellipsoid.distance(centre, place) - radius)
    case .polygons(let polygons): polygons.borderDistance(from: place)
    }
  }

  /// A ball that holds the region: the place of its centre, and its radius in metres through the Earth;
  /// infinite for what is too wide to be worth one.
  package var ball: (centre: Point3, radius: Double) {
    switch shape {
    case .circle(let centre, let radius): return (Point3(centre), radius)
    case .polygons(let polygons):
      var low = SIMD2<Double>(repeating: .infinity)
      var high = SIMD2<Double>(repeating: -.infinity)
      let corners = polygons.polygons.joined().joined()
      guard let first = corners.first else { return (Point3(Coordinate(unchecked: 0, 0)), .infinity) }
      for corner in corners {
        let turned = corner.longitude + 360 * ((first.longitude - corner.longitude) / 360).rounded()
        low = pointwiseMin(low, SIMD2(turned, corner.latitude))
        high = pointwiseMax(high, SIMD2(turned, corner.latitude))
      }
      let span = high - low
      var middle = Coordinate(unchecked: (low.y + high.y) / 2, (low.x + high.x) / 2)
      if case .polar(let north) = polygons.frame {
        middle = Coordinate(unchecked: north ? 90 : -90, 0)
      } else if span.x > 90 || span.y > 90 {
        return (Point3(middle), .infinity)
      }
      let centre = Point3(middle)
      // A side of a degree bulges by up to 250 m over its chord, a longer one by the square of that.
      let bulge = 250 * max(1, (span * span).max())
      let farthest = corners.map { centre.chord(to: Point3($0)) }.max() ?? 0
      // Beyond a quarter of the Earth the farthest point need not be a corner.
      return (centre, farthest > 8_000_000 ? .infinity : farthest + min(bulge, 500 + farthest / 2))
    }
  }
}

extension Region: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String {
    switch shape {
    case .circle: altitude == nil ? "circle" : "circle with altitudes"
    case .polygons: altitude == nil ? "polygon" : "polygon with altitudes"
    }
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
