import Foundation
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ReportTests {
  private func report() throws -> BenchReport {
    let scenario = try #require(Scenario.all.first { $0.name == "light-20ms" })
    let tallies = try ["dispatch", "limit-idle"].enumerated().map { index, name in
      var tally = Tally(
        scenario: scenario, contender: try #require(ContenderKind.all.first { $0.name == name }))
      let late = UInt64(index == 0 ? 40_000 : 20_000)
      let samples = (1...100).map { at in
        let at = UInt64(at) * 1_000_000
        return Sample(
          intended: at, submitted: at + 5_000, started: at + 5_000 + late, finished: at + 90_000)
      }
      tally.beside.count(samples, windowEnd: 1_000_000_000)
      tally.latestStarts = LateStart.latest(of: Array(samples.prefix(1)))
      let usage = WindowUsage(work: 10, capacity: 10, process: 10, backgroundJobs: 10)
      tally.pairs = [(beside: usage, alone: usage)]
      var (before, after) = (UsageReading(), UsageReading())
      before.switches = 100
      (after.time, after.switches, after.resident) = (500_000_000, 1_100, 3 << 20)
      tally.footprint.count([Slice(begin: before, end: after)])
      tally.timeline = [TimelinePoint(second: 0.1, median: 20, max: 40, isLeftOut: false)]
      return tally
    }
    let machine = MachineReport(kernel: "6", cpu: "<b>&", cores: 2, memoryMib: 1024, user: "ordinary user")
    return BenchReport(
      machine: machine, noise: NoiseReport(), tallies: tallies,
      wasInterrupted: false, seconds: 3)
  }

  // R-CARD-06, R-CARD-08
  @Test func jsonHasTheDocumentedShape() throws {
    let text = try ReportJSON.encode(report())
    let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    #expect(object["machine"] is [String: Any] && object["noise"] is [String: Any])
    let rows = try #require(object["results"] as? [[String: Any]])
    #expect(rows.count == 2)
    let row = try #require(rows.first)
    #expect(row["scenario"] as? String == "light-20ms" && row["contender"] as? String == "dispatch")
    for key in ["latency_us", "lateness_us", "intended_finish_us"] {
      let percentiles = try #require(row[key] as? [String: Double])
      #expect(Set(percentiles.keys) == ["p50", "p90", "p99", "p999", "max"])
    }
    #expect(row["background_kept"] as? Double == 1)
    #expect(row["context_switches_per_s"] as? Double == 2000 && row["resident_mib"] as? Double == 3)
    #expect(row["unfinished"] as? Int == 0 && row["samples"] as? Int == 100)
    #expect(
      row["latest_starts"] as? [[String: Int]] == [["submitted_ns": 1_005_000, "started_ns": 1_045_000]])
  }

  @Test func ratiosAreToTheLimitOfTheSameRun() throws {
    let rows = try report().results
    #expect(try abs(#require(rows[0].ratioToLimit) - 2) < 0.01)
    #expect(rows[1].ratioToLimit == 1)
  }

  @Test func theTableNamesUserLimitAndKept() throws {
    let table = ReportTable.render(try report())
    for part in ["ordinary user", "× limit-idle", "dispatch", "1.00 [1.00–1.00]", "noise:"] {
      #expect(table.contains(part))
    }
  }

  @Test func columnsAlign() {
    #expect(ReportTable.align([["a", "1"], ["bcd", "22"]]) == ["a     1", "bcd  22"])
  }

  @Test func numbersReadWell() {
    #expect(fixed(1.005, 1) == "1.0" && fixed(-0.04, 1) == "0.0" && fixed(-1.25, 2) == "-1.25")
    #expect(fixed(.nan, 1) == "–" && fixed(0.05, 2) == "0.05" && fixed(12, 0) == "12")
    #expect(
      microseconds(9.96) == "10.0" && microseconds(1_234_567) == "1,234,567" && microseconds(999) == "999")
  }

  // R-CARD-06
  @Test func thePageNeedsNothingElseAndEscapesWhatItShows() throws {
    let page = HTMLReport.render(try report())
    for outside in ["http://", "https://", "src=", "<script", "@import", "url("] {
      #expect(!page.contains(outside))
    }
    #expect(page.contains("&lt;b&gt;&amp;") && !page.contains("<b>"))
    #expect(page.contains("prefers-color-scheme: dark"))
    #expect(page.components(separatedBy: "<polyline").count == 3)
  }

  @Test func axesHoldWhatTheyShow() {
    let axis = LogAxis(holding: [3, 4_000], start: 100, end: 0)
    #expect(axis.low == 0 && axis.high == 4)
    #expect(axis.position(1) == 100 && axis.position(10_000) == 0 && abs(axis.position(100) - 50) < 1e-9)
    #expect(LogAxis(holding: [], start: 0, end: 1).high > LogAxis(holding: [], start: 0, end: 1).low)
    #expect(HTMLCharts.niceStep(95) == 10 && HTMLCharts.niceStep(0.4) == 0.05)
  }
}
