/// One measured figure.
public struct LifecycleResult: Sendable, Encodable {
  public var figure: String
  public var mode: String
  public var value: Double
  public var unit: String
}

public struct LifecycleBenchReport: Sendable {
  public var machine: MachineReport
  public var results: [LifecycleResult] = []
  public var wasInterrupted = false

  private struct Document: Encodable {
    let machine: MachineReport
    let results: [LifecycleResult]
    let interrupted: Bool
  }

  public func json() throws -> String {
    try ReportJSON.text(of: Document(machine: machine, results: results, interrupted: wasInterrupted))
  }

  public func table() -> String {
    let rows = results.map { [$0.figure, $0.mode, fixed($0.value, $0.value < 1000 ? 2 : 0), $0.unit] }
    return ReportTable.align([["figure", "mode", "value", "unit"]] + rows, isLeft: { $0 != 2 })
      .joined(separator: "\n") + "\n"
  }
}
