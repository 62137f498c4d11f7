import ArgumentParser
import Foundation
import OpportuneLocation
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct LocationReplayCommandTests {
  private func fixture(_ name: String) throws -> String {
    try #require(Bundle.module.url(forResource: "Fixtures", withExtension: nil)).appending(path: name).path
  }

  private func replay(_ arguments: String...) throws -> String {
    let drive = [try fixture("drive.nmea"), "--fences", try fixture("fences.geojson")]
    return try #require(LocationReplayCommand.parse(drive + arguments) as LocationReplayCommand?).output()
  }

  private func refusal(_ arguments: [String]) throws -> String {
    let error = #expect(throws: (any Error).self, "\(arguments)") {
      try LocationReplayCommand.parse(arguments).output()
    }
    return LocationReplayCommand.message(for: try #require(error))
  }

  private struct Told: Decodable, Equatable {
    struct Crossing: Decodable, Equatable {
      var fence: String
      var kind: String
      var at: Double
      var confidence: Double
    }
    var fixes: Int
    var fixesUsed: Int
    var crossings: [Crossing]
    var wakeups: Int
    var prompts: Int
  }

  private func told(_ json: String) throws -> Told {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(Told.self, from: Data(json.utf8))
  }

  // R-GEO-01, R-GEO-05, R-LOC-14
  @Test func aRecordedDriveCrossesTheFencesThatItWasDrivenThrough() throws {
    let sampled = try told(replay("--json"))
    // In and out of the crossroads, the block by way of its court, and both yards; nothing 500 m above, or
    // elsewhere.
    let expected = [
      "enter crossroads", "exit crossroads", "enter block with a court", "exit block with a court",
      "enter block with a court", "exit block with a court", "enter two yards", "exit two yards",
      "enter two yards",
      "exit two yards",
    ]
    let all = try told(replay("--json", "--continuous"))
    #expect(all.crossings.map { "\($0.kind) \($0.fence)" } == expected)
    #expect(all.fixes == 190 && all.fixesUsed == 190 && all.prompts == 1 && all.wakeups > 0)
    #expect(sampled.crossings.map { "\($0.kind) \($0.fence)" } == expected)
    #expect(sampled.fixesUsed < all.fixesUsed)
    #expect(sampled.crossings.allSatisfy { (0.99...1).contains($0.confidence) && (0...378).contains($0.at) })
    #expect(zip(sampled.crossings, sampled.crossings.dropFirst()).allSatisfy { $0.at <= $1.at })
  }

  @Test func textSaysTheSameAndNoPlace() throws {
    let text = try replay("--continuous")
    #expect(
      text.contains("190 of 190 fixes used") && text.contains("enter  crossroads")
        && text.contains("satellite:"))
    #expect(!text.contains("37.") && !text.contains("122."))
  }

  @Test func thePageShowsTheTrackAndIsWhole() throws {
    let folder = try Folder()
    let page = folder.path("drive.html")
    _ = try replay("--html", page)
    let html = try String(contentsOfFile: page, encoding: .utf8)
    #expect(html.hasPrefix("<!DOCTYPE html>") && html.hasSuffix("</html>\n"))
    #expect(
      html.contains("Replay of drive.nmea") && html.contains("class=\"enter\"") && html.contains("crossroads")
    )
    // It needs nothing from elsewhere.
    #expect(!html.contains("http") && !html.contains("nan"))
  }

  @Test func oneOfSeveralVehiclesIsChosen() throws {
    let folder = try Folder()
    let table = (0..<100).map { "bus \($0 % 2),\(1_581_041_700 + $0 * 10),\(50 + Double($0 % 2)),8\n" }
      .joined()
    let arguments = [
      try folder.file("buses.csv", "vehicle_id,time,lat,lon\n\(table)".utf8), "--fences",
      try fixture("fences.geojson"),
    ]
    let message = try refusal(arguments)
    #expect(
      message.contains("2 devices, told apart by its column 'vehicle_id': \"bus 0\", \"bus 1\""), "\(message)"
    )
    #expect(
      message.hasSuffix(
        "choose one, as with --device 'vehicle_id=bus 0', or take all for one with --device 'vehicle_id=*'"),
      "\(message)")
    #expect(
      try told(LocationReplayCommand.parse(arguments + ["--device", "vehicle_id=*", "--json"]).output()).fixes
        == 100)
    let one = try told(
      LocationReplayCommand.parse(arguments + ["--device", "vehicle_id=bus 1", "--json"]).output())
    #expect(one.fixes == 50)
    #expect(try refusal(arguments + ["--device", "vehicle_id=bus 2"]).contains("no row with \"bus 2\""))
    #expect(
      try refusal(arguments + ["--device", "bus 1"]).contains(
        "expected a column and a value, as vehicle_id=4716"))
    #expect(
      try refusal([try fixture("drive.nmea")] + arguments.dropFirst() + ["--device", "a=b"]).contains("CSV"))
  }

  /// What is printed may be pasted, whatever a device is called.
  @Test func theHintOfADeviceIsTakenAsItIsPrinted() throws {
    let folder = try Folder()
    let names = ["\u{1B}[2J'bus\\7\u{202E}", "other"]
    let table = (0..<100).map { "\(names[$0 % 2]),\(1_581_041_700 + $0 * 10),\(50 + Double($0 % 2)),8\n" }
      .joined()
    let arguments = [
      "location", "replay", try folder.file("buses.csv", "vehicle_id,time,lat,lon\n\(table)".utf8),
      "--fences",
      try fixture("fences.geojson"),
    ]
    let refused = try Spawned(arguments)
    let hint = try #require(
      refused.errors.split(separator: "as with ").last?.split(separator: ", or take").first)
    #expect(
      refused.status == 1 && refused.errors.steering.isEmpty && hint.hasPrefix("--device $'"),
      "\(refused.errors)")
    let line = shellWord("\"$@\" " + hint)
    let ran = try Spawned(arguments, by: "exec bash -c \(line) bash \"$@\"")
    #expect(ran.status == 0 && ran.output.contains("of 50 fixes used"), "\(ran.errors)")
  }

  /// No column tells them apart, so they are read as one; the report says what it looks like.
  // R-GEO-01
  @Test func severalDevicesThatNothingTellsApartAreSuspected() throws {
    let folder = try Folder()
    func report(_ apart: Double) throws -> String {
      let rows = (0..<100).map { "\(1_581_041_700 + $0 * 10),\(50 + apart * Double($0 % 2)),8\n" }.joined()
      let table = try folder.file("two\(apart).csv", "time,lat,lon\n\(rows)".utf8)
      return try LocationReplayCommand.parse([table, "--fences", fixture("fences.geojson"), "--continuous"])
        .output()
    }
    #expect(try report(0.2).contains("\nso many outliers are as of several devices"))
    #expect(try !report(0).contains("several devices"))
  }

  // R-GEO-01
  @Test func optionsReachTheMonitorAndTheSampler() throws {
    let usual = try told(replay("--json"))
    #expect(try told(replay("--json", "--longest", "1")).fixesUsed > usual.fixesUsed)
    let patient = try told(replay("--json", "--patience", "30")).fixesUsed
    #expect(try patient < told(replay("--json", "--patience", "0")).fixesUsed)
    let sure = try told(replay("--json", "--continuous", "--confidence", "0.999999"))
    #expect(sure.crossings.allSatisfy { $0.confidence >= 0.999_999 })
    // Fixes that may be 300 m off, times their dilution, tell nothing of fences of 100 m.
    let vague = try told(replay("--json", "--continuous", "--deviation", "300"))
    #expect(vague.crossings.isEmpty)
  }

  // R-GEO-01
  @Test func whatWasPassedBetweenFixesIsToldWhereThatIsAsked() throws {
    let folder = try Folder()
    // Now slow, now fast, so that the sampler comes too late for stays of seconds.
    var (table, metres) = ("timestamp,latitude,longitude,accuracy\n", 0.0)
    for second in 0..<800 {
      table += "\(1_581_041_700 + second),\(50 + metres / 111_229),8,5\n"
      metres += second % 40 < 10 ? 5 : 30
    }
    let fences = try (2..<50).map { number in
      let place = try Coordinate(latitude: 50 + 350 * Double(number) / 111_229, longitude: 8)
      return NamedRegion("\(number)", try .circle(place, radius: 60))
    }
    let files = [
      try folder.file("drive.csv", table.utf8), "--fences",
      try folder.file("fences.geojson", GeoJSON.text(fences).utf8), "--json", "--patience", "20",
    ]
    let seen = try told(LocationReplayCommand.parse(files).output())
    let inferred = try told(LocationReplayCommand.parse(files + ["--wander", "5"]).output())
    #expect(seen.crossings.count < 80 && inferred.crossings.count > seen.crossings.count + 4)
    #expect(inferred.crossings.count <= 96 && inferred.fixesUsed == seen.fixesUsed)
  }

  @Test func whatIsWrongIsNamedWithWhatIsExpected() throws {
    let folder = try Folder()
    let (drive, fences) = (try fixture("drive.nmea"), try fixture("fences.geojson"))
    let prose = try folder.file("prose.txt", "hello\n".utf8)
    let list = try folder.file("list.geojson", "{\"type\":\"LineString\"}".utf8)
    let packed = try folder.file("drive.nmea.gz", [0x1f, 0x8b, 8, 0])
    let missing = folder.path("missing.nmea")
    let cases: [([String], [String])] = [
      ([drive], ["--fences"]),
      ([missing, "--fences", fences], [missing, "No such file"]),
      ([folder.url.path, "--fences", fences], [folder.url.path, "is a folder, expected a file"]),
      ([packed, "--fences", fences], [packed, "unpack"]),
      ([prose, "--fences", fences], [prose, "neither GPX nor NMEA 0183 nor CSV"]),
      ([drive, "--fences", prose], [prose, "not JSON"]),
      ([drive, "--fences", list], [list, "Point, Polygon or MultiPolygon"]),
      ([drive, "--fences", fences, "--confidence", "0.3"], ["--confidence is 0.3", "0.5 to 0.999999"]),
      ([drive, "--fences", fences, "--confidence", "nan"], ["--confidence is nan", "0.5 to 0.999999"]),
      ([drive, "--fences", fences, "--deviation", "0"], ["--deviation is 0.0", "0.1 to 10000"]),
      ([drive, "--fences", fences, "--patience", "601"], ["--patience is 601.0", "0.0 to 600.0"]),
      ([drive, "--fences", fences, "--wander", "nan"], ["--wander is nan", "0.0 to 1000.0"]),
      ([drive, "--fences", fences, "--longest", "0"], ["--longest is 0.0", "1.0 to 86400"]),
      (
        [drive, "--fences", fences, "--html", "/proc/none/page.html"],
        ["/proc/none/page.html", "cannot be written"]
      ),
    ]
    for (arguments, parts) in cases {
      let message = try refusal(arguments)
      for part in parts { #expect(message.contains(part), "\(message)") }
    }
  }
}
