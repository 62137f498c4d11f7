/// One measured point: medians over the repeats.
package struct IOResult: Sendable, Encodable {
  package var figure: String
  package var mode: String
  package var load: String?
  /// Of the foreground, in microseconds; the median of the repeats' percentiles.
  package var latencyUs: Percentiles?
  /// Smallest and largest of the repeats.
  package var p99RangeUs: [Double]?
  /// Foreground p99 ÷ that of `alone`.
  package var p99RatioToAlone: Double?
  package var operationsPerSecond: Double?
  package var operationsRange: [Double]?
  package var megabytesPerSecond: Double?
  /// Background operations ÷ those of `uncontrolled` in the same run.
  package var backgroundKept: Double?
  /// Of the figure's own rival: bare liburing, fio, or the limit that was set.
  package var ratioToRival: Double?
  /// Smallest and largest of the ratios in one turn.
  package var ratioRange: [Double]?
  package var note: String?

  init(_ figure: IOBenchOptions.Figure, _ mode: String, load: String? = nil) {
    self.figure = figure.rawValue
    self.mode = mode
    self.load = load
  }

  /// Rates of the repeats, and what they are of a rival's in the same turns.
  mutating func setRates(_ rates: [Double], rival: [Double]? = nil) {
    operationsPerSecond = median(rates)
    operationsRange = [rates.min() ?? 0, rates.max() ?? 0]
    let ratios = zip(rates, rival ?? []).filter { $0.1 > 0 }.map { $0.0 / $0.1 }
    guard let least = ratios.min(), let most = ratios.max() else { return }
    ratioToRival = median(ratios)
    ratioRange = [least, most]
  }
}

package struct IOBenchReport: BenchOutcome, Encodable {
  package var machine: MachineReport
  package var seconds: Double
  package var repeats: Int
  package var results: [IOResult] = []
  package var notes: [String] = []
  package var wasInterrupted = false

  private enum CodingKeys: String, CodingKey {
    case machine, seconds, repeats, results, notes
    case wasInterrupted = "interrupted"
  }

  package func json() throws -> String {
    var report = self
    report.results = results.map(\.rounded)
    return try ReportJSON.text(of: report)
  }

  package func table() -> String {
    var rows = [
      [
        "figure", "mode", "load", "p50", "p99", "p99.9 µs", "÷ alone", "ops/s", "MB/s", "kept", "÷ rival",
        "in one turn",
      ]
    ]
    for result in results {
      rows.append([
        result.figure, result.mode, result.load ?? "", text(result.latencyUs?.p50, 1),
        text(result.latencyUs?.p99, 1),
        text(result.latencyUs?.p999, 1), text(result.p99RatioToAlone, 2), text(result.operationsPerSecond, 0),
        text(result.megabytesPerSecond, 1), text(result.backgroundKept, 2), text(result.ratioToRival, 3),
        result.ratioRange.map { $0.map { fixed($0, 3) }.joined(separator: " to ") } ?? "",
      ])
    }
    var lines = ReportTable.align(rows, isLeft: { $0 < 3 })
    lines += notes.map { "note: \($0)" }
    return lines.joined(separator: "\n") + "\n"
  }

  private func text(_ value: Double?, _ digits: Int) -> String {
    value.map { fixed($0, digits) } ?? ""
  }
}

extension IOResult {
  fileprivate var rounded: IOResult {
    func round(_ value: Double?) -> Double? { value.map { ($0 * 1000).rounded() / 1000 } }
    var copy = self
    copy.p99RatioToAlone = round(p99RatioToAlone)
    copy.operationsPerSecond = round(operationsPerSecond)
    copy.operationsRange = operationsRange?.compactMap(round)
    copy.megabytesPerSecond = round(megabytesPerSecond)
    copy.backgroundKept = round(backgroundKept)
    copy.ratioToRival = round(ratioToRival)
    copy.ratioRange = ratioRange?.compactMap(round)
    return copy
  }
}

func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  guard let last = sorted.last else { return 0 }
  let middle = sorted.count / 2
  return sorted.count % 2 == 1
    ? sorted[middle] : (sorted[middle - 1] + (sorted.count > 1 ? sorted[middle] : last)) / 2
}

extension Percentiles {
  /// Each percentile's median over the repeats.
  static func median(_ repeats: [Percentiles]) -> Percentiles {
    var result = Percentiles()
    for path in [\Percentiles.p50, \.p90, \.p99, \.p999, \.max] as [WritableKeyPath<Percentiles, Double>] {
      result[keyPath: path] = OpportuneBench.median(repeats.map { $0[keyPath: path] })
    }
    return result
  }
}
