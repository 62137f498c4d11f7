/// A place on the WGS 84 ellipsoid.
///
/// Descriptions and mirrors of it say nothing of where it is, so that nothing that prints, logs or dumps a
/// value that holds one tells. (issue: location data is never logged)
public struct Coordinate: Sendable, Hashable {
  /// Degrees, -90 to 90, north is positive.
  public let latitude: Double
  /// Degrees, -180 to 180, east is positive.
  public let longitude: Double

  /// - Throws: ``LocationError``: `outOfRange`.
  public init(latitude: Double, longitude: Double) throws(LocationError) {
    try check(latitude, "latitude", within: -90...90)
    try check(longitude, "longitude", within: -180...180)
    self.init(unchecked: latitude, longitude)
  }

  /// For what is known to be in range but for turns of the longitude.
  package init(unchecked latitude: Double, _ longitude: Double) {
    self.latitude = latitude
    self.longitude = longitude.wrappedLongitude
  }
}

extension Coordinate: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "(a place)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension Double {
  package var radians: Double { self * (.pi / 180) }
  package var degrees: Double { self * (180 / .pi) }

  /// The same direction within -180 to 180.
  var wrappedLongitude: Double {
    if self >= -180, self <= 180 { return self }
    let rest = remainder(dividingBy: 360)
    return rest == -180 ? 180 : rest
  }
}
