import Foundation
import OpportuneApps

/// What a fix came from, by the kind of its source. (R-LOC-08)
public enum SourceKind: String, Sendable, Hashable, CaseIterable, Codable {
  /// A receiver of satellites.
  case satellite
  /// Wireless networks around the device.
  case wifi
  /// Beacons nearby.
  case beacon
  /// The cell that serves the device.
  case cell
}

/// How far a position may be off: the standard deviation of each of two independent, equal, normal errors.
///
/// Receivers state a radius that holds a share of the fixes; ``radius(_:confidence:)`` turns that into this.
public struct Accuracy: Sendable, Hashable {
  /// Metres, more than 0 and at most 10,000 km.
  public let standardDeviation: Double

  static let range = 1e-3...1e7

  /// - Throws: ``LocationError``: `outOfRange`.
  public init(standardDeviation: Double) throws(LocationError) {
    try check(standardDeviation, "standard deviation in metres", within: Self.range)
    self.standardDeviation = standardDeviation
  }

  /// Of a radius in metres that holds the true position with a probability, as a phone states it: 68 %.
  ///
  /// - Throws: ``LocationError``: `outOfRange`.
  public static func radius(_ metres: Double, confidence: Double = 0.68) throws(LocationError) -> Accuracy {
    try check(confidence, "confidence", within: 0.01...0.9999)
    try check(metres, "radius in metres", within: 0...1e8)
    // The distance from the truth has a Rayleigh distribution: P(r < R) = 1 - exp(-R² / 2σ²).
    return try Accuracy(
      standardDeviation: max(metres / (-2 * log1p(-confidence)).squareRoot(), range.lowerBound))
  }

  /// The radius in metres that holds the true position with a probability.
  public func radius(confidence: Double) -> Double {
    standardDeviation * (-2 * log1p(-confidence)).squareRoot()
  }
}

/// Where a device was at a moment, and how sure that is.
public struct Fix: Sendable, Hashable {
  /// Where.
  public var position: Coordinate
  /// How far off that may be.
  public var accuracy: Accuracy
  /// Metres above the ellipsoid, and the standard deviation of its error in metres.
  public var altitude: Altitude?
  /// Metres a second over ground, where the source says it.
  public var speed: Double?
  /// What found it.
  public var source: SourceKind
  /// When it was measured.
  public var time: Moment

  /// A height above the ellipsoid, and how far off it may be.
  public struct Altitude: Sendable, Hashable {
    /// The height.
    public let metres: Double
    /// Of the height, in metres.
    public let standardDeviation: Double

    /// - Throws: ``LocationError``: `outOfRange`: -20,000 km to 1,000,000 km, a deviation of 1 mm to 10,000
    ///   km.
    public init(metres: Double, standardDeviation: Double) throws(LocationError) {
      try check(metres, "altitude in metres", within: -2e7...1e9)
      try check(standardDeviation, "standard deviation in metres", within: Accuracy.range)
      self.metres = metres
      self.standardDeviation = standardDeviation
    }
  }

  /// - Throws: ``LocationError``: `outOfRange` for a speed below 0 or above 10^5 m/s.
  public init(
    _ position: Coordinate, accuracy: Accuracy, altitude: Altitude? = nil, speed: Double? = nil,
    source: SourceKind = .satellite, time: Moment
  ) throws(LocationError) {
    if let speed { try check(speed, "speed in m/s", within: 0...1e5) }
    self.position = position
    self.accuracy = accuracy
    self.altitude = altitude
    self.speed = speed
    self.source = source
    self.time = time
  }
}

extension Fix: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// When and from what, never where.
  public var description: String { "\(source.rawValue) fix at \(time)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
