import Foundation
import OpportuneLocation

/// Tables with a header: `latitude`, `longitude`, `timestamp` or `time`, and where they are there `accuracy`
/// (metres that hold 68 %), `altitude`, `speed` (m/s, or km/h where the column says so or is `Speed` beside
/// `RAWCELLID`), and `rawcellid` or `cellid`. Rows of one device (``DeviceColumns``), or of the one that is
/// asked for.
enum CSVReader {
  static func read(
    _ text: String, of device: LocationTrace.Device?, into builder: inout TraceBuilder
  ) throws(LocationTrace.Failure) {
    var lines = text.split(whereSeparator: \.isNewline)
    guard let header = lines.first else { throw LocationTrace.Failure(.missingColumn("latitude")) }
    lines.removeFirst()
    var columns: [String: Int] = [:]
    let names = split(header)
    for (index, name) in names.enumerated() { columns[name.lowercased()] = index }
    func column(_ names: String...) -> Int? { names.lazy.compactMap { columns[$0] }.first }
    guard let latitude = column("latitude", "lat") else {
      throw LocationTrace.Failure(.missingColumn("latitude"))
    }
    guard let longitude = column("longitude", "lon") else {
      throw LocationTrace.Failure(.missingColumn("longitude"))
    }
    guard let time = column("timestamp", "time", "ts") else {
      throw LocationTrace.Failure(.missingColumn("timestamp"))
    }
    let (accuracy, altitude) = (column("accuracy"), column("altitude"))
    let (speed, cell) = (column("speed", "speed_kmh"), column("rawcellid", "cellid"))
    let inKilometres = columns["speed_kmh"] != nil || columns["rawcellid"] != nil
    let rows = try rows(lines.map(split), of: device, columns)
    let times = rows.map { $0.indices.contains(time) ? TraceTime.seconds($0[time]) : nil }
    func number(_ fields: [String], _ index: Int?) -> Double? {
      index.flatMap { fields.indices.contains($0) ? Double(fields[$0]) : nil }
    }
    func deviation(_ fields: [String]) -> Double? {
      number(fields, accuracy).flatMap { try? Accuracy.radius($0).standardDeviation }
    }
    if device?.value != LocationTrace.Device.anyValue {
      let sightings = zip(rows, times).map { fields, seconds -> DeviceColumns.Sighting? in
        guard let seconds, let latitude = number(fields, latitude), let longitude = number(fields, longitude),
          let place = try? Coordinate(latitude: latitude, longitude: longitude)
        else { return nil }
        return DeviceColumns.Sighting(
          seconds: seconds, point: Point3(place).vector, deviation: deviation(fields) ?? builder.deviation)
      }
      let known = Set([latitude, longitude, time, accuracy, altitude, speed, cell].compactMap { $0 })
      try DeviceColumns(names: names, known: known, rows: rows, sightings: sightings).refuseSeveral()
    }
    for (fields, seconds) in zip(rows, times) {
      if let value = number(fields, cell), value >= 0, value < 1e15 {
        builder.add(cell: UInt64(value), seconds: seconds)
      }
      builder.add(
        seconds: seconds, latitude: number(fields, latitude), longitude: number(fields, longitude),
        deviation: deviation(fields), altitude: number(fields, altitude),
        speed: number(fields, speed).map { inKilometres ? $0 / 3.6 : $0 })
    }
  }

  // MARK: Devices

  private static func rows(
    _ rows: [[String]], of device: LocationTrace.Device?, _ columns: [String: Int]
  ) throws(LocationTrace.Failure) -> [[String]] {
    guard let device else { return rows }
    guard let column = columns[device.column.lowercased()] else {
      throw LocationTrace.Failure(.missingColumn(device.column))
    }
    if device.value == LocationTrace.Device.anyValue { return rows }
    let chosen = rows.filter { $0.indices.contains(column) && $0[column] == device.value }
    guard !chosen.isEmpty else {
      throw LocationTrace.Failure(.noDevice(device, values: DeviceColumns.values(of: column, rows)))
    }
    return chosen
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
