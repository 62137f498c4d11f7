import Foundation
import OpportuneLocation
import Testing

@testable import OpportuneBench

@Suite struct LocationBenchTests {
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
    // Each circle that the way leads through well inside is entered, at the least.
    let deep = circles.count { circle in
      track.contains { circle.contains($0.position) && circle.borderDistance(from: $0.position) > 40 }
    }
    #expect(drive.crossings >= deep && deep > 0, "\(drive.crossings) crossings of \(deep) circles")
    #expect(drive.judged < 20 * track.count && drive.memory <= 250 * 20_000)
  }

  @Test func aShortRunReportsEachFigure() throws {
    let options = try LocationBenchOptions(fences: ["1", "200"], fixes: 50, repeats: 2)
    let report = try LocationBench(options: options).run()
    #expect(report.results.count == 4 * 2 + 3 && report.results.allSatisfy { $0.value.isFinite && $0.value >= 0 })
    let root = try JSONSerialization.jsonObject(with: Data(report.json().utf8)) as? [String: Any]
    #expect((root?["results"] as? [Any])?.count == 11 && root?["fixes"] as? Int == 50)
    #expect(root?["interrupted"] as? Bool == false)
    #expect(report.table().contains("memory of a fence") && !report.table().contains("interrupted"))
  }

  @Test func anInterruptedRunSaysSo() throws {
    let report = try LocationBench(options: LocationBenchOptions(), isInterrupted: { true }).run()
    #expect(report.wasInterrupted && report.results.isEmpty && report.table().contains("interrupted"))
  }
}
