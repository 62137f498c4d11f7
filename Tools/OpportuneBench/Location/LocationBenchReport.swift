import OpportuneBase

/// What `opportune bench location` found.
package struct LocationBenchReport: BenchOutcome {
  package struct Result: Sendable, Encodable {
    package enum Unit: String, Sendable, Encodable {
      case microseconds, seconds, count, bytes, percent, metres
    }

    package let name: String
    /// Of the drive; `nil` for what has nothing to do with fences.
    package let fences: Int?
    /// The recorded track; `nil` for what has nothing to do with one.
    package let track: String?
    package let value: Double
    package let unit: Unit

    init(_ name: String, fences: Int? = nil, track: String? = nil, _ value: Double, _ unit: Unit) {
      self.name = name
      self.fences = fences
      self.track = track
      self.value = (value * 1000).rounded() / 1000
      self.unit = unit
    }
  }

  package let machine: MachineReport
  package let options: LocationBenchOptions
  package internal(set) var results: [Result] = []
  package internal(set) var wasInterrupted = false

  init(machine: MachineReport, options: LocationBenchOptions) {
    self.machine = machine
    self.options = options
  }

  private struct Document: Encodable {
    let machine: MachineReport
    let fixes: Int
    let repeats: Int
    let radius: Double
    let wander: Double?
    let results: [Result]
    let interrupted: Bool
  }

  package func json() throws -> String {
    let document = Document(
      machine: machine, fixes: options.fixes, repeats: options.repeats, radius: options.radius,
      wander: options.wander, results: results,
      interrupted: wasInterrupted)
    return try ReportJSON.text(of: document)
  }

  package func table() -> String {
    let rows =
      [["fences", "what", "value", "unit"]]
      + results.map { result in
        let name = (result.track.map { "\($0): " } ?? "") + result.name
        return [result.fences.map { "\($0)" } ?? "", name, fixed(result.value, 3), Self.symbol(result.unit)]
      }
    var lines = ReportTable.align(rows, isLeft: { $0 % 2 == 1 })
    if wasInterrupted { lines.append("note: interrupted; what is missing was not measured") }
    return lines.asLines
  }

  private static func symbol(_ unit: Result.Unit) -> String {
    switch unit {
    case .microseconds: "µs"
    case .seconds: "s"
    case .percent: "%"
    case .count: ""
    case .bytes: "bytes"
    case .metres: "m"
    }
  }
}
