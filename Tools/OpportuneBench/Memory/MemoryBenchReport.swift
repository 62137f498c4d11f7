/// One measured figure: the median of its repeats.
package struct MemoryResult: Sendable, Encodable {
  package var figure: String
  package var mode: String
  package var unit: String
  package var value: Double
  /// Smallest and largest of the repeats.
  package var low: Double
  package var high: Double
  package var rival: String?
  /// Median over the repeats of this ÷ the rival of the same repeat.
  package var ratioToRival: Double?
  // The same by the rival's name, and the value by its unit: for who looks for one figure.
  package var ns: Double?
  package var ratioToMutex: Double?
  package var ratioToMadvise: Double?
  /// The same where a rival is a dictionary with a cost limit behind a mutex.
  package var ratioToDictionary: Double?
  /// The same where the rival is the bare disk.
  package var ratioToDisk: Double?
  /// Of one hibernation, as the kernel counts what it is given: the record and both copies of the index.
  package var bytesWritten: Double?

  mutating func add(_ rival: String, _ ratio: Double) {
    if self.rival == nil { (self.rival, ratioToRival) = (rival, ratio) }
    if rival == "mutex" { ratioToMutex = ratio }
    if rival.hasPrefix("madvise") { ratioToMadvise = ratio }
    if rival.hasPrefix("dictionary") { ratioToDictionary = ratio }
  }

  /// Each rival, and the ratio to it.
  var ratios: String {
    var ratios = ratioToRival.map { ["\(fixed($0, 3)) of \(rival ?? "")"] } ?? []
    if let ratioToDictionary, ratioToDictionary != ratioToRival {
      ratios.append("\(fixed(ratioToDictionary, 3)) of dictionary")
    }
    return ratios.joined(separator: ", ")
  }
}

package struct MemoryBenchReport: BenchOutcome, Encodable {
  package var machine: MachineReport
  package var repeats: Int
  package var mebibytes: Int
  package var results: [MemoryResult] = []
  /// What was not measured here, and why.
  package var skipped: [String] = []
  package var wasInterrupted = false

  private enum CodingKeys: String, CodingKey {
    case machine, repeats, mebibytes, results, skipped
    case wasInterrupted = "interrupted"
  }

  package func table() -> String {
    var rows = [["figure", "mode", "median", "low", "high", "unit", "÷ rival", "bytes written"]]
    for result in results {
      rows.append([
        result.figure, result.mode, fixed(result.value, 2), fixed(result.low, 2), fixed(result.high, 2),
        result.unit,
        result.ratios,
        result.bytesWritten.map { fixed($0, 0) } ?? "",
      ])
    }
    let lines = ReportTable.align(rows, isLeft: { !(2...4).contains($0) }) + skipped.map { "skipped: \($0)" }
    return lines.joined(separator: "\n") + "\n"
  }
}
