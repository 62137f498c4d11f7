import CGeodesic
import Foundation

/// Distances on the WGS 84 ellipsoid.
///
/// Exact ones come from GeographicLib (Karney's algorithms, errors of some nanometres). Beside them stands
/// the chord through the Earth, which is cheap and knows neither poles nor an antimeridian:
/// ``Point3``.
package enum Ellipsoid {
  static let equatorialRadius = 6_378_137.0
  static let flattening = 1 / 298.257_223_563
  static let squaredEccentricity = flattening * (2 - flattening)

  /// Metres along the shortest way over the ellipsoid.
  package static func distance(_ from: Coordinate, _ to: Coordinate) -> Double {
    opp_geodesic_inverse(from.latitude, from.longitude, to.latitude, to.longitude).metres
  }

  /// Metres along the shortest way, and the direction in which it begins, in degrees clockwise from north.
  package static func way(_ from: Coordinate, _ to: Coordinate) -> (metres: Double, azimuth: Double) {
    let way = opp_geodesic_inverse(from.latitude, from.longitude, to.latitude, to.longitude)
    return (way.metres, way.azimuth)
  }

  /// The place that lies so many metres away in a direction, in degrees clockwise from north.
  package static func place(from start: Coordinate, azimuth: Double, metres: Double) -> Coordinate {
    let place = opp_geodesic_direct(start.latitude, start.longitude, azimuth, metres)
    return Coordinate(unchecked: min(90, max(-90, place.latitude)), place.longitude)
  }

  /// Metres for a radian of latitude, and for a radian of longitude, at a latitude in degrees.
  static func metresPerRadian(at latitude: Double) -> (north: Double, east: Double) {
    let sine = sin(latitude.radians)
    let w = 1 - squaredEccentricity * sine * sine
    let normal = equatorialRadius / w.squareRoot()
    return (normal * (1 - squaredEccentricity) / w, normal * cos(latitude.radians))
  }

  /// Metres along the meridian from a pole to a latitude in degrees, as far as that is from the pole.
  static func metresFromPole(_ latitude: Double) -> Double {
    opp_geodesic_inverse(90, 0, abs(latitude), 0).metres
  }
}

/// A place in metres from the centre of the Earth, on three axes that turn with it.
package struct Point3: Sendable, Hashable {
  package var x, y, z: Double

  package init(_ place: Coordinate) {
    let (sinLatitude, cosLatitude) = (sin(place.latitude.radians), cos(place.latitude.radians))
    let normal =
      Ellipsoid.equatorialRadius
      / (1 - Ellipsoid.squaredEccentricity * sinLatitude * sinLatitude).squareRoot()
    x = normal * cosLatitude * cos(place.longitude.radians)
    y = normal * cosLatitude * sin(place.longitude.radians)
    z = normal * (1 - Ellipsoid.squaredEccentricity) * sinLatitude
  }

  /// Metres in a straight line, never more than over the surface.
  package func chord(to other: Point3) -> Double {
    let (dx, dy, dz) = (x - other.x, y - other.y, z - other.z)
    return (dx * dx + dy * dy + dz * dz).squareRoot()
  }

  /// Up to this chord ``arc(ofChord:)`` is within 3 cm of the way over the surface (a test measures it).
  static let longestChord = 100_000.0

  /// Metres over the surface for a chord, by the curvature of a sphere between those of the ellipsoid.
  static func arc(ofChord chord: Double) -> Double {
    let ratio = chord / (2 * 6_371_000)
    return chord * (1 + ratio * ratio / 6)
  }
}
