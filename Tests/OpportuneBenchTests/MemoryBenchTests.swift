import Foundation
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct MemoryBenchTests {
  private func run(_ options: MemoryBenchOptions, isInterrupted: @escaping @Sendable () -> Bool = { false })
    throws
    -> MemoryBenchReport
  { try MemoryBench(options: options, isInterrupted: isInterrupted, progress: { _ in }).measure() }

  @Test(arguments: MemoryBenchOptions.Figure.allCases)
  func eachFigureRunsAlone(figure: MemoryBenchOptions.Figure) throws {
    let report = try run(
      MemoryBenchOptions(
        figures: [figure.rawValue], repeats: 2, mebibytes: sizes[figure] ?? 8, folder: NSTemporaryDirectory())
    )
    #expect(!report.results.isEmpty && report.results.allSatisfy { $0.figure == figure.rawValue })
    for result in report.results {
      #expect(result.low > 0 && result.low <= result.value && result.value <= result.high)
      #expect((result.rival == nil) == (result.ratioToRival == nil))
    }
    #expect(report.results.contains { $0.ratioToRival != nil })
    if figure == .hibernate {
      let own = try #require(report.results.first)
      // Nothing compresses; the index is kept twice.
      #expect(own.ratioToDisk == own.ratioToRival && own.mode == "hibernate 8 MiB")
      #expect(try #require(own.bytesWritten) > Double(8 << 20) && own.bytesWritten ?? 0 < Double(9 << 20))
    }
    let json = try JSONSerialization.jsonObject(with: Data(report.json().utf8)) as? [String: Any]
    let results = try #require(json?["results"] as? [[String: Any]])
    #expect(results.count == report.results.count)
    let names: [MemoryBenchOptions.Figure: [String]] = [
      .pin: ["ns", "ratio_to_mutex", "ratio_to_dictionary"], .cache: ["ns", "ratio_to_dictionary"],
      .purge: ["ratio_to_madvise"], .pressure: [], .hibernate: ["ratio_to_disk"],
    ]
    for name in names[figure] ?? [] { #expect(results.first?[name] is Double, "\(name)") }
    #expect((json?["skipped"] as? [String]) == report.skipped)
    #expect(report.table().split(separator: "\n").count == report.results.count + report.skipped.count + 1)
  }

  /// Or who is first in each repeat would have the better, or the worse, machine.
  @Test func whoIsFirstChanges() throws {
    var order: [Int] = []
    for number in 0..<3 {
      func contender(_ index: Int) -> () throws -> Int {
        {
          order.append(index)
          return index
        }
      }
      let answers = try MemoryBench.inTurns(number, (0..<3).map(contender))
      #expect(answers == [0, 1, 2])
    }
    #expect(order == [0, 1, 2, 2, 1, 0, 0, 1, 2])
  }

  @Test func theRivalOfTheCacheKeepsToItsLimit() {
    let dictionary = LimitedDictionary(costLimit: 100)
    func insert(_ key: Int) {
      [UInt8](repeating: UInt8(key), count: 40).withUnsafeBytes { dictionary.insert($0, for: key) }
    }
    func found(_ key: Int) -> UInt8? { dictionary.withBytes(of: key) { $0[39] } }
    insert(1)
    insert(2)
    #expect(found(1) == 1)
    insert(3)
    #expect(found(2) == nil && found(1) == 1 && found(3) == 3 && dictionary.count == 2)
    insert(1)
    #expect(found(3) == 3 && dictionary.count == 2)
  }

  /// What is measured without the library is measured, or said to be skipped.
  @Test func rivalsOfPressureAreThereOrSkippedAloud() throws {
    let folder = NSTemporaryDirectory() + "opportune-pressure-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let small = PlainPressure(held: 252, wanted: 63).ways()
    #expect(
      small.possible.isEmpty && small.skipped.count == 1 && small.skipped[0].contains("--mebibytes 256"))
    let ways = PlainPressure(held: 256, wanted: 64).ways()
    let report = try run(
      MemoryBenchOptions(figures: ["pressure"], repeats: 1, mebibytes: 256, folder: folder))
    #expect(report.results.count == 2 + ways.possible.count)
    #expect(report.skipped == ways.skipped.map { "pressure: \($0)" })
    for way in ways.possible {
      #expect(report.results.contains { $0.mode == "64 MiB, held by a plain process, \(way.rawValue)" })
    }
    #expect(!ways.possible.isEmpty || !ways.skipped.isEmpty)
    #expect(!(try FileManager.default.contentsOfDirectory(atPath: folder)).contains { $0.hasSuffix(".fifo") })
  }

  @Test func aCheckpointerThatDoesNotRunIsSkippedAloud() throws {
    let options = try MemoryBenchOptions(
      figures: ["hibernate"], repeats: 1, mebibytes: 4, folder: NSTemporaryDirectory(), criu: "false")
    let report = try run(options)
    #expect(report.skipped == ["hibernate: CRIU: 'false check': no word why"])
    #expect(!report.results.contains { $0.mode.hasPrefix("CRIU") })
    #expect(
      CheckpointFigure(command: "/nowhere/criu", folder: ".").obstacle()?.contains("No such file") == true)
  }

  private let sizes: [MemoryBenchOptions.Figure: Int] = [.hibernate: 4, .pressure: 256]

  @Test func anInterruptedRunSaysSo() throws {
    let report = try run(MemoryBenchOptions(mebibytes: 4), isInterrupted: { true })
    #expect(report.wasInterrupted && report.results.isEmpty)
  }

  @Test func refusesOptionsOutOfRange() throws {
    for (repeats, mebibytes) in [(0, 8), (101, 8), (1, 3), (1, 65_537)] {
      #expect(throws: BenchError.self) { try MemoryBenchOptions(repeats: repeats, mebibytes: mebibytes) }
    }
    #expect(throws: BenchError.self) { try MemoryBenchOptions(folder: "/nowhere") }
    let error = try #require(throws: BenchError.self) { try MemoryBenchOptions(figures: ["swap"]) }
    #expect(error.description.contains("pin, cache, purge, pressure, hibernate"))
  }
}
