/// Tells the devices of a table apart.
///
/// A column does it by its name, or where the rows of each of its values can be one device's way and all rows
/// cannot: in the order of time those leap from value to value faster than anything goes, or each value has
/// its own rows of the same time, one block after the other. What is constant tells nothing, nor does a value
/// for each row, nor a quantity.
struct DeviceColumns {
  /// What a row says of where something was when.
  struct Sighting {
    let seconds: Double
    let point: SIMD3<Double>
    /// Metres.
    let deviation: Double
  }

  let names: [String]
  /// Columns that are read as something else.
  let known: Set<Int>
  let rows: [[String]]
  /// Of each row; `nil` where it says no time or place.
  let sightings: [Sighting?]

  /// - Throws: ``LocationTrace/Failure/severalDevices(column:values:)``: of several columns one that is named
  ///   so, then the one with the fewest values, then the first.
  func refuseSeveral() throws(LocationTrace.Failure) {
    let columns = names.indices.filter { !known.contains($0) && names[$0] != "" }
    for column in columns where Self.isNamed(names[column]) {
      let values = Self.values(of: column, rows)
      if values.count > 1 {
        throw LocationTrace.Failure(.severalDevices(column: names[column], values: values))
      }
    }
    // Some files begin with what is newest.
    var inFile = rows.indices.filter { sightings[$0] != nil }
    guard let first = inFile.first, let last = inFile.last else { return }
    if seconds(last) < seconds(first) { inFile.reverse() }
    let inTime = inFile.enumerated().sorted { (seconds($0.1), $0.0) < (seconds($1.1), $1.0) }.map { $0.1 }
    let isInOrder = inFile == inTime
    let limits = Self.limits.filter { limit in
      zip(inTime, inTime.dropFirst()).contains { isFar($0, $1, limit) }
    }
    guard !limits.isEmpty || !isInOrder else { return }
    var fewest: (column: Int, values: [String])?
    for column in columns {
      let (values, ofRow) = numbered(column)
      guard values.count > 1, values.count <= inFile.count / 2, values.count < fewest?.values.count ?? .max,
        !values.contains(where: Self.isQuantity)
      else { continue }
      let tells =
        limits.contains { leapsBetweenValues(inTime.filter { ofRow[$0] >= 0 }, ofRow, $0) }
        || !isInOrder
          && isValueByValue(inFile.filter { ofRow[$0] >= 0 }, inTime.filter { ofRow[$0] >= 0 }, ofRow)
      if tells { fewest = (column, values) }
    }
    if let fewest {
      throw LocationTrace.Failure(.severalDevices(column: names[fewest.column], values: fewest.values))
    }
  }

  // MARK: Names

  /// What a device is, or is called by.
  private static let words: Set<String> = [
    "aircraft", "animal", "asset", "bicycle", "bike", "boat", "bus", "cab", "callsign", "car", "device",
    "drone",
    "icao24",
    "imei", "individual", "individuallocal", "licenceplate", "licenseplate", "locomotive", "lorry", "mmsi",
    "numberplate",
    "phone", "plane", "plate", "registration", "scooter", "ship", "taglocal", "taxi", "tracker", "train",
    "tram",
    "truck", "van",
    "vehicle", "vessel", "vin",
  ]
  private static let endings = ["", "code", "id", "identifier", "name", "no", "nr", "num", "number", "ref"]

  private static func isNamed(_ name: String) -> Bool {
    let word = name.lowercased().filter { $0.isLetter || $0.isNumber }
    return endings.contains { word.hasSuffix($0) && words.contains(String(word.dropLast($0.count))) }
  }

  /// A number that is no whole one. Whole ones beside a gap are written "4716.0" by some programs.
  private static func isQuantity(_ value: String) -> Bool {
    Double(value).map { $0 != $0.rounded() } ?? false
  }

  /// The different values of a column, in their order.
  static func values(of column: Int, _ rows: [[String]]) -> [String] {
    var known: Set<String> = [""]
    return rows.compactMap { row in
      guard row.indices.contains(column), known.insert(row[column]).inserted else { return nil }
      return row[column]
    }
  }

  // MARK: Ways

  /// Metres a second: nothing on the ground goes so fast, and nothing in the air. Aeroplanes are told apart
  /// by the second.
  private static let limits = [100.0, 1000]

  private func seconds(_ row: Int) -> Double { sightings[row]?.seconds ?? 0 }

  /// Whether no device can have gone from one row to the next.
  private func isFar(_ from: Int, _ to: Int, _ limit: Double) -> Bool {
    guard let from = sightings[from], let to = sightings[to] else { return false }
    let doubt = 4 * (from.deviation * from.deviation + to.deviation * to.deviation).squareRoot()
    return (to.point - from.point).length > limit * (to.seconds - from.seconds) + doubt
  }

  /// The values of a column, and which of them each row has; -1 where that is empty.
  private func numbered(_ column: Int) -> (values: [String], ofRow: [Int]) {
    var numbers: [String: Int] = [:]
    var values: [String] = []
    var ofRow = [Int](repeating: -1, count: rows.count)
    for row in rows.indices where rows[row].indices.contains(column) && rows[row][column] != "" {
      let value = rows[row][column]
      if numbers[value] == nil {
        numbers[value] = values.count
        values.append(value)
      }
      ofRow[row] = numbers[value] ?? -1
    }
    return (values, ofRow)
  }

  /// Whether a tenth of the steps from value to value go where no device can, there and back, and of those of
  /// each value by itself no more than a tenth as many: that allows for outliers. A value of a single row has
  /// no way.
  private func leapsBetweenValues(_ inTime: [Int], _ ofRow: [Int], _ limit: Double) -> Bool {
    var (between, within) = ((steps: 0, far: 0), (steps: 0, far: 0))
    var lastOfValue: [Int: Int] = [:]
    var ways: Set<Int> = []
    for (place, row) in inTime.enumerated() {
      if place > 0, ofRow[inTime[place - 1]] != ofRow[row] {
        between.steps += 1
        if isFar(inTime[place - 1], row, limit) { between.far += 1 }
      }
      if let before = lastOfValue.updateValue(row, forKey: ofRow[row]) {
        ways.insert(ofRow[row])
        within.steps += 1
        if isFar(before, row, limit) { within.far += 1 }
      }
    }
    return ways.count > 1 && between.far > 1 && 10 * between.far >= between.steps
      && 10 * within.far * between.steps <= between.far * within.steps
  }

  /// Whether the rows of each value are in the order of time, and by time values take turns much oftener than
  /// in the file.
  private func isValueByValue(_ inFile: [Int], _ inTime: [Int], _ ofRow: [Int]) -> Bool {
    var lastOfValue: [Int: Int] = [:]
    for row in inFile {
      if let before = lastOfValue.updateValue(row, forKey: ofRow[row]), seconds(before) > seconds(row) {
        return false
      }
    }
    func turns(_ order: [Int]) -> Int { zip(order, order.dropFirst()).count { ofRow[$0] != ofRow[$1] } }
    return turns(inTime) >= 3 * turns(inFile)
  }
}
