/// A run of `opportune bench serve` as text for a terminal.
package enum ServeTable {
  package static func render(_ report: ServeReport) -> String {
    var lines = [ReportTable.head(report.machine, seconds: report.seconds)]
    lines += report.notes
    for load in ServePlan.Load.allCases {
      let rows = report.rows.filter { $0.tally.load == load }
      for kind in ServeRequest.Kind.allCases {
        let own = rows.filter { $0.kind == kind }
        guard !own.isEmpty else { continue }
        lines += ["", "\(load.rawValue), \(kind) requests: intended keystroke to answer, us"]
        lines += ReportTable.align([latencyHeads] + own.map(latencyCells))
        lines += withLeftOut(own)
        lines += repeats(own)
        guard own.contains(where: { $0.spending.all.requests > 0 }) else { continue }
        lines += ["", "\(load.rawValue), \(kind) requests: where the time went, mean us"]
        lines += ReportTable.align([spentHeads] + own.flatMap(spentCells))
      }
      let tallies = report.tallies.filter { $0.load == load }
      guard !tallies.isEmpty else { continue }
      lines += ["", "\(load.rawValue): what else was done"]
      lines += ReportTable.align([serverHeads] + tallies.map(serverCells))
      lines += tallies.flatMap(serverNotes)
    }
    lines.append("")
    if !report.tallies.allSatisfy(\.isRealTime) {
      lines.append("the clients' thread was an ordinary one: a real-time class was not allowed")
    }
    lines += ReportTable.footer(report.noise, wasInterrupted: report.wasInterrupted)
    return lines.joined(separator: "\n") + "\n"
  }

  static let latencyHeads = ["contender", "p50", "p90", "p99", "p99.9", "max", "requests"]

  static func latencyCells(_ row: ServeReport.Row) -> [String] {
    [row.tally.contender] + row.latency.cells + [String(row.account.samples)]
  }

  static let leftOutHeads = ["contender", "p99", "p99.9", "max", "left out"]

  static func leftOutCells(_ row: ServeReport.Row) -> [String] {
    [row.tally.contender] + row.latencyOfAll.cells.suffix(3) + [String(row.leftOut)]
  }

  /// The figures of all requests as well, where some are left out: a reader sees what that changes.
  private static func withLeftOut(_ rows: [ServeReport.Row]) -> [String] {
    guard rows.contains(where: { $0.leftOut > 0 }) else { return [] }
    return ["", "the same with those that are left out, us"]
      + ReportTable.align([leftOutHeads] + rows.map(leftOutCells))
  }

  static let repeatHeads = ["contender", "p50", "p90", "p99", "p99.9", "max"]

  /// nil where there is one repeat, or none is told.
  static func repeatCells(_ row: ServeReport.Row) -> [String]? {
    guard let repeats = row.repeats, repeats.max.count > 1 else { return nil }
    return [row.tally.contender] + repeats.cells
  }

  private static func repeats(_ rows: [ServeReport.Row]) -> [String] {
    let cells = rows.compactMap(repeatCells)
    guard !cells.isEmpty else { return [] }
    return ["", "the same by repeat: median (least–most) over the repeats, us"]
      + ReportTable.align([repeatHeads] + cells)
  }

  static let spentHeads = ["contender"] + ServeTimeSpent.Part.allCases.map(\.head) + ["requests"]

  /// A line of all, and one of the latest hundredth where there are enough.
  static func spentCells(_ row: ServeReport.Row) -> [[String]] {
    [(row.tally.contender, row.spending.all), ("  latest 1 %", row.spending.late)].compactMap { name, spent in
      guard spent.requests > 0 else { return nil }
      return [name] + ServeTimeSpent.Part.allCases.map { microseconds(spent[$0]) } + [String(spent.requests)]
    }
  }

  static let serverHeads = [
    "contender", "background CPU s", "background MB", "documents/s", "MB/s", "merges", "merged MB",
    "checked MB", "cache hits", "lowered after ms",
    "MB resident", "refused", "unanswered", "sent late p99, us", "max",
  ]

  /// What a row of the server's table cannot say in a figure.
  static func serverNotes(_ tally: ServeTally) -> [String] {
    [shareNote(tally), realTimeNote(tally)].compactMap { $0.map { "\(tally.contender): \($0)" } }
  }

  private static func shareNote(_ tally: ServeTally) -> String? {
    guard !tally.shares.isEmpty else { return nil }
    let shares = tally.shares.map { share in
      "workers \(share.workers), device \(share.eighths)/8, cuts \(share.cuts), raises \(share.raises)"
    }
    return "background at the end of each repeat: \(shares.joined(separator: "; "))"
  }

  private static func realTimeNote(_ tally: ServeTally) -> String? {
    switch tally.realTime {
    case .refused: "the real-time class was refused, so it ran without"
    case .realtimeKit: "in the real-time class were the I/O broker's threads alone, by leave of RealtimeKit"
    case .roundRobin, nil: nil
    }
  }

  static func serverCells(_ tally: ServeTally) -> [String] {
    let late = tally.lateness
    return [
      tally.contender, fixed(tally.backgroundCPUSeconds, 2), fixed(tally.backgroundMegabytes, 0),
      fixed(tally.documentsPerSecond, 0), fixed(tally.indexedMegabytesPerSecond, 1),
      String(tally.count.merges), fixed(tally.mergedMegabytes, 0), fixed(tally.checkedMegabytes, 0),
      "\(fixed(tally.hitShare * 100, 0)) %",
      tally.lowered.isEmpty ? "–" : fixed(median(tally.lowered) / 1000, 1), fixed(tally.residentMegabytes, 0),
      String(tally.count.refused), String(tally.unanswered), late.p99.map(microseconds) ?? "–",
      late.max.map(microseconds) ?? "–",
    ]
  }
}
