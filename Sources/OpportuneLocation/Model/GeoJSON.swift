import Foundation
import OpportuneApps
internal import OpportuneBase

/// A region with the name that a file gives it.
public struct NamedRegion: Sendable, Hashable {
  /// As the file calls it.
  public var name: String
  /// The region itself.
  public var region: Region
  /// How long a stay must be to be told, as ``Fence/dwell``; `nil`: none is.
  public var dwell: Duration?

  /// A region with a name.
  public init(_ name: String, _ region: Region, dwell: Duration? = nil) {
    self.name = name
    self.region = region
    self.dwell = dwell
  }
}

/// A file that is not the GeoJSON that is read here. No case holds a location.
public struct GeoJSONError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// Not JSON.
    case syntax
    /// `path` is as `features[3].geometry.coordinates[0]`.
    case value(path: String, expected: String)
    /// A geometry that is no region.
    case region(path: String, LocationError)
  }

  /// What went wrong.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// The same for people: the key, and what was expected.
  public var message: String {
    switch code {
    case .syntax: "GeoJSON: not JSON"
    case .value(let path, let expected): "GeoJSON: '\(path)' is not \(expected)"
    case .region(let path, let error): "GeoJSON: '\(path)': \(error)"
    }
  }

  public var description: String { message }
}

/// Regions from and to GeoJSON (RFC 7946): polygons, multipolygons, and points with the property `radius` in
/// metres as circles. The property `altitude` is a pair of metres, `dwell` the seconds after which a stay is
/// told; a region is called by its property `name`, else its `id`, else by its place in the file. (R-GEO-05)
public enum GeoJSON {
  /// - Parameter progress: told how many features of how many have been read, after each; on the calling
  ///   thread.
  /// - Throws: ``GeoJSONError``.
  public static func regions(
    _ data: Data, progress: (_ read: Int, _ of: Int) -> Void = { _, _ in }
  ) throws(GeoJSONError) -> [NamedRegion] {
    let root: DocumentValue
    do { root = try DocumentValue(json: data) } catch { throw GeoJSONError(.syntax) }
    var result: [NamedRegion] = []
    try read(root, at: "", number: 0, into: &result, progress)
    return result
  }

  /// - Parameter path: made only where it is told, as everywhere here: a file may have a hundred thousand
  ///   features.
  private static func read(
    _ value: DocumentValue, at path: @autoclosure () -> String, number: Int, into result: inout [NamedRegion],
    _ progress: (Int, Int) -> Void
  ) throws(GeoJSONError) {
    func here() -> String { path().isEmpty ? "/" : path() }
    func below(_ key: String) -> String { path().isEmpty ? key : "\(path()).\(key)" }
    let object = try value.object(at: here())
    switch object["type"] {
    case .string("FeatureCollection")?:
      guard case .array(let features)? = object["features"] else {
        throw GeoJSONError(.value(path: below("features"), expected: "an array"))
      }
      for (index, feature) in features.enumerated() {
        try read(feature, at: below("features[\(index)]"), number: index, into: &result) { _, _ in }
        progress(index + 1, features.count)
      }
    case .string("Feature")?:
      var properties: [String: DocumentValue] = [:]
      if case .object(let given)? = object["properties"] { properties = given }
      guard let geometry = object["geometry"] else {
        throw GeoJSONError(.value(path: below("geometry"), expected: "there"))
      }
      let name = properties["name"]?.text ?? object["id"]?.text ?? "\(number)"
      let region = try region(geometry, properties, at: below("geometry"))
      result.append(NamedRegion(name, region, dwell: try dwell(properties["dwell"])))
    default: result.append(NamedRegion("\(number)", try region(value, [:], at: here())))
    }
  }

  private static func dwell(_ value: DocumentValue?) throws(GeoJSONError) -> Duration? {
    guard let value else { return nil }
    guard case .number(let seconds) = value, (1...2_592_000).contains(seconds) else {
      throw GeoJSONError(.value(path: "properties.dwell", expected: "a number of seconds from 1 to 2592000"))
    }
    return Moment.seconds(seconds) - .zero
  }

  private static func region(
    _ value: DocumentValue, _ properties: [String: DocumentValue], at path: @autoclosure () -> String
  ) throws(GeoJSONError) -> Region {
    let geometry = try value.object(at: path())
    let coordinates = geometry["coordinates"] ?? .other
    func here() -> String { "\(path()).coordinates" }
    var altitude: ClosedRange<Double>?
    if let pair = properties["altitude"] {
      guard case .array(let ends) = pair, ends.count == 2, case .number(let low) = ends[0],
        case .number(let high) = ends[1], low <= high
      else {
        throw GeoJSONError(.value(path: "properties.altitude", expected: "two numbers, the lower first"))
      }
      altitude = low...high
    }
    do {
      switch geometry["type"] {
      case .string("Point")?:
        guard case .number(let radius)? = properties["radius"] else {
          throw GeoJSONError(
            .value(path: "properties.radius", expected: "a number of metres, which a point needs"))
        }
        return try Region.circle(place(coordinates, at: here()), radius: radius, altitude: altitude)
      case .string("Polygon")?: return try Region.polygon(rings(coordinates, at: here()), altitude: altitude)
      case .string("MultiPolygon")?:
        var polygons: [[[Coordinate]]] = []
        for (index, polygon) in try coordinates.array(at: here()).enumerated() {
          polygons.append(try rings(polygon, at: "\(here())[\(index)]"))
        }
        return try Region.multipolygon(polygons, altitude: altitude)
      default: throw GeoJSONError(.value(path: "\(path()).type", expected: "Point, Polygon or MultiPolygon"))
      }
    } catch let error as GeoJSONError {
      throw error
    } catch let error as LocationError {
      throw GeoJSONError(.region(path: path(), error))
    } catch {
      throw GeoJSONError(.syntax)
    }
  }

  private static func rings(
    _ value: DocumentValue, at path: @autoclosure () -> String
  ) throws(GeoJSONError) -> [[Coordinate]] {
    var rings: [[Coordinate]] = []
    for (index, ring) in try value.array(at: path()).enumerated() {
      let positions = try ring.array(at: "\(path())[\(index)]")
      var corners: [Coordinate] = []
      corners.reserveCapacity(positions.count)
      for (corner, position) in positions.enumerated() {
        corners.append(try place(position, at: "\(path())[\(index)][\(corner)]"))
      }
      rings.append(corners)
    }
    return rings
  }

  private static func place(
    _ value: DocumentValue, at path: @autoclosure () -> String
  ) throws(GeoJSONError) -> Coordinate {
    guard case .array(let numbers) = value, numbers.count >= 2, case .number(let longitude) = numbers[0],
      case .number(let latitude) = numbers[1]
    else { throw GeoJSONError(.value(path: path(), expected: "a longitude and a latitude")) }
    do { return try Coordinate(latitude: latitude, longitude: longitude) } catch {
      throw GeoJSONError(.region(path: path(), error))
    }
  }

  /// A FeatureCollection of regions, with the properties that ``regions(_:)`` reads. Locations: not for a
  /// log.
  package static func text(_ regions: [NamedRegion]) -> String {
    let features = regions.map { named in
      var properties = ["\"name\":\(quoted(named.name))"]
      let geometry: String
      switch named.region.shape {
      case .circle(let centre, let radius):
        geometry = "{\"type\":\"Point\",\"coordinates\":\(position(centre))}"
        properties.append("\"radius\":\(radius)")
      case .polygons(let shape):
        let polygons = shape.polygons.map { polygon in
          let rings = polygon.map { ring in
            "[\((ring + ring.prefix(1)).map(position).joined(separator: ","))]"
          }
          return "[\(rings.joined(separator: ","))]"
        }
        geometry =
          polygons.count == 1
          ? "{\"type\":\"Polygon\",\"coordinates\":\(polygons[0])}"
          : "{\"type\":\"MultiPolygon\",\"coordinates\":[\(polygons.joined(separator: ","))]}"
      }
      if let altitude = named.region.altitude {
        properties.append("\"altitude\":[\(altitude.lowerBound),\(altitude.upperBound)]")
      }
      if let dwell = named.dwell {
        properties.append("\"dwell\":\(dwell.inSeconds)")
      }
      return
        "{\"type\":\"Feature\",\"properties\":{\(properties.joined(separator: ","))},\"geometry\":\(geometry)}"
    }
    return "{\"type\":\"FeatureCollection\",\"features\":[\n\(features.joined(separator: ",\n"))\n]}\n"
  }

  private static func position(_ place: Coordinate) -> String { "[\(place.longitude),\(place.latitude)]" }

  package static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}

extension DocumentValue {
  fileprivate var text: String? {
    switch self {
    case .string(let text): text
    case .number(let number):
      number == number.rounded() && abs(number) < 1e15 ? "\(Int64(number))" : "\(number)"
    case .boolean, .array, .object, .other: nil
    }
  }

  fileprivate func object(at path: @autoclosure () -> String) throws(GeoJSONError) -> [String: DocumentValue]
  {
    guard case .object(let object) = self else {
      throw GeoJSONError(.value(path: path(), expected: "an object"))
    }
    return object
  }

  fileprivate func array(at path: @autoclosure () -> String) throws(GeoJSONError) -> [DocumentValue] {
    guard case .array(let array) = self else {
      throw GeoJSONError(.value(path: path(), expected: "an array"))
    }
    return array
  }
}
