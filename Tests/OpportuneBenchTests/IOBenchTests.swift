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
