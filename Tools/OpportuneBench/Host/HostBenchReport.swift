/// What `opportune bench host` has found.
package struct HostBenchReport: BenchOutcome {
  /// One figure's number.
  package struct Result: Sendable, Encodable {
    package let figure: String
    package let mode: String
    package let unit: String
    /// The median, the least and the most of the samples.
    package let value: Double
    package let low: Double
    package let high: Double
    package let samples: Int

    init(_ figure: String, _ mode: String, _ unit: String, _ samples: [Double]) {
      (self.figure, self.mode, self.unit) = (figure, mode, unit)
      (value, low, high) = (median(samples), samples.min() ?? 0, samples.max() ?? 0)
      self.samples = samples.count
    }
  }

  package var machine: MachineReport
  var front: [HostFrontRow] = []
  package internal(set) var results: [Result] = []
  package internal(set) var skipped: [String] = []
  package internal(set) var wasInterrupted = false

  init(machine: MachineReport) { self.machine = machine }

  /// A contender beside a load.
  struct Front: Encodable {
    let load: String
    let contender: String
    let latencyUs: Percentiles
    let requests: UInt64
    let unanswered: Int
    /// Medians of the repeats' own ratios; nil where the other did not run.
    let p99ToAlone: Double?
    let workToWeights: Double?
    let workToPlain: Double?
    /// A second, by kind of work.
    let work: [String: Double]
  }

  func frontRows() -> [Front] {
    front.map { row in
      func other(_ contender: HostContender) -> HostFrontRow? {
        front.first { $0.load == row.load && $0.contender == contender.rawValue }
      }
      let ratios = other(.alone).map { alone in zip(row.p99, alone.p99).map { $1 > 0 ? $0 / $1 : 0 } } ?? []
      let kinds = Set(row.work.flatMap(\.keys))
      return Front(
        load: row.load, contender: row.contender, latencyUs: row.histogram.percentiles,
        requests: row.histogram.count, unanswered: row.unanswered,
        p99ToAlone: ratios.isEmpty ? nil : median(ratios),
        workToWeights: Self.ratio(row.work, other(.weights)?.work),
        workToPlain: Self.ratio(row.work, other(.plain)?.work),
        work: Dictionary(
          uniqueKeysWithValues: kinds.map { kind in (kind, median(row.work.compactMap { $0[kind] })) }))
    }
  }

  /// The median over repeats of the mean over kinds of work, which have no common unit.
  static func ratio(_ work: [[String: Double]], _ other: [[String: Double]]?) -> Double? {
    guard let other else { return nil }
    let ratios = zip(work, other).compactMap { own, other -> Double? in
      let kinds = own.compactMap { kind, count in other[kind].flatMap { $0 > 0 ? count / $0 : nil } }
      return kinds.isEmpty ? nil : kinds.reduce(0, +) / Double(kinds.count)
    }
    return ratios.isEmpty ? nil : median(ratios)
  }

  private struct Document: Encodable {
    let machine: MachineReport
    let front: [Front]
    let results: [Result]
    let skipped: [String]
    let interrupted: Bool
  }

  package func json() throws -> String {
    try ReportJSON.text(
      of: Document(
        machine: machine, front: frontRows(), results: results, skipped: skipped, interrupted: wasInterrupted)
    )
  }

  package func table() -> String {
    var lines: [String] = []
    let rows = frontRows()
    for load in ReportTable.unique(rows.map(\.load)) {
      lines.append("redis-server in front, \(load) behind: intended request to answer, us")
      var cells = [
        [
          "contender", "p50", "p90", "p99", "p99.9", "max", "p99 × alone", "work × weights", "work × plain",
          "requests", "unanswered",
        ]
      ]
      for row in rows where row.load == load {
        let latency = row.latencyUs
        cells.append(
          [row.contender]
            + [latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(microseconds)
            + [row.p99ToAlone, row.workToWeights, row.workToPlain].map { $0.map { fixed($0, 2) } ?? "–" }
            + ["\(row.requests)", "\(row.unanswered)"])
      }
      lines += ReportTable.align(cells) + [""]
    }
    if !results.isEmpty {
      let cells = results.map { result in
        [
          result.figure, result.mode, Self.number(result.value), Self.number(result.low),
          Self.number(result.high), result.unit,
        ]
      }
      lines += ReportTable.align(
        [["figure", "mode", "median", "least", "most", "unit"]] + cells, isLeft: { ![2, 3, 4].contains($0) })
      lines.append("")
    }
    for line in skipped { lines.append("skipped: \(line)") }
    if wasInterrupted { lines.append("interrupted: it has what was measured until then") }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func number(_ value: Double) -> String { fixed(value, value < 1000 ? 1 : 0) }
}
