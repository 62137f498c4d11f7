import Foundation
import OpportuneBench
import TestSupport
import Testing

@Suite(.bounded) struct LifecycleBenchTests {
  @Test func movesAreMeasured() async throws {
    let options = try LifecycleBenchOptions(figures: ["moves"], apps: 2, switches: 10)
    let report = try await LifecycleBench(options: options, isInterrupted: { false }, progress: { _ in })
      .run()
    #expect(report.results.count == 9)
    #expect(report.results.allSatisfy { $0.figure == "moves" && $0.value > 0 })
    let json = try #require(JSONSerialization.jsonObject(with: Data(report.json().utf8)) as? [String: Any])
    #expect((json["results"] as? [Any])?.count == 9)
    #expect(report.table().split(separator: "\n").count == 10)
  }

  @Test func anInterruptedRunReportsWhatItHas() async throws {
    let bench = LifecycleBench(
      options: try LifecycleBenchOptions(), isInterrupted: { true }, progress: { _ in })
    let report = try await bench.run()
    #expect(report.wasInterrupted)
    #expect(report.results.isEmpty)
    #expect(report.table().hasPrefix("figure"))
  }

  @Test func valuesOutOfRangeAreNamed() {
    let refused: [(String, () throws -> LifecycleBenchOptions)] = [
      ("--figure 'nothing'", { try LifecycleBenchOptions(figures: ["nothing"]) }),
      ("--apps '1'", { try LifecycleBenchOptions(apps: 1) }),
      ("--switches '9'", { try LifecycleBenchOptions(switches: 9) }),
      ("--frames '0'", { try LifecycleBenchOptions(frames: 0) }),
      ("--repeats '101'", { try LifecycleBenchOptions(repeats: 101) }),
    ]
    for (words, make) in refused {
      let error = #expect(throws: BenchError.self) { _ = try make() }
      #expect(error?.description.hasPrefix(words) == true)
    }
  }
}
