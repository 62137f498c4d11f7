import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct InterruptionTests {
  // R-CARD-06
  /// As by Ctrl-C, in the second contender's first window of four. What is told first is of no window.
  @Test func anInterruptedRunReportsWhatItHas() async throws {
    let options = try BenchOptions(
      scenarios: ["light-200us"], contenders: ["opportune", "limit-idle"], seconds: 0.4, repeats: 2,
      isRoot: false)
    let turns = Atomic<Int>(0)
    let report = try await BenchRun(
      options: options, isInterrupted: { turns.load(ordering: .relaxed) > 2 },
      progress: { _ in turns.add(1, ordering: .relaxed) }
    ).run()
    #expect(report.wasInterrupted)
    let ours = try #require(report.results.first)
    #expect(ours.contender == "opportune" && ours.samples > 0)
    #expect(turns.load(ordering: .relaxed) == 3)
    #expect(
      ReportTable.render(report).contains("interrupted") && HTMLReport.render(report).contains("interrupted"))
    let json =
      try JSONSerialization.jsonObject(with: Data(try ReportJSON.encode(report).utf8)) as? [String: Any]
    #expect(json?["interrupted"] as? Bool == true)
  }
}
