import OpportuneBase

/// The run as one page that needs nothing else: tables, percentile curves and a timeline, light or dark as
/// the reader's system is.
package enum HTMLReport {
  package static func render(_ report: BenchReport) -> String {
    let contenders = ReportTable.unique(report.results.map(\.contender))
    let colour: (String) -> Int = { name in contenders.firstIndex(of: name) ?? 0 }
    var parts = [
      head("opportune bench latency"), "<h1>Foreground latency beside background work</h1>", facts(report),
    ]
    parts += warnings(report.noise, wasInterrupted: report.wasInterrupted)
    for scenario in ReportTable.unique(report.results.map(\.scenario)) {
      let rows = report.results.filter { $0.scenario == scenario }
      parts.append("<section><h2>\(scenario.inHTML)</h2>")
      if let summary = Scenario.all.first(where: { $0.name == scenario })?.summary {
        parts.append("<p>\(summary.inHTML)</p>")
      }
      let series = rows.map(\.series)
      parts.append(legend(series, colour))
      parts.append("<figure>\(HTMLCharts.curves(series, colour: colour))")
      parts.append(
        "<figcaption>Latency, submit to start. Lower is better; to the right the rarer jobs.</figcaption>")
      parts.append("</figure>")
      parts.append(table(rows))
      parts.append(indexing(rows))
      parts.append("<figure>\(HTMLCharts.timeline(series, colour: colour))")
      parts.append(
        "<figcaption>The run as it went: each stroke is 100 ms, from the median to the largest latency. Grey "
          + "strokes are left out, because the host took the CPU.</figcaption></figure></section>")
    }
    parts.append(foot)
    return parts.joined(separator: "\n") + "\n"
  }

  private static func facts(_ report: BenchReport) -> String {
    facts(report.machine, report.noise, report.notes, seconds: report.seconds)
  }

  static func facts(
    _ machine: MachineReport, _ noise: NoiseReport, _ notes: [String], seconds: Double
  ) -> String {
    var lines = [
      "\(machine.cores) cores, \(machine.cpu), \(machine.memoryMib / 1024) GiB, Linux \(machine.kernel), "
        + "run as \(machine.user), \(fixed(seconds, 0)) s.",
      "\(noise.slicesLeftOut) of \(noise.slices) slices left out; the host took \(fixed(noise.stolenShare * 100, 1)) % "
        + "and other programs \(fixed(noise.otherProgramsShare * 100, 1)) % of the CPU time.",
    ]
    lines += notes.map { $0 + "." }
    return lines.map { "<p class=facts>\($0.inHTML)</p>" }.joined(separator: "\n")
  }

  static func warnings(_ noise: NoiseReport, wasInterrupted: Bool) -> [String] {
    var parts: [String] = []
    if !noise.isValid {
      parts.append(
        "<p class=warning>More than the allowed share of this run was disturbed by the host: the figures "
          + "do not count.</p>")
    }
    if wasInterrupted {
      parts.append("<p class=warning>The run was interrupted: fewer repeats than asked for.</p>")
    }
    return parts
  }

  static func legend(_ series: [ChartSeries], _ colour: (String) -> Int) -> String {
    let items = series.map { row in
      "<li><svg class=key viewBox=\"0 0 20 10\" aria-hidden=true><line class=\"line c\(colour(row.contender))\" "
        + "x1=0 x2=20 y1=5 y2=5 /></svg>\(row.contender.inHTML)</li>"
    }
    return "<ul class=legend>\(items.joined())</ul>"
  }

  private static func table(_ rows: [ResultRow]) -> String {
    let limit = rows.first?.limitName ?? ""
    let heads = [
      "µs", "p50", "p90", "p99", "p99.9", "max", "× \(limit)", "alone p99", "background kept", "not started",
      "samples", "lock-free",
    ]
    return table(
      heads,
      rows.map { row in
        let latency = row.latency
        return [row.contender]
          + [latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(microseconds) + [
            row.ratioToLimit.map { fixed($0, 2) } ?? "–",
            row.alone.samples > 0 ? microseconds(row.alone.latency.p99) : "–", ReportTable.kept(row.kept),
            String(row.unfinished), String(row.samples),
            row.lockFree.split(separator: ":").first.map(String.init) ?? row.lockFree,
          ]
      })
  }

  /// Empty where no row is of the search.
  private static func indexing(_ rows: [ResultRow]) -> String {
    guard rows.contains(where: { $0.indexing != nil }) else { return "" }
    return "<h3>Intended keystroke to answer, and indexing</h3>"
      + table(
        [
          "", "answer p50, µs", "p99", "idle p50", "idle p99", "MiB/s", "alone", "whole tree, s", "alone",
          "answers checked",
        ],
        rows.map { row in
          let indexing = row.indexing
          return [
            row.contender, microseconds(row.intendedFinish.p50), microseconds(row.intendedFinish.p99),
            microseconds(row.alone.intendedFinish.p50), microseconds(row.alone.intendedFinish.p99),
            indexing.map { fixed($0.rate, 1) } ?? "–", indexing.map { fixed($0.rateAlone, 1) } ?? "–",
            indexing.map { fixed($0.treeSeconds, 1) } ?? "–",
            indexing.map { fixed($0.treeSecondsAlone, 1) } ?? "–",
            indexing.map { String($0.answersChecked) } ?? "–",
          ]
        })
  }

  static func table(_ heads: [String], _ rows: [[String]]) -> String {
    let head = heads.map { "<th scope=col>\($0.inHTML)</th>" }.joined()
    let body = rows.map { row in
      "<tr><th scope=row>\((row.first ?? "").inHTML)</th>"
        + row.dropFirst().map { "<td>\($0.inHTML)</td>" }.joined() + "</tr>"
    }
    return "<div class=scroll><table><thead><tr>\(head)</tr></thead>"
      + "<tbody>\(body.joined(separator: "\n"))</tbody></table></div>"
  }

  static let foot = "</main></body></html>"

  static func head(_ title: String) -> String {
    """
    <!DOCTYPE html>
    <html lang=en><head><meta charset=utf-8>
    <meta name=viewport content="width=device-width, initial-scale=1">
    <title>\(title.inHTML)</title>
    <style>
    :root { color-scheme: light dark; --paper: #fff; --ink: #1d2127; --soft: #5b6470; --grid: #dfe3e8;
      --k0: #0b62d6; --k1: #d1480f; --k2: #14833b; --k3: #8a3ab9; --k4: #b8860b; --k5: #c2185b; --k6: #00838f;
      --k7: #6d4c41; --k8: #546e7a; }
    @media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8eaed; --soft: #9aa4b0;
      --grid: #2d333b; --k0: #62a8ff; --k1: #ff8f5a; --k2: #5fd487; --k3: #cf94f5; --k4: #f0c04a; --k5: #ff7fae;
      --k6: #4dd0e1; --k7: #c9a592; --k8: #a7bcc7; } }
    body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
    main { max-width: 1000px; margin: 0 auto; padding: 24px 16px 64px; }
    h1 { font-size: 1.5em; margin: 0 0 .4em; } h2 { font-size: 1.2em; margin: 2em 0 .2em; } h3 { font-size: 1em; margin: 1.2em 0 .2em; }
    p { margin: .3em 0; } .facts, figcaption { color: var(--soft); font-size: .9em; }
    .warning { border-left: 4px solid var(--k1); padding: .2em .8em; }
    figure { margin: 1em 0; } figure svg { width: 100%; height: auto; display: block; }
    svg text { fill: var(--soft); font-size: 12px; } .grid { stroke: var(--grid); }
    .line { fill: none; stroke-width: 2; } .bar { stroke-opacity: .8; } .out { stroke: var(--grid); }
    .c0 { stroke: var(--k0); } .c1 { stroke: var(--k1); } .c2 { stroke: var(--k2); } .c3 { stroke: var(--k3); }
    .c4 { stroke: var(--k4); } .c5 { stroke: var(--k5); } .c6 { stroke: var(--k6); } .c7 { stroke: var(--k7); }
    .c8 { stroke: var(--k8); }
    .legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: .8em 0 0; }
    .key { width: 20px; height: 10px; margin-right: 6px; }
    .scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85em; white-space: nowrap; }
    th, td { padding: .3em .7em; text-align: right; border-bottom: 1px solid var(--grid);
      font-variant-numeric: tabular-nums; } th:first-child { text-align: left; } thead th { color: var(--soft); }
    </style></head><body><main>
    """
  }
}
