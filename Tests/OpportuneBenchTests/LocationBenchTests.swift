import Foundation
import TestSupport
import Testing

@testable import OpportuneBench
@testable import OpportuneLocation
@testable import OpportuneTraces

@Suite(.bounded) struct LocationBenchTests {
  @Test func optionsAreChecked() throws {
    #expect(try LocationBenchOptions().fences == [1, 1000, 100_000])
    for fences in [[], ["0"], ["1000001"], ["x"], ["1", ""]] {
      #expect(throws: BenchError.self, "\(fences)") { try LocationBenchOptions(fences: fences) }
    }
    #expect(throws: BenchError.self) { try LocationBenchOptions(fixes: 9) }
    #expect(throws: BenchError.self) { try LocationBenchOptions(repeats: 0) }
    #expect(throws: BenchError.self) { try LocationBenchOptions(radius: .nan) }
  }

  @Test func theDriveIsOfOneSpeedAndTurnsBack() throws {
    // It is 670,000 s out to 40 km.
    let track = try LocationBench.track(1000)
    for (from, to) in zip(track.dropFirst(60), track.dropFirst(61)) {
      #expect(abs(Ellipsoid.distance(from.position, to.position) - 15) < 1)
    }
    #expect(track.first?.time == .seconds(1) && track.last?.time == .seconds(1000))
  }

  // R-GEO-01
  @Test func aDriveAmongCirclesCrossesThoseOnItsWay() throws {
    let circles = try LocationBench.circles(20_000, radius: 100)
    let track = try LocationBench.track(2000)
    let drive = try LocationBench.drive(track, among: circles)
    // 2 for each square kilometre: a corridor of 30 km by 200 m meets about 12, twice each.
    #expect((4...60).contains(drive.crossings), "\(drive.crossings)")
    // Each circle that the way leads through well inside is entered, at the least. Not every fix is asked of
    // every circle, which would be 40 million questions.
    let asked = stride(from: 0, to: track.count, by: 10).map { track[$0].position }
    let deep = circles.count { circle in
      asked.contains { circle.contains($0) && circle.borderDistance(from: $0) > 40 }
    }
    #expect(drive.crossings >= deep && deep > 0, "\(drive.crossings) crossings of \(deep) circles")
    #expect(drive.judged < 20 * track.count && drive.memory <= 250 * 20_000)
  }

  @Test func aShortRunReportsEachFigure() throws {
    let options = try LocationBenchOptions(fences: ["1", "200"], fixes: 50, repeats: 2)
    let report = try LocationBench(options: options).measure()
    #expect(
      report.results.count == 5 * 2 + 5 && report.results.allSatisfy { $0.value.isFinite && $0.value >= 0 })
    let root = try JSONSerialization.jsonObject(with: Data(report.json().utf8)) as? [String: Any]
    #expect((root?["results"] as? [Any])?.count == 15 && root?["fixes"] as? Int == 50)
    #expect(root?["interrupted"] as? Bool == false)
    #expect(report.table().contains("memory of a fence") && !report.table().contains("interrupted"))
  }

  // R-LOC-14
  @Test func aTrackIsComparedWithEveryFixAndWithThoseAskedFor() throws {
    var table = "timestamp,latitude,longitude,accuracy\n"
    for second in 1...3000 { table += "\(1_581_041_700 + second),\(50 + Double(second) * 1e-4),8,5\n" }
    let track = RecordedTrack(name: "north.csv", trace: try LocationTrace.read(Data(table.utf8)))
    let fences = try SamplingBench.fences(200, along: track.trace, radius: 100)
    let near = fences.filter { fence in
      track.trace.fixes.contains { fence.region.contains($0.position) }
    }
    #expect((100...120).contains(near.count), "\(near.count) of 200")
    // Among four, so that there is way between them.
    let outcomes = try SamplingBench.run(track.trace, among: Array(near.prefix(4)), patiences: [0, 20])
    for outcome in outcomes {
      #expect(outcome.fixes == 3000 && outcome.used < 1500 && outcome.crossings == 8)
      #expect(outcome.missed + outcome.delays.count == 8 && outcome.delays == outcome.delays.sorted())
    }
    #expect(outcomes[0].missed == 0 && outcomes[1].used < outcomes[0].used)
    let options = try LocationBenchOptions(fences: ["1"], fixes: 10, repeats: 1)
    var bench = LocationBench(options: options)
    bench.tracks = [track]
    let report = try bench.measure()
    let rows = report.results.filter { $0.track == "north.csv" }
    #expect(
      rows.count == 3 + 6 * LocationBenchOptions.patiences.count + 4 * LocationBenchOptions.rests.count
        && rows.first?.value == 3000)
    #expect(report.table().contains("north.csv: patience 10 s, fixes used"))
    bench = LocationBench(options: try LocationBenchOptions(figures: ["sampling"]))
    bench.tracks = [track, track]
    let twice = try bench.measure()
    #expect(twice.results.first { $0.track == "2 tracks" && $0.name == "fixes" }?.value == 6000)
  }

  // R-SAMP-09
  @Test func aWayIsRebuiltFromSamplesTheWorseTheFewer() throws {
    // A bend every 100 s, so that the way between samples is not straight.
    var table = "timestamp,latitude,longitude,accuracy\n"
    for second in 0..<2000 {
      let (north, east) = second / 100 % 2 == 0 ? (second % 100, 0) : (100, second % 100)
      let turns = second / 200 * 100
      table +=
        "\(1_581_041_700 + second),\(50 + Double(turns + north) * 1e-4),\(8 + Double(turns + east) * 1e-4),5\n"
    }
    let trace = try LocationTrace.read(Data(table.utf8))
    let outcomes = try [5.0, 60, 300].map { try HistoryBench.run(trace, rest: $0) }
    #expect(outcomes.map(\.used) == [400, 34, 7] && outcomes.allSatisfy { $0.fixes == 2000 })
    #expect(
      outcomes[0].error(0.95) < outcomes[1].error(0.95) && outcomes[1].error(0.95) < outcomes[2].error(0.95))
    #expect(outcomes.allSatisfy { $0.errors.first ?? 1 < 0.001 && $0.error(1) == $0.errors.last })
    #expect(outcomes.allSatisfy { $0.within95 > 0 && $0.within95 <= $0.errors.count })
    var all = outcomes[0]
    all.add(outcomes[2])
    #expect(all.used == 407 && all.fixes == 4000 && all.errors == all.errors.sorted())
  }

  @Test func figuresAreChosenByName() throws {
    #expect(throws: BenchError.self) { try LocationBenchOptions(figures: ["fence"]) }
    let options = try LocationBenchOptions(figures: ["geometry"], fences: ["1"], fixes: 10, repeats: 1)
    let report = try LocationBench(options: options).measure()
    #expect(report.results.count == 5 && report.results.allSatisfy { $0.fences == nil })
  }

  @Test func theFewestLooksAreThoseIntoWhatIsNotSeenYet() {
    func crossing(_ fence: String, _ kind: Crossing.Kind, _ at: Double) -> LocationReplay.Report.Crossing {
      .init(fence: fence, kind: kind, at: at, confidence: 1, place: nil)
    }
    // a and b overlap, c is within d, e is apart.
    let crossings = [
      crossing("a", .enter, 0), crossing("b", .enter, 5), crossing("a", .exit, 10), crossing("b", .exit, 15),
      crossing("d", .enter, 20), crossing("c", .enter, 22), crossing("c", .exit, 24),
      crossing("d", .exit, 40),
      crossing("e", .enter, 50), crossing("e", .exit, 51), crossing("f", .enter, 60),
    ]
    #expect(SamplingBench.fewest(crossings) == 3)
    #expect(SamplingBench.fewest([]) == 0)
  }

  @Test func crossingsArePairedByFenceKindAndTime() {
    func crossing(_ fence: String, _ kind: Crossing.Kind, _ at: Double) -> LocationReplay.Report.Crossing {
      .init(fence: fence, kind: kind, at: at, confidence: 1, place: nil)
    }
    let expected = [crossing("a", .enter, 100), crossing("b", .enter, 110), crossing("a", .exit, 200)]
    let outcome = SamplingBench.compare(
      expected, [crossing("a", .exit, 195), crossing("a", .enter, 104), crossing("b", .enter, 600)])
    #expect(outcome.crossings == 3 && outcome.missed == 1 && outcome.extra == 1 && outcome.delays == [-5, 4])
    #expect(
      outcome.untrue == 0 && SamplingBench.compare([], expected, isUntrue: { $0.fence == "a" }).untrue == 2)
  }

  @Test func anInterruptedRunSaysSo() throws {
    let report = try LocationBench(options: LocationBenchOptions(), isInterrupted: { true }).measure()
    #expect(report.wasInterrupted && report.results.isEmpty && report.table().contains("interrupted"))
  }
}
