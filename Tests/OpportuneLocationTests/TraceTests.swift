import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation
@testable import OpportuneTraces

@Suite(.bounded) struct TraceTests {
  private let nmea = """
    $GNRMC,021500.00,A,3723.71721,N,12205.16230,W,19.438,,070220,,,A*79
    $GNGGA,021500.00,3723.71721,N,12205.16230,W,1,12,0.80,10.0,M,-30.0,M,,*4B
    $GNGGA,021501.00,3723.71800,N,12205.16230,W,1,12,0.80,10.0,M,-30.0,M,,*00
    $GNGGA,021502.00,,,,,0,00,99.99,,,,,,*72
    """

  private func sentence(_ body: String) -> String {
    let sum = String(body.utf8.reduce(UInt8(0), ^), radix: 16, uppercase: true)
    return "$\(body)*\(sum.count == 1 ? "0" : "")\(sum)"
  }

  private func sentences() -> [String] {
    nmea.split(separator: "\n").map { sentence(String($0.dropFirst().prefix { $0 != "*" })) }
  }

  @Test func sentencesBecomeFixes() throws {
    let lines = sentences()
    // The third has a checksum that is not its own.
    let wrong = lines[2].dropLast(2) + (lines[2].hasSuffix("00") ? "01" : "00")
    let trace = try LocationTrace.read(Data((lines + [String(wrong)]).joined(separator: "\r\n").utf8))
    #expect(trace.fixes.count == 2 && trace.skipped == ["no fix": 1, "wrong checksum": 1])
    let fix = trace.fixes[0]
    #expect(abs(fix.position.latitude - (37 + 23.71721 / 60)) < 1e-9)
    #expect(abs(fix.position.longitude + (122 + 5.1623 / 60)) < 1e-9)
    #expect(fix.accuracy.standardDeviation == 4 && fix.altitude?.metres == -20)
    #expect(abs(try #require(fix.speed) - 10) < 0.001)
    #expect(trace.start == 1_581_041_700 && trace.fixes[1].time == .seconds(1))
    // A receiver may say the date after the first position.
    let late = try LocationTrace.read(Data([lines[1], lines[0], lines[2]].joined(separator: "\n").utf8))
    #expect(late.start == trace.start && late.fixes.map(\.time) == [.zero, .seconds(1)])
  }

  @Test func sentencesNeedNoOthers() throws {
    // Positions without a date go on over midnight.
    let night = [235_958, 235_959, 0, 1].map { time in
      sentence(
        "GPGGA,\(String(repeating: "0", count: 6 - "\(time)".count))\(time),4807.\(time % 10),N,01131.0,E,1,08,0.9,,,,,,"
      )
    }
    let trace = try LocationTrace.read(Data(night.joined(separator: "\n").utf8))
    #expect(trace.fixes.map(\.time) == (0..<4).map { .seconds(Double($0)) })
    #expect(trace.fixes.map { ($0.position.latitude * 600).rounded() } == [28_878, 28_879, 28_870, 28_871])
    // Where nothing says how good positions are, those of the other sentence are taken.
    let bare = ["235959", "000000", "000001"].enumerated().map { day, time in
      let letter = day == 2 ? "V" : "A"
      return sentence("GPRMC,\(time),\(letter),4807.0,N,01131.0,E,19.438,,\(day == 0 ? "28" : "29")0220,,,A")
    }
    let way = try LocationTrace.read(Data(bare.joined(separator: "\n").utf8), deviation: 7)
    #expect(way.fixes.map(\.time) == [.zero, .seconds(1)] && way.skipped == ["no fix": 1])
    #expect(way.fixes[0].accuracy.standardDeviation == 7)
    #expect(abs(try #require(way.fixes[0].speed) - 10) < 0.001)
    #expect(abs(way.fixes[0].position.longitude - (11 + 31.0 / 60)) < 1e-9)
  }

  @Test func tablesBecomeFixes() throws {
    let cells = """
      Timestamp,Longitude,Latitude,Speed,RAWCELLID
      2019.11.20_16.55.16,-8.49,51.89,36,17
      2019.11.20_16.55.17,-8.49,51.891,36,17
      2019.11.20_16.55.17,-8.49,51.891,36,17
      2019.11.20_16.55.18,-8.49,51.892,-,18
      2019.11.20_16.55.19,-8.49,91,-,18
      """
    let trace = try LocationTrace.read(Data(cells.utf8), deviation: 7)
    #expect(trace.fixes.count == 3 && trace.skipped == ["same time": 1, "out of range": 1])
    #expect(trace.fixes[0].speed == 10 && trace.fixes[2].speed == nil)
    #expect(trace.fixes[0].accuracy.standardDeviation == 7)
    #expect(trace.cells == [.init(time: .zero, number: 17), .init(time: .seconds(2), number: 18)])
    let phone = "time,\"latitude\",longitude,accuracy,speed\n1581041700,1,2,200,3\n1581041701500,1,2,200,3\n"
    let other = try LocationTrace.read(Data(phone.utf8))
    #expect(other.fixes.map(\.time) == [.zero, .seconds(1.5)] && other.fixes[0].speed == 3)
    #expect(abs(other.fixes[0].accuracy.radius(confidence: 0.68) - 200) < 1e-6)
    #expect(throws: LocationTrace.Failure(.missingColumn("timestamp"))) {
      try LocationTrace.read(Data("latitude,longitude\n1,2\n".utf8))
    }
    let marked = try LocationTrace.read(Data("\u{FEFF}latitude,longitude,time\n1,2,3\n".utf8))
    #expect(marked.fixes.count == 1)
    #expect(throws: LocationTrace.Failure(.unknownFormat)) { try LocationTrace.read(Data("hello".utf8)) }
    #expect(throws: LocationTrace.Failure(.noFixes(skipped: 0))) {
      try LocationTrace.read(Data("latitude,longitude,time\n".utf8))
    }
  }

  @Test func aTableOfSeveralDevicesIsRefusedUnlessOneIsChosen() throws {
    func read(_ table: String, _ device: (String, String)? = nil) throws -> LocationTrace {
      try LocationTrace.read(Data(table.utf8), device: device.map { .init(column: $0.0, value: $0.1) })
    }
    let table = """
      id,Vehicle ID,driver,trip_id,time,lat,lon
      1,"a, 1",x,7,100,1,10
      2,b,x,8,100,2,20
      3,"a, 1",y,7,200,1.1,10
      4,b,y,9,300,2,20.1
      """
    #expect(throws: LocationTrace.Failure(.severalDevices(column: "Vehicle ID", values: ["a, 1", "b"]))) {
      try read(table)
    }
    let one = try read(table, ("vehicle id", "a, 1"))
    #expect(one.fixes.map(\.position) == [try place(1, 10), try place(1.1, 10)] && one.skipped.isEmpty)
    // A vehicle has several drivers and trips, a driver may have several vehicles.
    #expect(try read(table, ("Vehicle ID", "b")).fixes.map(\.time) == [.zero, .seconds(200)])
    #expect(try read(table, ("trip_id", "9")).fixes.count == 1)
    #expect(throws: LocationTrace.Failure(.severalDevices(column: "Vehicle ID", values: ["a, 1", "b"]))) {
      try read(table, ("driver", "y"))
    }
    let unknown = #expect(throws: LocationTrace.Failure.self) { try read(table, ("Vehicle ID", "c")) }
    #expect(
      "\(try #require(unknown))"
        == #"the trace has no row with "c" in its column 'Vehicle ID', which has "a, 1", "b""#)
    #expect(throws: LocationTrace.Failure(.missingColumn("bus"))) { try read(table, ("bus", "c")) }
    #expect(throws: LocationTrace.Failure(.noTable)) {
      try read(sentences().joined(separator: "\n"), ("Vehicle ID", "b"))
    }
  }

  /// What stands in a column, and where one was when: seconds, and metres to the north.
  private typealias Row = (value: String, seconds: Int, north: Double)

  private func table(_ count: Int, _ row: (Int) -> Row) -> [Row] { (0..<count).map(row) }

  private func rows(_ column: String, _ rows: [Row]) throws -> LocationTrace {
    let lines = rows.map { "\($0.value),\(1_581_041_700 + $0.seconds),\(50 + $0.north / 111_200),8\n" }
    return try LocationTrace.read(Data("\(column),time,lat,lon\n\(lines.joined())".utf8))
  }

  private func expectSeveral(
    _ column: String, _ values: [String], _ table: [Row],
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(
      throws: LocationTrace.Failure(.severalDevices(column: column, values: values)), "\(column)",
      sourceLocation: sourceLocation
    ) { try rows(column, table) }
  }

  @Test func columnsThatAreNamedForDevicesTellThemApart() throws {
    for column in [
      "imei", "plate", "VehicleNo", "vehicle_no", "bus_no", "Registration", "registration number", "MMSI",
      "callsign",
      "BusRef",
      "device-identifier", "individual-local-identifier",
    ] {
      expectSeveral(column, ["a", "b"], [("a", 100, 0), ("b", 200, 0)])
      #expect(try rows(column, [("a", 100, 0), ("", 200, 0), ("a", 300, 0)]).fixes.count == 3, "\(column)")
    }
  }

  /// Whatever it is called: two cars that drive about, 5 km apart, seen in turns.
  @Test(arguments: ["trip", "driver", "x", "unit", "Fahrzeug", "hex", "operator", ""])
  func waysThatLeapFromValueToValueAreOfSeveralDevices(_ column: String) throws {
    let cars = table(200) { number in
      let car = number % 2
      return ("\(car)", number * 10, Double(car * 5000 + number * 100))
    }
    guard column != "" else {
      // Nobody could say which is meant.
      #expect(try rows(column, cars).fixes.count == 200)
      return
    }
    expectSeveral(column, ["0", "1"], cars)
    // Each has outliers, and some rows of a third that is seen once.
    var noisy = table(200) {
      cars[$0].seconds % 310 == 0 ? (cars[$0].value, cars[$0].seconds, -9000) : cars[$0]
    }
    noisy.append(("2", 95, 0))
    expectSeveral(column, ["0", "1", "2"], noisy)
    expectSeveral(column, ["1", "0"], cars.reversed())
    // Whole numbers beside a gap, as some programs write them.
    let written = table(200) { (cars[$0].value + ".0", cars[$0].seconds + 1, cars[$0].north) }
    expectSeveral(column, ["0.0", "1.0"], [("", 0, 0)] + written)
    // Seen at the same time, ten metres a second, and sorted by car.
    let together = table(200) { (cars[$0].value, $0 / 2, cars[$0].north) }
    expectSeveral(column, ["0", "1"], together)
    expectSeveral(
      column, ["0", "1"], together.filter { $0.value == "0" } + together.filter { $0.value == "1" })
    // Two aeroplanes, each faster than anything on the ground.
    expectSeveral(column, ["0", "1"], table(200) { (cars[$0].value, cars[$0].seconds, cars[$0].north * 24) })
    // One of the cars, or one after the other with time to get there.
    let one = cars.filter { $0.value == "0" }
    #expect(try rows(column, one).fixes.count == 100)
    let other = table(100) { ("1", 5000 + one[$0].seconds, one[$0].north) }
    #expect(try rows(column, one + other).fixes.count == 200)
  }

  @Test func blocksOfTheSameTimeAreOfSeveralDevices() throws {
    // Two who run side by side, one after the other in the file.
    let runners = table(100) { number in
      let (runner, step) = (number / 50, number % 50)
      return (runner == 0 ? "a" : "b", step * 10 + runner, Double(step * 30))
    }
    expectSeveral("x", ["a", "b"], runners)
    expectSeveral("x", ["b", "a"], runners.reversed())
    // Two days of one, in the wrong order.
    let days = table(100) { ($0 < 50 ? "tue" : "mon", ($0 + 50) % 100 * 10, Double($0) * 30) }
    #expect(try rows("day", days).fixes.count == 100)
  }

  @Test func whatChangesOfOneDeviceTellsNothing() throws {
    // A drive to and fro, ten metres a second.
    func drive(_ value: (Int) -> String) -> [Row] {
      table(400) { number in
        let (step, isBack) = (number % 100, number % 200 >= 100)
        return (value(number), number * 10, Double((isBack ? 100 - step : step) * 100))
      }
    }
    func expectOne(_ column: String, _ value: (Int) -> String) throws {
      let way = drive(value)
      // With what is wrong in it now and then, with a clock that goes back once, and with the newest first.
      let wrong = table(400) { $0 % 73 == 0 ? (way[$0].value, way[$0].seconds, 30_000) : way[$0] }
      let late = table(400) { (way[$0].value, way[$0].seconds - ($0 > 200 ? 35 : 0), way[$0].north) }
      for (number, rows) in [way, wrong, late, way.reversed()].enumerated() {
        #expect(throws: Never.self, "\(column), \(number)") { try self.rows(column, rows) }
      }
    }
    try expectOne("unit") { $0 % 7 == 0 ? "ft" : "m" }
    try expectOne("unit") { _ in "m" }
    try expectOne("status") { $0 / 10 % 2 == 0 ? "moving" : "stopped" }
    try expectOne("seq") { "\($0)" }
    try expectOne("id") { "\($0)" }
    try expectOne("satellites") { "\(4 + $0 * 31 % 7)" }
    try expectOne("hdop") { "\(Double($0 % 9) / 2)" }
    try expectOne("driver") { $0 < 200 ? "x" : "y" }
    try expectOne("place") { $0 % 200 < 100 ? "home" : "work" }
    try expectOne("trip") { "\($0 / 50)" }
    // One wrong fix that the file knows of; and one leap, from drive to drive.
    let known = table(400) { number in
      if number == 100 { return ("V", 1000, 30_000) }
      return ("A", number * 10, 0)
    }
    #expect(throws: Never.self) { try rows("status", known) }
    let apart = table(400) { number in
      if number < 200 { return ("x", number * 10, 0) }
      return ("y", number * 10, 30_000)
    }
    #expect(throws: Never.self) { try rows("driver", apart) }
    // Who asks for it has all rows as they are.
    let data = Data("plate,time,lat,lon\na,100,1,10\nb,200,2,10\n".utf8)
    #expect(try LocationTrace.read(data, device: .init(column: "plate", value: "*")).fixes.count == 2)
    #expect(throws: LocationTrace.Failure(.missingColumn("bus"))) {
      try LocationTrace.read(data, device: .init(column: "bus", value: "*"))
    }
  }

  @Test(.enabled(if: TestData.has("gps-bus"), TestData.absent)) func eachBusIsADeviceOfItsOwn() throws {
    let data = try Data(contentsOf: TestData.folder.appending(path: "gps-bus/route14_outbound.csv"))
    let error = #expect(throws: LocationTrace.Failure.self) { try LocationTrace.read(data) }
    guard case .severalDevices("vehicle_id", let vehicles)? = error?.code else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(
      Set(vehicles) == ["4716", "4720", "4722", "4733", "4803", "4836", "4841", "4842"] && vehicles.count == 8
    )
    var fixes = 0
    for vehicle in vehicles {
      let trace = try LocationTrace.read(data, device: .init(column: "vehicle_id", value: vehicle))
      fixes += trace.fixes.count + trace.skipped.values.reduce(0, +)
      // No bus goes faster than a road allows.
      for (from, to) in zip(trace.fixes, trace.fixes.dropFirst()) {
        let seconds = from.time.duration(to: to.time).inSeconds
        #expect(Ellipsoid.distance(from.position, to.position) < 100 + 40 * seconds, "\(vehicle)")
      }
    }
    #expect(fixes == 788)
  }

  @Test(.enabled(if: TestData.has("gpx-tracks"), TestData.absent)) func aHikeIsRead() throws {
    let data = try Data(contentsOf: TestData.folder.appending(path: "gpx-tracks/korita-zbevnica.gpx"))
    let trace = try LocationTrace.read(data)
    // 358 points have no time.
    #expect(trace.fixes.count == 513 && trace.skipped == ["no time": 358])
    #expect(trace.fixes.allSatisfy { $0.altitude != nil })
    #expect(abs(trace.fixes[trace.fixes.count - 1].time.seconds - 13_380) < 120)
  }

  @Test func timesAreThoseOfTheCalendar() {
    #expect(TraceTime.seconds("1970-01-01T00:00:00Z") == 0)
    #expect(TraceTime.seconds("2020-02-29T23:59:59.25Z") == 1_583_020_799.25)
    #expect(TraceTime.seconds("2020-02-07 02:15:00") == 1_581_041_700)
    #expect(TraceTime.seconds("2020-02-07T03:15:00+01:00") == 1_581_041_700)
    for text in [
      "", "2020-02-07", "2020-13-07T00:00:00Z", "2020-02-07T25:00:00Z", "x", "nan", "2020-02-07T00:00:00+1",
    ] {
      #expect(TraceTime.seconds(text) == nil, "\(text)")
    }
  }

  @Test func repeatedPositionsBecomeAWay() throws {
    // 10 s repeat a place, then one 1 km north; 100 s there, then one 150 m on; 5 s there.
    var table = "timestamp,latitude,longitude\n"
    for second in 0..<116 {
      let latitude = second < 10 ? 50 : second < 110 ? 50.009 : 50.010_35
      table += "\(1_581_041_700 + second),\(latitude),8\n"
    }
    let trace = try LocationTrace.read(Data(table.utf8))
    let way = try trace.everySecond()
    #expect(way.fixes.map(\.time) == trace.fixes.map(\.time) && way.start == trace.start)
    let start = trace.fixes[0].position
    func metres(_ second: Int) -> Double { Ellipsoid.distance(start, way.fixes[second].position) }
    #expect(abs(metres(5) - 500.5) < 1 && abs(metres(10) - 1001) < 1)
    #expect(abs(try #require(way.fixes[5].speed) - 100.1) < 0.1)
    // It stands, and is gone in the last 10 s at 15 m/s.
    #expect(abs(metres(99) - metres(10)) < 1 && abs(metres(105) - metres(10) - 75) < 2)
    #expect(way.fixes[50].speed == 0 && abs(metres(110) - 1151) < 1 && metres(115) == metres(110))
    #expect(throws: LocationError.self) { try trace.everySecond(stop: .nan) }
  }

  // R-GEO-05
  @Test func regionsGoOutAndComeBack() throws {
    let regions = [
      NamedRegion("a \"circle\"\n", try .circle(place(1.5, 2.25), radius: 100.5, altitude: -5...10)),
      NamedRegion("hole", try .polygon([box(0, 0, 4, 4), box(1, 1, 2, 2)]), dwell: .milliseconds(90_500)),
      NamedRegion("two", try .multipolygon([[box(0, 0, 4, 4)], [box(10, 10, 12, 12)]])),
    ]
    #expect(try GeoJSON.regions(Data(GeoJSON.text(regions).utf8)) == regions)
  }

  // R-GEO-05
  @Test func whatIsWrongIsNamedByItsPathAlone() throws {
    let cases: [(String, String)] = [
      ("[", "not JSON"), ("[]", "'/'"), ("{\"type\":\"FeatureCollection\"}", "'features'"),
      ("{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\"}]}", "'features[0].geometry'"),
      ("{\"type\":\"LineString\"}", "'/.type'"),
      ("{\"type\":\"Point\",\"coordinates\":[1,2]}", "'properties.radius'"),
      ("{\"type\":\"Polygon\",\"coordinates\":[[[77.77,1],[2]]]}", "coordinates[0][1]"),
      ("{\"type\":\"Polygon\",\"coordinates\":[[[77.77,1],[2,95],[3,3]]]}", "latitude is not within"),
      (
        "{\"type\":\"Polygon\",\"coordinates\":[[[0,0],[77.77,77.77],[77.77,0],[0,77.77]]]}",
        "Self-intersection"
      ),
    ]
    for (text, expected) in cases {
      let error = #expect(throws: GeoJSONError.self, "\(text)") { try GeoJSON.regions(Data(text.utf8)) }
      let description = error.map { "\($0)" } ?? ""
      #expect(description.contains(expected) && !description.contains("77"), "\(description)")
    }
  }

  /// Bytes changed, cut and doubled at random: a typed error or a result, never a crash.
  // R-GEO-05
  @Test func garbageIsRefused() throws {
    let gpx = """
      <?xml version="1.0"?><gpx version="1.1"><trk><trkseg>
      <trkpt lat="45.1" lon="14.2"><ele>100</ele><time>2010-10-03T09:36:00Z</time><hdop>2</hdop></trkpt>
      <trkpt lat="45.2" lon="14.2"><ele>100</ele><time>2010-10-03T09:37:00Z</time></trkpt></trkseg></trk></gpx>
      """
    let json = GeoJSON.text([
      NamedRegion("a", try .circle(place(1, 2), radius: 10, altitude: 0...1)),
      NamedRegion("b", try .polygon([box(0, 0, 4, 4), box(1, 1, 2, 2)])),
    ])
    let table = "timestamp,latitude,longitude,accuracy,rawcellid\n2019.11.20_16.55.16,1,2,3,4\n5,6,7,8,9\n"
    var generator = SplitMix64(seed: 99)
    var read = 0
    for text in [gpx, sentences().joined(separator: "\n"), table, json] {
      for _ in 0..<600 {
        var bytes = Array(text.utf8)
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
          let place = Int.random(in: 0..<bytes.count, using: &generator)
          switch Int.random(in: 0..<4, using: &generator) {
          case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
          case 1: bytes[place] = UInt8(ascii: "9")
          case 2: bytes.removeSubrange(place..<min(bytes.count, place + 7))
          default: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 9)], at: place)
          }
          if bytes.isEmpty { bytes = [32] }
        }
        do {
          _ = try LocationTrace.read(Data(bytes))
          read += 1
        } catch {}
        do {
          _ = try GeoJSON.regions(Data(bytes))
          read += 1
        } catch {}
      }
    }
    #expect(read > 100)
  }
}

@Suite(.bounded) struct LocationReplayTests {
  // R-LOC-14, R-GEO-01
  @Test func aDriveThroughAFenceWakesTheAppTwiceAndSamplesLittle() throws {
    var table = "timestamp,latitude,longitude,accuracy\n"
    for second in 1...2000 { table += "\(1_581_041_700 + second),\(50 + Double(second) * 1e-4),8,5\n" }
    let trace = try LocationTrace.read(Data(table.utf8))
    let fence = NamedRegion("shop", try .circle(place(50.1, 8), radius: 150))
    var counts: [Int] = []
    for isContinuous in [false, true] {
      var options = LocationReplay.Options()
      options.isContinuous = isContinuous
      let report = try LocationReplay.run(trace, fences: [fence], options: options)
      #expect(
        report.crossings.map(\.kind) == [.enter, .exit] && report.crossings.allSatisfy { $0.fence == "shop" })
      #expect(report.wakeups == 2 && report.prompts == 1 && report.fixes == 2000)
      let root = try JSONSerialization.jsonObject(with: Data(report.json().utf8)) as? [String: Any]
      #expect(root?["fixes_used"] as? Int == report.used.count && (root?["crossings"] as? [Any])?.count == 2)
      #expect(!report.json().contains("50.1") && !report.text().contains("50.1"))
      let page = report.page(trace, fences: [fence], title: "A <drive>")
      #expect(
        page.contains("class=\"enter\"") && page.contains("class=\"exit\"")
          && page.contains("A &lt;drive&gt;"))
      counts.append(report.used.count)
    }
    #expect(counts[1] == 2000 && counts[0] < 200, "\(counts)")
  }

  // R-GEO-01, R-GEO-05
  @Test func aStayIsToldWhereTheFileAsksForIt() throws {
    var table = "timestamp,latitude,longitude,accuracy\n"
    for second in 1...2000 { table += "\(1_581_041_700 + second),\(50 + Double(second) * 1e-4),8,5\n" }
    let shop = NamedRegion("shop", try .circle(place(50.1, 8), radius: 150), dwell: .seconds(10))
    let fences = try GeoJSON.regions(Data(GeoJSON.text([shop]).utf8))
    let trace = try LocationTrace.read(Data(table.utf8))
    let report = try LocationReplay.run(trace, fences: fences)
    #expect(
      report.crossings.map(\.kind) == [.enter, .dwell, .exit] && report.json().contains("\"kind\":\"dwell\""))
    #expect(report.page(trace, fences: fences, title: "").contains("<circle class=\"dwell\""))
    for wrong in ["0", "\"10\"", "1e9"] {
      let text = GeoJSON.text([shop]).replacing("\"dwell\":10.0", with: "\"dwell\":\(wrong)")
      let error = #expect(throws: GeoJSONError.self) { try GeoJSON.regions(Data(text.utf8)) }
      #expect(
        "\(try #require(error))" == "GeoJSON: 'properties.dwell' is not a number of seconds from 1 to 2592000"
      )
    }
  }

  // R-LOC-07, R-LOC-08
  @Test func aCoarseSourceSeesNoFiner() throws {
    var table = "timestamp,latitude,longitude,accuracy\n"
    for second in 1...4000 { table += "\(1_581_041_700 + second),\(49 + Double(second) * 1e-5),8,5\n" }
    let fence = NamedRegion("shop", try .circle(place(50.1, 8), radius: 150))
    let report = try LocationReplay.run(LocationTrace.read(Data(table.utf8)), fences: [fence])
    let coarse = report.used.filter { $0.source == .cell }
    #expect(coarse.count > 1 && report.costs[.cell]?.fixes == coarse.count)
    for fix in coarse { #expect(abs(fix.accuracy.radius(confidence: 0.68) - 300) < 1e-6) }
    let finer = report.used.filter { $0.source == .satellite }
    #expect(finer.count + coarse.count == report.used.count)
    #expect(finer.allSatisfy { abs($0.accuracy.radius(confidence: 0.68) - 5) < 1e-6 })
  }
}
