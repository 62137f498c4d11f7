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
  var memory: [HostMemoryRow] = []
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

  /// A way of the memory figure.
  struct Memory: Encodable {
    /// Median, least and most of the repeats in which the program in front came to have its memory.
    struct Spread: Encodable {
      let median: Double
      let least: Double
      let most: Double

      init?(_ samples: [Double]) {
        guard let least = samples.min(), let most = samples.max() else { return nil }
        (median, self.least, self.most) = (
          rounded(OpportuneBench.median(samples)), rounded(least), rounded(most)
        )
      }
    }

    let contender: String
    /// `nil`: there is no swap.
    let swapOn: String?
    let repeats: Int
    let takenMs: Spread?
    let longestPageMs: Spread?
    let swappedMb: Spread?
    let frontLost: Int
    let hostLost: Int
    /// By what became of them, and then by name, in how many repeats.
    let went: [String: [String: Int]]

    init(_ row: HostMemoryRow) {
      (contender, swapOn, repeats) = (row.way.rawValue, row.swapPlace?.rawValue, row.went.count)
      (takenMs, longestPageMs, swappedMb) = (Spread(row.taken), Spread(row.longest), Spread(row.swapped))
      (frontLost, hostLost) = (row.frontLost, row.hostLost)
      var went: [String: [String: Int]] = [:]
      for one in row.went {
        for (name, fate) in one { went[fate.rawValue, default: [:]][name, default: 0] += 1 }
      }
      self.went = went
    }

    /// For people: who went how, in how many repeats.
    var told: String {
      let parts = HostMemoryRow.Fate.allCases.compactMap { fate in
        went[fate.rawValue].map { names in
          let each = names.sorted { $0.key < $1.key }.map {
            $1 == repeats ? $0 : "\($0) (\($1) of \(repeats))"
          }
          return "\(fate.rawValue): \(each.joined(separator: ", "))"
        }
      }
      let host = hostLost > 0 ? ["the host itself killed by the kernel (\(hostLost) of \(repeats))"] : []
      return (parts + host).isEmpty ? "–" : (parts + host).joined(separator: "; ")
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
    let memory: [Memory]
    let results: [Result]
    let skipped: [String]
    let interrupted: Bool
  }

  package func json() throws -> String {
    try ReportJSON.text(
      of: Document(
        machine: machine, front: frontRows(), memory: memory.map(Memory.init), results: results,
        skipped: skipped, interrupted: wasInterrupted)
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
    if !memory.isEmpty {
      lines.append("memory short: from its start until the program in front has its memory, ms")
      var cells = [
        [
          "contender", "swap", "median", "least", "most", "longest page", "MB swapped", "front lost",
          "who went",
        ]
      ]
      for row in memory.map(Memory.init) {
        let times = [row.takenMs?.median, row.takenMs?.least, row.takenMs?.most, row.longestPageMs?.median]
        cells.append(
          [row.contender, row.swapOn ?? "–"] + times.map { $0.map { fixed($0, 1) } ?? "–" }
            + [
              row.swappedMb.map { fixed($0.median, 0) } ?? "–", "\(row.frontLost) of \(row.repeats)",
              row.told,
            ])
      }
      lines += ReportTable.align(cells, isLeft: { $0 < 2 || $0 == 8 }) + [""]
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
