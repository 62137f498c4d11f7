import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

/// Reads the recorded data beside the project.
enum TestData {
  static let folder = RecordedData.folder

  static func has(_ name: String) -> Bool { RecordedData.has(name) }

  static func text(_ name: String) throws -> String {
    try String(contentsOf: folder.appending(path: name), encoding: .utf8)
  }

  static func json(_ name: String) throws -> Any {
    try JSONSerialization.jsonObject(with: Data(contentsOf: folder.appending(path: name)))
  }

  static func gunzipped(_ name: String) throws -> Data { try RecordedData.gunzipped(name) }

  static let absent: Comment = "the recorded data is not beside the project"
}

func place(_ latitude: Double, _ longitude: Double) throws -> Coordinate {
  try Coordinate(latitude: latitude, longitude: longitude)
}

func ring(_ corners: [(Double, Double)]) throws -> [Coordinate] {
  try corners.map { try Coordinate(latitude: $0.1, longitude: $0.0) }
}

/// A box of corners, west to east, south to north.
func box(_ west: Double, _ south: Double, _ east: Double, _ north: Double) throws -> [Coordinate] {
  try ring([(west, south), (east, south), (east, north), (west, north)])
}

func fix(
  _ place: Coordinate, deviation: Double = 5, at seconds: Double, altitude: Fix.Altitude? = nil,
  speed: Double? = nil,
  source: SourceKind = .satellite
) throws -> Fix {
  try Fix(
    place, accuracy: Accuracy(standardDeviation: deviation), altitude: altitude, speed: speed, source: source,
    time: .seconds(seconds))
}

/// East and north in metres from a place.
func moved(_ start: Coordinate, east: Double, north: Double) -> Coordinate {
  let metres = (east * east + north * north).squareRoot()
  return Ellipsoid.place(from: start, azimuth: atan2(east, north).degrees, metres: metres)
}

struct NormalErrors {
  var generator: SplitMix64

  init(seed: UInt64) { generator = SplitMix64(seed: seed) }

  /// Two independent standard normal numbers.
  mutating func pair() -> (Double, Double) {
    let u = Double.random(in: Double.leastNonzeroMagnitude..<1, using: &generator)
    let angle = Double.random(in: 0..<2 * .pi, using: &generator)
    let radius = (-2 * log(u)).squareRoot()
    return (radius * cos(angle), radius * sin(angle))
  }
}
