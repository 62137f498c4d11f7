import Foundation
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct IOBenchTests {
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

  private func svg(_ points: [IOParetoChart.Point]) -> String {
    var report = IOBenchReport(machine: .current(), seconds: 1, repeats: 1)
    for point in points {
      var result = IOResult(.storage, point.mode, load: "x<y")
      result.backgroundKept = point.kept
      result.p99RatioToAlone = point.cost
      report.results.append(result)
    }
    return IOParetoChart(report).svg()
  }

  @Test func theFrontIsOfWhatNothingBeats() {
    let points = [("a", 1.0, 10.0), ("b", 0.5, 2), ("c", 0.4, 3), ("d", 0.2, 1), ("e", 0.2, 1.5)].map {
      IOParetoChart.Point(mode: $0.0, kept: $0.1, cost: $0.2)
    }
    #expect(IOParetoChart.front(points).map(\.mode) == ["d", "b", "a"])
    let svg = svg(points)
    #expect(svg.components(separatedBy: "<circle").count == 6)
    #expect(svg.contains("x&lt;y") && !svg.contains("nan"))
  }

  @Test func labelsThatWouldCoverEachOtherComeToRest() {
    for step in 0..<100 {
      let cost = 1 + Double(step) / 7
      let points = [cost, cost, cost, 30].map { IOParetoChart.Point(mode: "m", kept: 0.5, cost: $0) }
      #expect(svg(points).components(separatedBy: ">m</text>").count == points.count + 1)
    }
  }

  /// Whoever is first in a turn is last in the next; a rival that fails once is not asked again.
  @Test func pointsTakeTurns() async throws {
    let bench = IOBench(options: try IOBenchOptions(repeats: 3), isInterrupted: { false }, progress: { _ in })
    var report = IOBenchReport(machine: .current(), seconds: 1, repeats: 3)
    var order: [String] = []
    let points = ["a", "b", "rival"].map { name in
      IOPoint(name: name, isRival: name == "rival") {
        order.append(name)
        if name == "rival" { throw BenchError(.system, "gone") }
        return order.count
      }
    }
    #expect(try await bench.turns(&report, points) == [[1, 5, 6], [2, 4, 7], []])
    #expect(order == ["a", "b", "rival", "b", "a", "a", "b"])
    #expect(report.notes.count == 1 && report.notes[0].hasPrefix("rival: failed"))
    var result = IOResult(.cost, "x")
    result.setRates([1, 4, 9], rival: [2, 2, 3])
    #expect(result.operationsPerSecond == 4 && result.ratioToRival == 2 && result.ratioRange == [0.5, 3])
  }

  /// What was measured before a failure, and beside a rival that fails, is reported.
  @Test func failuresAreNotes() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "opp-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    var limit = rlimit()
    #expect(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
    defer { setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) }
    let few = rlimit(rlim_cur: 16, rlim_max: limit.rlim_max)
    let options = try IOBenchOptions(
      figures: ["echo", "fio"], seconds: 0.2, repeats: 1, folder: folder.path, fileMebibytes: 16,
      echoRival: "/bin/false")
    let report = try await IOBench(options: options, isInterrupted: { false }) { line in
      // No more descriptors when its figure comes: 16 are open already.
      var few = few
      if line.hasPrefix("fio") { setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &few) }
    }.run()
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    #expect(report.results.map(\.mode) == ["alone", "beside-background"])
    #expect(report.notes.contains { $0.hasPrefix("echo, swift-nio: failed: /bin/false prints no port") })
    #expect(report.notes.contains { $0.hasPrefix("fio: failed") }, "\(report.notes)")
  }

  @Test func theTestFileDoesNotStayWhereItCannotBeMade() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "opp-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    // As a full device, for the time of the test.
    var limit = rlimit()
    #expect(getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
    var low = limit
    low.rlim_cur = 4 << 20
    let before = signal(SIGXFSZ, SIG_IGN)
    #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &low) == 0)
    defer {
      setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
      signal(SIGXFSZ, before)
    }
    let options = try IOBenchOptions(folder: folder.path, fileMebibytes: 16)
    await #expect(throws: (any Error).self) { _ = try await TestFile(options) }
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])
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
