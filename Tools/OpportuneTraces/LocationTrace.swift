import Foundation
import OpportuneApps
import OpportuneLocation

/// A recorded way: fixes, and cells where the recording has them.
package struct LocationTrace: Sendable {
  /// In the order of their times, from moment zero on.
  package let fixes: [Fix]
  /// When the serving cell was another than before.
  package let cells: [Cell]
  /// Seconds since 1970 at moment zero.
  package let start: Double
  /// Lines or points that hold no usable fix, by reason.
  package let skipped: [String: Int]

  package struct Cell: Sendable, Hashable {
    package let time: Moment
    package let number: UInt64
  }

  /// One of several devices that a table holds: the rows that have a value in a column.
  package struct Device: Sendable, Hashable {
    /// As the header has it; capitals do not matter.
    package var column: String
    /// ``anyValue``: all rows are of one device, whatever the columns look like.
    package var value: String

    /// As a value: all devices are one.
    package static let anyValue = "*"

    /// The device whose rows have this value in this column.
    package init(column: String, value: String) {
      self.column = column
      self.value = value
    }
  }

  package enum Format: String, Sendable, Hashable, CaseIterable { case gpx, nmea, csv }

  /// Why a text is no trace.
  package struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
    /// What went wrong.
    package enum Code: Sendable, Hashable {
      /// Neither GPX nor NMEA 0183 nor CSV with a header.
      case unknownFormat
      /// A column that a CSV file must have.
      case missingColumn(String)
      /// Nothing in it is a usable fix; so much was left out.
      case noFixes(skipped: Int)
      /// Rows of more than one device, told apart by a column: by its name, or because the rows of each value
      /// can be a device's way and all rows cannot. The values are in the order of the file.
      case severalDevices(column: String, values: [String])
      /// No row has the value that was asked for.
      case noDevice(LocationTrace.Device, values: [String])
      /// A device was asked for of a format that does not tell them apart.
      case noTable
    }

    /// What went wrong.
    package let code: Code

    package init(_ code: Code) { self.code = code }

    /// The same for people: what was found, and what to do.
    package var message: String {
      switch code {
      case .unknownFormat: "the trace is neither GPX nor NMEA 0183 nor CSV with a header"
      case .missingColumn(let name): "the trace has no column '\(name)'"
      case .noFixes(let skipped): "the trace holds no fix; lines or points left out: \(skipped)"
      case .severalDevices(let column, let values):
        "the trace holds \(values.count) devices, told apart by its column '\(column)': \(Self.list(values)) "
          + "(a column tells devices apart by its name, or where the rows of each value can be one device's way and all cannot)"
      case .noDevice(let device, let values):
        "the trace has no row with \(GeoJSON.quoted(device.value)) in its column '\(device.column)', which has "
          + Self.list(values)
      case .noTable: "a device can be chosen by a column of a CSV trace only"
      }
    }

    private static func list(_ values: [String]) -> String {
      let first = values.prefix(12).map(GeoJSON.quoted).joined(separator: ", ")
      return first.isEmpty ? "no value" : values.count > 12 ? "\(first) and \(values.count - 12) more" : first
    }

    package var description: String { message }
  }

  /// - Parameters:
  ///   - deviation: metres, for fixes of which the trace says no accuracy: 0.1 to 10,000.
  ///   - device: which of the devices of a table; one that seems to hold several is refused without.
  /// - Throws: ``Failure``.
  package static func read(
    _ data: Data, deviation: Double = 5, device: Device? = nil
  ) throws(Failure) -> LocationTrace {
    // Some programs begin a text with a mark of its encoding.
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    let text = String(decoding: data.starts(with: mark) ? data.dropFirst(3) : data, as: UTF8.self)
    guard let format = format(of: text) else { throw Failure(.unknownFormat) }
    guard device == nil || format == .csv else { throw Failure(.noTable) }
    var builder = TraceBuilder(deviation: min(10_000, max(0.1, deviation)))
    switch format {
    case .gpx: GPXReader.read(text, into: &builder)
    case .nmea: NMEAReader.read(text, into: &builder)
    case .csv: try CSVReader.read(text, of: device, into: &builder)
    }
    return try builder.finish()
  }

  /// What a text looks like by its beginning.
  package static func format(of text: String) -> Format? {
    let beginning = text.prefix(4000)
    if beginning.contains("<gpx") { return .gpx }
    let lines = beginning.split(whereSeparator: \.isNewline)
    if lines.prefix(20).contains(where: { $0.hasPrefix("$G") }) { return .nmea }
    if let header = lines.first?.lowercased(), header.contains("latitude") || header.contains("lat,") {
      return .csv
    }
    return nil
  }
}

/// Collects points and makes fixes of them.
struct TraceBuilder {
  var deviation: Double
  private var fixes:
    [(
      seconds: Double, latitude: Double, longitude: Double, deviation: Double, altitude: Double?,
      speed: Double?
    )] = []
  private var cells: [(seconds: Double, number: UInt64)] = []
  private var skipped: [String: Int] = [:]

  init(deviation: Double) { self.deviation = deviation }

  mutating func skip(_ reason: String) { skipped[reason, default: 0] += 1 }

  mutating func add(
    seconds: Double?, latitude: Double?, longitude: Double?, deviation: Double? = nil,
    altitude: Double? = nil,
    speed: Double? = nil
  ) {
    guard let seconds, seconds.isFinite, abs(seconds) < 1e11 else { return skip("no time") }
    guard let latitude, let longitude else { return skip("no position") }
    fixes.append((seconds, latitude, longitude, deviation ?? self.deviation, altitude, speed))
  }

  mutating func add(cell: UInt64, seconds: Double?) {
    if let seconds, cells.last?.number != cell { cells.append((seconds, cell)) }
  }

  mutating func finish() throws(LocationTrace.Failure) -> LocationTrace {
    fixes.sort { $0.seconds < $1.seconds }
    var first: Double?
    var result: [Fix] = []
    for fix in fixes {
      let time = Moment.seconds(fix.seconds - (first ?? fix.seconds))
      if let last = result.last, last.time >= time {
        skip("same time")
        continue
      }
      do {
        let height = try fix.altitude.map { altitude throws(LocationError) in
          try Fix.Altitude(metres: altitude, standardDeviation: 2 * fix.deviation)
        }
        let speed = fix.speed.flatMap { (0...1e5).contains($0) ? $0 : nil }
        result.append(
          try Fix(
            Coordinate(latitude: fix.latitude, longitude: fix.longitude),
            accuracy: Accuracy(standardDeviation: fix.deviation), altitude: height, speed: speed, time: time))
        first = first ?? fix.seconds
      } catch {
        skip("out of range")
      }
    }
    guard let start = first else {
      throw LocationTrace.Failure(.noFixes(skipped: skipped.values.reduce(0, +)))
    }
    let changes = cells.filter { $0.seconds >= start }.sorted { $0.seconds < $1.seconds }
      .map { LocationTrace.Cell(time: .seconds($0.seconds - start), number: $0.number) }
    return LocationTrace(fixes: result, cells: changes, start: start, skipped: skipped)
  }
}

/// Times of traces, as seconds since 1970.
enum TraceTime {
  /// Days since 1970 of a date of the Gregorian calendar, for years from 1 on.
  static func days(_ year: Int, _ month: Int, _ day: Int) -> Int? {
    guard (1...9999).contains(year), (1...12).contains(month), (1...31).contains(day) else { return nil }
    let shifted = month > 2 ? year : year - 1
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  /// `2020-02-07T02:14:00.5Z`, the same with a blank or an offset, `2019.11.20_16.55.16`, or a number:
  /// seconds, or milliseconds where it is too large for those. Without an offset it is UTC.
  static func seconds(_ text: some StringProtocol) -> Double? {
    if let number = Double(text) {
      return number.isFinite && number > 0 ? (number > 1e11 ? number / 1000 : number) : nil
    }
    var numbers: [Int] = []
    var fraction = 0.0
    var current: Int?
    var fractionScale: Double?
    var offset = 0
    var rest = Substring(text)
    if rest.last == "Z" || rest.last == "z" { rest = rest.dropLast() }
    if rest.count > 19, let sign = rest.lastIndex(where: { $0 == "+" || $0 == "-" }),
      rest.distance(from: rest.startIndex, to: sign) >= 19
    {
      let parts = rest[rest.index(after: sign)...].split(separator: ":").compactMap { Int($0) }
      guard parts.count == 2, parts.allSatisfy({ (0...59).contains($0) }) else { return nil }
      offset = (parts[0] * 3600 + parts[1] * 60) * (rest[sign] == "-" ? -1 : 1)
      rest = rest[..<sign]
    }
    for character in rest {
      if let digit = character.wholeNumberValue, character.isASCII {
        if let scale = fractionScale {
          fraction += Double(digit) * scale
          fractionScale = scale / 10
        } else {
          current = (current ?? 0) * 10 + digit
          guard let value = current, value < 100_000 else { return nil }
        }
      } else if "-:.T_ ".contains(character), fractionScale == nil {
        if let value = current { numbers.append(value) }
        current = nil
        if numbers.count == 6 { fractionScale = 0.1 }
      } else {
        return nil
      }
    }
    if let value = current { numbers.append(value) }
    guard numbers.count == 6, let days = days(numbers[0], numbers[1], numbers[2]), numbers[3] < 24,
      numbers[4] < 60,
      numbers[5] <= 60
    else { return nil }
    return Double(days * 86_400 + numbers[3] * 3600 + numbers[4] * 60 + numbers[5] - offset) + fraction
  }
}
