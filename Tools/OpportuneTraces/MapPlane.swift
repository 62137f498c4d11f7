import Foundation
import OpportuneLocation

/// A map: places in pixels, laid out about its middle by their true distance and direction from there.
/// (Azimuthal equidistant: it knows neither poles nor an antimeridian, and a quarter of the Earth away shapes
/// are drawn out by half.)
struct MapPlane {
  typealias Point = SIMD2<Double>

  let centre: Coordinate
  let width, height: Double
  let pixelsPerMetre: Double
  /// A disc of a quarter of the Earth each way; else a rectangle.
  let isHemisphere: Bool
  /// Metres from the centre, within which all lies that is shown.
  let reach: Double
  private let origin: Point

  private static let quarter = 10_020_000.0
  private static let radius = 6_371_000.0

  /// One map of some places, or where that would be drawn out too far the two halves of the Earth.
  static func planes(of places: [Coordinate]) -> [MapPlane] {
    let vectors = places.map(Self.direction)
    let sum = vectors.reduce(.zero, +)
    let outwards = (sum.x * sum.x + sum.y * sum.y).squareRoot()
    var centre = Coordinate(unchecked: atan2(sum.z, outwards).degrees, atan2(sum.y, sum.x).degrees)
    var (low, high) = (Point.zero, Point.zero)
    // The middle of what is shown is found by laying it out, about a better middle each time.
    for _ in 0..<4 {
      let middle = (low + high) / 2
      centre = Ellipsoid.place(
        from: centre, azimuth: atan2(middle.x, middle.y).degrees, metres: (middle * middle).sum().squareRoot()
      )
      let up = Self.direction(centre)
      let east = SIMD3(-sin(centre.longitude.radians), cos(centre.longitude.radians), 0)
      let north = SIMD3(
        up.y * east.z - up.z * east.y, up.z * east.x - up.x * east.z, up.x * east.y - up.y * east.x)
      (low, high) =
        places.isEmpty ? (.zero, .zero) : (Point(repeating: .infinity), Point(repeating: -.infinity))
      for vector in vectors {
        let away = Point((vector * east).sum(), (vector * north).sum())
        let sine = (away * away).sum().squareRoot()
        let point = away * (sine > 0 ? atan2(sine, (vector * up).sum()) / sine * Self.radius : 0)
        (low, high) = (pointwiseMin(low, point), pointwiseMax(high, point))
      }
    }
    let farthest = pointwiseMax(high, -low)
    guard (farthest * farthest).sum().squareRoot() <= Self.quarter * 1.1 else {
      return [MapPlane(halfAbout: centre), MapPlane(halfAbout: Self.opposite(centre))]
    }
    return [MapPlane(about: centre, low, high)]
  }

  /// On a ball, which serves to find a frame with a margin.
  private static func direction(_ place: Coordinate) -> SIMD3<Double> {
    let (latitude, longitude) = (place.latitude.radians, place.longitude.radians)
    return SIMD3(cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude))
  }

  private init(about centre: Coordinate, _ low: Point, _ high: Point) {
    // A tenth of margin, and no less than 100 m.
    let span = pointwiseMax(high - low, Point(repeating: 100)) * 1.1
    (width, isHemisphere) = (1000, false)
    pixelsPerMetre = min(width / span.x, 1400 / span.y)
    height = max(200, span.y * pixelsPerMetre)
    self.centre = centre
    let middle = (low + high) / 2 * pixelsPerMetre
    origin = Point(width / 2 - middle.x, height / 2 + middle.y)
    let corner = pointwiseMax(origin, Point(width, height) - origin)
    reach = (corner * corner).sum().squareRoot() / pixelsPerMetre
  }

  private init(halfAbout centre: Coordinate) {
    (width, height, isHemisphere) = (700, 700, true)
    self.centre = centre
    pixelsPerMetre = (width - 20) / 2 / Self.quarter
    origin = Point(width / 2, height / 2)
    reach = Self.quarter
  }

  func point(_ place: Coordinate) -> Point {
    let way = Ellipsoid.way(centre, place)
    let azimuth = way.azimuth.radians
    return origin + Point(sin(azimuth), -cos(azimuth)) * way.metres * pixelsPerMetre
  }

  func shows(_ place: Coordinate) -> Bool {
    if isHemisphere { return Ellipsoid.distance(centre, place) <= reach }
    let point = point(place)
    return (0...width).contains(point.x) && (0...height).contains(point.y)
  }

  /// On the other side of the Earth, which is not a point here but the circle round all others.
  var antipode: Coordinate { Self.opposite(centre) }
  var rim: (middle: Point, radius: Double) { (origin, 2 * Self.quarter * pixelsPerMetre) }

  private static func opposite(_ place: Coordinate) -> Coordinate {
    Coordinate(unchecked: -place.latitude, place.longitude + 180)
  }

  /// 1, 2 or 5 with zeros, no longer than asked.
  static func roundLength(_ metres: Double) -> Double {
    let power = pow(10, log10(max(1, metres)).rounded(.down))
    return [5, 2, 1].first { $0 * power <= metres }.map { $0 * power } ?? power
  }
}
