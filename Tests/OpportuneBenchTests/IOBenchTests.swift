import Foundation
import Testing

@testable import OpportuneBench

@Suite struct IOBenchTests {
  @Test func optionsAreChecked() throws {
    #expect(try IOBenchOptions().figures == IOBenchOptions.Figure.allCases)
    #expect(try IOBenchOptions(figures: ["cost", "fio"]).figures == [.cost, .fio])
    #expect(throws: BenchError.self) { try IOBenchOptions(figures: ["speed"]) }
    #expect(throws: BenchError.self) { try IOBenchOptions(seconds: 0) }
    #expect(throws: BenchError.self) { try IOBenchOptions(seconds: .nan) }
    #expect(throws: BenchError.self) { try IOBenchOptions(repeats: 0) }
    #expect(throws: BenchError.self) { try IOBenchOptions(fileMebibytes: 1) }
  }

  @Test func mediansAndOffsets() {
    #expect(median([3, 1, 2]) == 2)
    #expect(median([4, 1]) == 2.5)
    #expect(median([]) == 0)
    var offsets = Offsets(9)
    for _ in 0..<1000 {
      let offset = offsets.next(1_000_000, 4096)
      #expect(offset % 4096 == 0 && offset >= 0 && offset + 4096 <= 1_000_000)
    }
  }

  @Test func theFrontIsOfWhatNothingBeats() {
    let points = [("a", 1.0, 10.0), ("b", 0.5, 2), ("c", 0.4, 3), ("d", 0.2, 1), ("e", 0.2, 1.5)].map {
      IOParetoChart.Point(mode: $0.0, kept: $0.1, cost: $0.2)
    }
    #expect(IOParetoChart.front(points).map(\.mode) == ["d", "b", "a"])
    var report = IOBenchReport(machine: .current(), seconds: 1, repeats: 1)
    for point in points {
      var result = IOResult(.storage, point.mode, load: "x<y")
      result.backgroundKept = point.kept
      result.p99RatioToAlone = point.cost
      report.results.append(result)
    }
    let svg = IOParetoChart(report).svg()
    #expect(svg.components(separatedBy: "<circle").count == 6)
    #expect(svg.contains("x&lt;y") && !svg.contains("nan"))
  }

  @Test func reportsAreTablesAndJSON() throws {
    var report = IOBenchReport(machine: .current(), seconds: 1, repeats: 2)
    var result = IOResult(.storage, "cap-4", load: "x")
    result.latencyUs = Percentiles()
    result.backgroundKept = 0.51239
    report.results = [result]
    report.notes = ["said aloud"]
    let json = try report.json()
    #expect(json.contains("\"background_kept\" : 0.512"))
    #expect(json.contains("\"latency_us\""))
    #expect(report.table().contains("cap-4"))
    #expect(report.table().contains("note: said aloud"))
  }
}
