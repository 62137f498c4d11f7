import Foundation
import Opportune
import OpportuneTraces
import TestSupport
import Testing

@testable import OpportuneBench
@testable import OpportuneLocation

/// Synthetic logs and tracks, so that the expected findings are known.
@Suite(.bounded) struct RecordedBenchTests {
  private struct Seen {
    var second: Double
    var east: Double
    var accuracy = 10.0
    var speed = -1.0
  }

  private let home: Coordinate

  init() throws { home = try Coordinate(latitude: 37.4, longitude: -122) }

  private func log(_ fixes: [Seen], exits: [Double]) throws -> PhoneLog {
    let start = 1_450_000_000.0
    var entries = fixes.map { fix in
      let place = Ellipsoid.place(from: home, azimuth: 90, metres: fix.east)
      return """
        {"metadata":{"key":"background/location","platform":"ios","write_ts":1},"data":{"ts":\(start + fix.second),\
        "latitude":\(place.latitude),"longitude":\(place.longitude),"accuracy":\(fix.accuracy),\
        "sensed_speed":\(fix.speed)}}
        """
    }
    // Some have their time in the metadata only.
    entries += exits.map {
      "{\"metadata\":{\"key\":\"statemachine/transition\",\"write_ts\":\(start + $0)},\"data\":{\"transition\":1}}"
    }
    let battery = "\"key\":\"background/battery\",\"write_ts\":1,\"platform\":\"server\""
    entries.insert("{\"metadata\":{\(battery)},\"data\":{\"ts\":\"none\"}}", at: 0)
    return try PhoneLog(name: "day", reading: Data("[\(entries.joined(separator: ","))]".utf8))
  }

  /// Ten minutes at rest, from second 0 on.
  private let rest = stride(from: 0.0, through: 600, by: 60).map { Seen(second: $0, east: 0) }

  private func away(from second: Double, _ metres: Double = 400, count: Int = 4) -> [Seen] {
    (0..<count).map { Seen(second: second + 30 * Double($0), east: metres + 200 * Double($0), speed: 7) }
  }

  @Test func eachExitGetsAVerdictAndACause() throws {
    let cases: [(ExitsBench.Verdict, ExitsBench.Cause?, [Seen])] = [
      (.told, nil, rest + away(from: 1010)),
      (
        .late, .inside,
        rest + [1010, 1040, 1070].map { Seen(second: $0, east: 20, speed: 1) } + away(from: 1100)
      ),
      (.early, nil, rest + away(from: 900) + away(from: 1040, 1400)),
      (.missed, .unknown, [Seen(second: 600, east: 0, accuracy: 65)] + away(from: 1010)),
      (.phoneWrong, nil, rest + [1010, 1040, 1070].map { Seen(second: $0, east: 30) }),
      (.noRest, nil, away(from: 1010)), (.noRest, nil, [Seen(second: 990, east: 0)] + away(from: 1010)),
      (
        .noRest, nil,
        [Seen(second: 600, east: 0, accuracy: 500), Seen(second: 600, east: 0, speed: 5)] + away(from: 1010)
      ),
      (.noFixes, nil, rest), (.noFixes, nil, rest + away(from: 2000)),
    ]
    for (index, (verdict, cause, fixes)) in cases.enumerated() {
      // Told twice within a minute.
      let outcome = try ExitsBench.run([log(fixes, exits: [1000, 1030])])
      #expect(outcome.verdicts == [verdict: 1], "case \(index)")
      #expect(outcome.causes == (cause.map { [$0: 1] } ?? [:]), "case \(index)")
      #expect(outcome.recorded == 2 && outcome.wrong == 0, "case \(index)")
      #expect(outcome.earliness == (verdict == .early ? [100] : []), "case \(index)")
      #expect(outcome.lateness == (verdict == .told ? [0] : verdict == .late ? [90] : []), "case \(index)")
    }
  }

  @Test func anExitFromWhichTheDeviceIsBackAtOnceIsFalse() throws {
    let out = [(700.0, 300.0), (760, 0), (820, 0)].map { Seen(second: $0, east: $1, speed: 5) }
    let outcome = try ExitsBench.run([log(rest + out + away(from: 1010), exits: [1000])])
    #expect(outcome.wrong == 1 && outcome.verdicts == [.told: 1])
  }

  @Test func aLogHoldsWhatAPhoneCanHaveSeen() throws {
    let odd = [
      Seen(second: 0, east: 0), Seen(second: 0, east: 9), Seen(second: 5, east: 0, accuracy: .infinity),
    ]
    #expect(throws: BenchError.self) { try log(odd, exits: []) }
    let read = try log(Array(odd.prefix(2)), exits: [10, 71, 80])
    #expect(
      read.fixes.count == 1 && read.exits.map(\.seconds) == [10, 71] && read.recorded == 3
        && read.platform == "ios")
    #expect(throws: BenchError.self) { try PhoneLog(name: "none", reading: Data("{}".utf8)) }
  }

  @Test func aReportHasRowsForEachPlatform() throws {
    let options = try LocationBenchOptions(figures: ["exits"])
    var bench = LocationBench(options: options)
    bench.logs = [try log(rest + away(from: 1010), exits: [1000])]
    let report = try bench.measure()
    #expect(report.results.allSatisfy { $0.track == "ios" && $0.fences == nil })
    #expect(report.results.first { $0.name == ExitsBench.Verdict.told.rawValue }?.value == 1)
  }

  private func trace(_ seconds: ClosedRange<Int>, aside: Double = 0, from start: Double = 1_581_041_700)
    throws
    -> LocationTrace
  {
    var table = "timestamp,latitude,longitude,accuracy\n"
    for second in seconds {
      let along = Ellipsoid.place(from: home, azimuth: 0, metres: Double(second) * 10)
      let place = Ellipsoid.place(from: along, azimuth: 90, metres: aside)
      table += "\(start + Double(second)),\(place.latitude),\(place.longitude),4\n"
    }
    return try LocationTrace.read(Data(table.utf8))
  }

  @Test func crossingsAreHeldAgainstTheReference() throws {
    let fences = try (1...5).map { number in
      let middle = Ellipsoid.place(from: home, azimuth: 0, metres: Double(number) * 1000)
      return NamedRegion("\(number)", try .circle(middle, radius: 100))
    }
    let reference = try trace(0...600)
    let good = try ReferenceBench.run(trace(10...600), reference: reference, among: fences)
    #expect(
      good.crossings == 10 && good.told == 10 && good.missed == 0 && good.wrong == 0
        && good.delays.count == 10)
    #expect(
      good.delays.allSatisfy { (0...15).contains($0) } && good.within68 == 1 && (good.errors.last ?? 1) < 0.01
    )
    // A receiver that is off by 90 m sees what is only grazed, and later or not at all.
    let off = try ReferenceBench.run(trace(10...600, aside: 99), reference: reference, among: fences)
    #expect(off.missed + off.delays.count == 10 && off.missedDeep > 0 && off.within68 == 0)
    #expect(abs((off.errors.first ?? 0) - 99) < 0.1)
    // It tells of what the reference never comes to.
    let elsewhere = [
      NamedRegion(
        "east", try .circle(Ellipsoid.place(from: fenceMiddle, azimuth: 90, metres: 250), radius: 100))
    ]
    let wrong = try ReferenceBench.run(trace(10...600, aside: 250), reference: reference, among: elsewhere)
    #expect(wrong.crossings == 0 && wrong.told == 2 && wrong.wrong == 2)
    #expect(throws: BenchError.self) {
      try ReferenceBench.run(trace(10...600), reference: trace(0...600, from: 1_500_000_000), among: fences)
    }
    // 02:15:00, of a day that the reference does not say.
    let undated = try ReferenceBench.run(
      trace(10...600), reference: trace(0...600, from: 8100), among: fences)
    #expect(undated.crossings == 10 && undated.missed == 0 && undated.wrong == 0)
  }

  private var fenceMiddle: Coordinate { Ellipsoid.place(from: home, azimuth: 0, metres: 3000) }
}
