/// One measured figure.
package struct LifecycleResult: Sendable, Encodable {
  package var figure: String
  package var mode: String
  package var value: Double
  package var unit: String
}

package struct LifecycleBenchReport: BenchOutcome, Encodable {
  package var machine: MachineReport
  package var results: [LifecycleResult] = []
  package var wasInterrupted = false

  private enum CodingKeys: String, CodingKey {
    case machine, results
    case wasInterrupted = "interrupted"
  }

  package func table() -> String {
    let rows = results.map { [$0.figure, $0.mode, fixed($0.value, $0.value < 1000 ? 2 : 0), $0.unit] }
    return ReportTable.align([["figure", "mode", "value", "unit"]] + rows, isLeft: { $0 != 2 })
      .joined(separator: "\n") + "\n"
  }
}
