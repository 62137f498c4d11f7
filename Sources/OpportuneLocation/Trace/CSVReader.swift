import Foundation

/// Tables with a header: `latitude`, `longitude`, `timestamp` or `time`, and where they are there `accuracy` (metres
/// that hold 68 %), `altitude`, `speed` (m/s, or km/h where the column says so or is `Speed` beside `RAWCELLID`), and
/// `rawcellid` or `cellid`. Rows of one device, or of the one that is asked for.
enum CSVReader {
  static func read(
    _ text: String, of device: LocationTrace.Device?, into builder: inout TraceBuilder
  ) throws(LocationTrace.Failure) {
    var lines = text.split(whereSeparator: \.isNewline)
    guard let header = lines.first else { throw LocationTrace.Failure.missingColumn("latitude") }
    lines.removeFirst()
    var columns: [String: Int] = [:]
    let names = split(header)
    for (index, name) in names.enumerated() { columns[name.lowercased()] = index }
    func column(_ names: String...) -> Int? { names.lazy.compactMap { columns[$0] }.first }
    guard let latitude = column("latitude", "lat") else { throw LocationTrace.Failure.missingColumn("latitude") }
    guard let longitude = column("longitude", "lon") else { throw LocationTrace.Failure.missingColumn("longitude") }
    guard let time = column("timestamp", "time", "ts") else { throw LocationTrace.Failure.missingColumn("timestamp") }
    let (accuracy, altitude) = (column("accuracy"), column("altitude"))
    let (speed, cell) = (column("speed", "speed_kmh"), column("rawcellid", "cellid"))
    let inKilometres = columns["speed_kmh"] != nil || columns["rawcellid"] != nil
    let rows = try rows(lines.map(split), of: device, columns)
    try refuseSeveralDevices(rows, names, time: time)
    for fields in rows {
      func number(_ index: Int?) -> Double? { index.flatMap { fields.indices.contains($0) ? Double(fields[$0]) : nil } }
      let seconds = fields.indices.contains(time) ? TraceTime.seconds(fields[time]) : nil
      if let value = number(cell), value >= 0, value < 1e15 { builder.add(cell: UInt64(value), seconds: seconds) }
      let deviation = number(accuracy).flatMap { try? Accuracy.radius($0).standardDeviation }
      builder.add(
        seconds: seconds, latitude: number(latitude), longitude: number(longitude), deviation: deviation,
        altitude: number(altitude), speed: number(speed).map { inKilometres ? $0 / 3.6 : $0 })
    }
  }

  // MARK: Devices

  private static func rows(
    _ rows: [[String]], of device: LocationTrace.Device?, _ columns: [String: Int]
  ) throws(LocationTrace.Failure) -> [[String]] {
    guard let device else { return rows }
    guard let column = columns[device.column.lowercased()] else {
      throw LocationTrace.Failure.missingColumn(device.column)
    }
    let chosen = rows.filter { $0.indices.contains(column) && $0[column] == device.value }
    guard !chosen.isEmpty else { throw LocationTrace.Failure.noDevice(device, values: values(of: column, rows)) }
    return chosen
  }

  /// Columns that name a device, by their words without the ending "id"; of several the first says it.
  private static let devices = [
    "device", "devicename", "tracker", "phone", "imei", "vehicle", "vehicleref", "vehiclenumber", "bus", "car", "taxi",
    "truck", "bike", "vessel", "ship", "mmsi", "aircraft", "icao24", "callsign", "taglocalidentifier",
    "individuallocalidentifier", "individual", "animal", "entity", "asset", "unit", "user", "person", "driver",
  ]
  /// Columns that name a way, or anything at all. A device has one way after the other, and each row may have a number of
  /// its own: only those that are of the same time tell of several.
  private static let ways = ["trip", "track", "trk", "trajectory", "traj", "journey", "run", "", "u", "uu"]

  private static func refuseSeveralDevices(
    _ rows: [[String]], _ names: [String], time: Int
  ) throws(LocationTrace.Failure) {
    let words = names.map { name in
      let word = name.lowercased().filter { $0.isLetter || $0.isNumber }
      return word.hasSuffix("id") ? String(word.dropLast(2)) : word
    }
    for word in devices + ways {
      guard let column = words.firstIndex(of: word), names[column] != "" else { continue }
      let values = values(of: column, rows)
      let isDevice = devices.contains(word)
      if values.count > 1, isDevice || overlap(column, rows, time: time) {
        throw LocationTrace.Failure.severalDevices(column: names[column], values: values)
      }
      if isDevice, values.count == 1 { return }
    }
  }

  /// The different values of a column, in their order.
  private static func values(of column: Int, _ rows: [[String]]) -> [String] {
    var known: Set<String> = [""]
    return rows.compactMap { row in
      guard row.indices.contains(column), known.insert(row[column]).inserted else { return nil }
      return row[column]
    }
  }

  /// Whether rows with different values in a column are of the same time.
  private static func overlap(_ column: Int, _ rows: [[String]], time: Int) -> Bool {
    var spans: [String: ClosedRange<Double>] = [:]
    for row in rows where row.indices.contains(column) && row.indices.contains(time) && row[column] != "" {
      guard let seconds = TraceTime.seconds(row[time]) else { continue }
      let span = spans[row[column]] ?? seconds...seconds
      spans[row[column]] = min(span.lowerBound, seconds)...max(span.upperBound, seconds)
    }
    let sorted = spans.values.sorted { $0.lowerBound < $1.lowerBound }
    return zip(sorted, sorted.dropFirst()).contains { $0.upperBound > $1.lowerBound }
  }

  /// Fields may stand in quotes and hold commas there.
  private static func split(_ line: Substring) -> [String] {
    var fields: [String] = []
    var current = ""
    var quoted = false
    for character in line {
      if character == "\"" {
        quoted.toggle()
      } else if character == ",", !quoted {
        fields.append(current.trimmingCharacters(in: .whitespaces))
        current = ""
      } else {
        current.append(character)
      }
    }
    fields.append(current.trimmingCharacters(in: .whitespaces))
    return fields
  }
}
