/// A number with `digits` after the point.
func fixed(_ value: Double, _ digits: Int) -> String {
  guard value.isFinite, abs(value) < 1e15 else { return "–" }
  var scale = 1.0
  for _ in 0..<digits { scale *= 10 }
  let scaled = Int64((abs(value) * scale).rounded())
  let sign = value < 0 && scaled != 0 ? "-" : ""
  let whole = scaled / Int64(scale)
  guard digits > 0 else { return "\(sign)\(whole)" }
  let fraction = String(scaled % Int64(scale))
  return "\(sign)\(whole).\(String(repeating: "0", count: digits - fraction.count))\(fraction)"
}

/// Microseconds as a reader wants them: a decimal below ten, thousands apart above a thousand.
func microseconds(_ value: Double) -> String {
  if value < 10 { return fixed(value, 1) }
  var text = fixed(value, 0)
  var index = text.count - 3
  while index > 0 {
    text.insert(",", at: text.index(text.startIndex, offsetBy: index))
    index -= 3
  }
  return text
}

/// The table on standard output.
package enum ReportTable {
  package static func render(_ report: BenchReport) -> String {
    var lines: [String] = []
    lines.append(head(report.machine, seconds: report.seconds))
    lines += report.notes
    for scenario in unique(report.results.map(\.scenario)) {
      let rows = report.results.filter { $0.scenario == scenario }
      lines.append("")
      lines += table(scenario, rows)
      lines += ends(scenario, rows)
    }
    lines.append("")
    lines += footer(report.noise, wasInterrupted: report.wasInterrupted)
    return lines.joined(separator: "\n") + "\n"
  }

  static func head(_ machine: MachineReport, seconds: Double) -> String {
    "\(machine.cores) cores, \(machine.cpu), Linux \(machine.kernel), run as \(machine.user), "
      + "\(fixed(seconds, 0)) s"
  }

  /// Values once each, in the order of their first appearance.
  static func unique(_ values: [String]) -> [String] {
    var seen: Set<String> = []
    return values.filter { seen.insert($0).inserted }
  }

  static func kept(_ kept: KeptInterval?) -> String {
    kept.map { "\(fixed($0.value, 2)) [\(fixed($0.low, 2))–\(fixed($0.high, 2))]" } ?? "–"
  }

  private static func table(_ scenario: String, _ rows: [ResultRow]) -> [String] {
    let limit = rows.first?.limitName ?? ""
    var cells = [
      [
        scenario, "p50", "p90", "p99", "p99.9", "max", "× \(limit)", "alone p99", "background kept",
        "not started", "samples", "switches/s", "MiB",
      ]
    ]
    for row in rows {
      let latency = row.latency
      cells.append([
        row.contender, microseconds(latency.p50), microseconds(latency.p90), microseconds(latency.p99),
        microseconds(latency.p999), microseconds(latency.max),
        row.ratioToLimit.map { fixed($0, 2) } ?? "–",
        row.alone.samples > 0 ? microseconds(row.alone.latency.p99) : "–", kept(row.kept),
        String(row.unfinished), String(row.samples), microseconds(row.footprint.switchesPerSecond),
        fixed(row.footprint.residentMebibytes, 0),
      ])
    }
    return ["Latency in us, submit to start"] + align(cells)
  }

  /// Where a job waits inside, for a lock, its start says little.
  private static func ends(_ scenario: String, _ rows: [ResultRow]) -> [String] {
    guard Scenario.all.contains(where: { $0.name == scenario && $0.sharesLock }) else { return [] }
    var cells = [["the lock taken, us", "p50", "p90", "p99", "p99.9", "max", "alone p99"]]
    for row in rows {
      let end = row.intendedFinish
      cells.append(
        [row.contender]
          + [end.p50, end.p90, end.p99, end.p999, end.max].map(microseconds)
          + [row.alone.samples > 0 ? microseconds(row.alone.intendedFinish.p99) : "–"])
    }
    return ["", "Intended start to end"] + align(cells)
  }

  /// How far the machine was disturbed, and what follows from that.
  static func footer(_ noise: NoiseReport, wasInterrupted: Bool) -> [String] {
    var lines = [
      "noise: \(noise.slicesLeftOut) of \(noise.slices) slices left out (\(percent(noise.invalidShare))), host took "
        + "\(percent(noise.stolenShare)), other programs \(percent(noise.otherProgramsShare)) of the CPU time, "
        + "canary at most \(fixed(noise.canaryMax, 2))"
    ]
    if noise.standstills > 0 {
      lines.append(
        "the device stood still \(noise.standstills) times, \(fixed(noise.standstillSeconds, 2)) s in all, "
          + "\(fixed(noise.standstillMax, 2)) s at most; requests that were under way then are left out, "
          + "and in the figures with those that are")
    }
    if noise.otherProgramsShare > 0.1 {
      lines.append("warning: other programs were busy; compare only within this run")
    }
    if !noise.isValid {
      lines.append(
        "INVALID: more than \(percent(noise.invalidShareMax)) of the run was disturbed by the host; run it again"
      )
    }
    if wasInterrupted { lines.append("interrupted: fewer repeats than asked for") }
    return lines
  }

  private static func percent(_ share: Double) -> String { "\(fixed(share * 100, 1)) %" }

  /// Columns of which `isLeft` says the number are left-aligned, by default the first; the others
  /// right-aligned.
  static func align(_ rows: [[String]], isLeft: (Int) -> Bool = { $0 == 0 }) -> [String] {
    let columns = rows.map(\.count).max() ?? 0
    let widths = (0..<columns).map { column in
      rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    return rows.map { row in
      row.enumerated().map { column, cell in
        let padding = String(repeating: " ", count: widths[column] - cell.count)
        guard isLeft(column) else { return padding + cell }
        return column == columns - 1 ? cell : cell + padding
      }.joined(separator: "  ")
    }
  }
}
