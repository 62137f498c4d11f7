import Foundation
import OpportuneApps

/// What a line of gpsd's JSON protocol says, as far as positions go. See gpsd_json(5).
enum GPSDReport: Sendable, Hashable {
  case fix(Fix)
  /// The receiver has none now.
  case noFix
  /// Another class of object: VERSION, DEVICES, SKY and more.
  case other
  /// No object of the protocol, or one whose numbers no receiver can mean.
  case garbage

  /// - Parameters:
  ///   - line: without its end.
  ///   - moment: when it came.
  ///   - deviation: the standard deviation in metres where gpsd says no accuracy.
  init(_ line: some Sequence<UInt8>, at moment: Moment, deviation: Double) {
    guard let object = try? JSONDecoder().decode(Object.self, from: Data(line)) else {
      self = .garbage
      return
    }
    guard object.class == "TPV" else {
      self = .other
      return
    }
    guard (object.mode ?? 0) >= 2, let latitude = object.lat, let longitude = object.lon else {
      self = .noFix
      return
    }
    do throws(LocationError) {
      let altitude = (object.mode ?? 0) >= 3 ? object.altHAE : nil
      self = .fix(
        try Fix(
          Coordinate(latitude: latitude, longitude: longitude),
          accuracy: Accuracy(standardDeviation: min(max(object.deviation ?? deviation, 0.01), 1e7)),
          altitude: altitude.map { metres throws(LocationError) in
            try Fix.Altitude(metres: metres, standardDeviation: min(max((object.epv ?? 0) / 1.96, 1), 1e7))
          },
          speed: object.speed, source: .satellite, time: moment))
    } catch {
      self = .garbage
    }
  }

  /// The fields of TPV that are used.
  private struct Object: Decodable {
    let `class`: String
    let mode: Int?
    let lat: Double?
    let lon: Double?
    let altHAE: Double?
    let speed: Double?
    /// Errors in metres: of longitude, of latitude, of height, each with 95 % as gpsd reckons them, and of
    /// the place.
    let epx: Double?
    let epy: Double?
    let epv: Double?
    let eph: Double?

    /// The worse of both directions.
    var deviation: Double? {
      if let epx, let epy { return max(epx, epy) / 1.96 }
      return eph.flatMap { try? Accuracy.radius($0, confidence: 0.95).standardDeviation }
    }
  }
}
