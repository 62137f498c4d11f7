/// One measured figure: the median of its repeats.
public struct MemoryResult: Sendable, Encodable {
  public var figure: String
  public var mode: String
  public var unit: String
  public var value: Double
  /// Smallest and largest of the repeats.
  public var low: Double
  public var high: Double
  public var rival: String?
  /// Median over the repeats of this ÷ the rival of the same repeat.
  public var ratioToRival: Double?
  // The same by the rival's name, and the value by its unit: for who looks for one figure.
  public var ns: Double?
  public var ratioToMutex: Double?
  public var ratioToMadvise: Double?
  /// The same where a rival is a dictionary with a cost limit behind a mutex.
  public var ratioToDictionary: Double?
  /// The same where the rival is the bare disk.
  public var ratioToDisk: Double?
  /// Of one hibernation, as the kernel counts what it is given: the record and both copies of the index.
  public var bytesWritten: Double?

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

public struct MemoryBenchReport: Sendable {
  public var machine: MachineReport
  public var repeats: Int
  public var mebibytes: Int
  public var results: [MemoryResult] = []
  /// What was not measured here, and why.
  public var skipped: [String] = []
  public var wasInterrupted = false

  private struct Document: Encodable {
    let machine: MachineReport
    let repeats: Int
    let mebibytes: Int
    let results: [MemoryResult]
    let skipped: [String]
    let interrupted: Bool
  }

  public func json() throws -> String {
    let document = Document(
      machine: machine, repeats: repeats, mebibytes: mebibytes, results: results, skipped: skipped,
      interrupted: wasInterrupted)
    return try ReportJSON.text(of: document)
  }

  public func table() -> String {
    var rows = [["figure", "mode", "median", "low", "high", "unit", "÷ rival", "bytes written"]]
    for result in results {
      rows.append([
        result.figure, result.mode, fixed(result.value, 2), fixed(result.low, 2), fixed(result.high, 2), result.unit,
        result.ratios,
        result.bytesWritten.map { fixed($0, 0) } ?? "",
      ])
    }
    let lines = ReportTable.align(rows, isLeft: { !(2...4).contains($0) }) + skipped.map { "skipped: \($0)" }
    return lines.joined(separator: "\n") + "\n"
  }
}
