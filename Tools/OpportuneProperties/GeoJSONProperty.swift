import Foundation
import OpportuneBase
import OpportuneFuzz
import OpportuneLocation

/// Regions that are written and read, and damaged files of them.
struct GeoJSONProperty: DocumentProperty {
  let name = "geojson"
  let summary =
    "Regions that are written as GeoJSON are read as they were, whatever their names; whatever is read can be written "
    + "and read again; an error tells no place; nothing traps."
  var read: @Sendable (Data) throws -> [NamedRegion] = { try GeoJSON.regions($0) }

  static let words = [
    "{\"type\":\"Feature\",\"properties\":null,\"geometry\":", "\"MultiPolygon\"", "\"Polygon\"", "\"Point\"",
    "[", "]",
    "{",
    "}", "null", "[[[", ",", "\"radius\":", "\"altitude\":[0,1]", "\"dwell\":", "[0,0],[0,1],[1,0]",
    "\"id\":1e300",
    "\"name\":9223372036854775807",
  ]
  private static let names = ["a", "", "a \"b\"\\\n", "é\u{1F600}", "\u{2028}/", "1"]

  static let bytesMade = 4...80

  static let fixtures: [[UInt8]] = (0..<12).map { seed in
    var generator = SplitMix64(seed: UInt64(seed))
    var bytes = ByteSource(generator.bytes(60))
    return Array(GeoJSON.text(regions(&bytes)).utf8)
  }

  func check(document: Data) throws(Violation) {
    if let regions = try regions(of: document) { try writeAndRead(regions) }
  }

  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let regions = Self.regions(&bytes)
    log.note("read: \(GeoJSON.text(regions))")
    try writeAndRead(regions)
  }

  private func writeAndRead(_ regions: [NamedRegion]) throws(Violation) {
    guard let again = try self.regions(of: Data(GeoJSON.text(regions).utf8)) else {
      throw Violation("what was written is refused")
    }
    guard again == regions else {
      throw Violation("\(again.count) regions come back, other than were written")
    }
  }

  private func regions(of data: Data) throws(Violation) -> [NamedRegion]? {
    do { return try read(data) } catch {
      guard error is GeoJSONError else { throw Violation("the error is no GeoJSONError: \(error)") }
      return nil
    }
  }

  /// Circles, boxes with and without a hole, pairs of boxes.
  private static func regions(_ bytes: inout ByteSource) -> [NamedRegion] {
    (0..<bytes.below(6)).compactMap { _ in
      let name = bytes.choice(names)
      let (west, south) = (Double(bytes.below(65_536)) / 200 - 170, Double(bytes.below(65_536)) / 410 - 80)
      let (width, height) = (0.001 + Double(bytes.byte()) / 60, 0.001 + Double(bytes.byte()) / 60)
      let altitude: ClosedRange<Double>? =
        bytes.below(3) == 0 ? -Double(bytes.byte())...Double(bytes.byte()) / 3 : nil
      let region: Region?
      switch bytes.below(4) {
      case 0:
        region = (try? Coordinate(latitude: south, longitude: west)).flatMap {
          try? Region.circle($0, radius: 1 + Double(bytes.below(65_536)) / 7, altitude: altitude)
        }
      case 1: region = try? .polygon([box(west, south, width, height)], altitude: altitude)
      case 2:
        let hole = box(west + width / 4, south + height / 4, width / 3, height / 3)
        region = try? .polygon([box(west, south, width, height), hole], altitude: altitude)
      default:
        let other = box(west + 2 * width, south, width / 2, height)
        region = try? .multipolygon([[box(west, south, width, height)], [other]], altitude: altitude)
      }
      let dwell: Duration? = bytes.below(4) == 0 ? .milliseconds(1000 + 7 * bytes.below(65_536)) : nil
      return region.map { NamedRegion(name, $0, dwell: dwell) }
    }
  }

  private static func box(_ west: Double, _ south: Double, _ width: Double, _ height: Double) -> [Coordinate]
  {
    [(0.0, 0.0), (1, 0), (1, 1), (0, 1)].compactMap { across, up in
      try? Coordinate(latitude: south + up * height, longitude: west + across * width)
    }
  }
}
