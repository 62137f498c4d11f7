import OpportuneBase
import ToolSupport

/// The run as one page: tables, percentile curves and a timeline.
package enum HTMLReport {
  package static func render(_ report: BenchReport) -> String {
    let contenders = ReportTable.unique(report.results.map(\.contender))
    let colour: (String) -> Int = { name in contenders.firstIndex(of: name) ?? 0 }
    var parts = [facts(report.machine, report.noise, report.notes, seconds: report.seconds)]
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
      parts.append("<figure>\(HTMLCharts.timeline(series, colour: colour))")
      parts.append(
        "<figcaption>The run as it went: each stroke is 100 ms, from the median to the largest latency. Grey "
          + "strokes are left out, because the host took the CPU.</figcaption></figure></section>")
    }
    return HTMLPage.text(
      title: "opportune bench latency", heading: "Foreground latency beside background work", style: style,
      parts)
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
    return HTMLPage.table(
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

  /// Of the charts and what is about them; each contender has a colour.
  static let style = """
    :root { --k0: #0b62d6; --k1: #d1480f; --k2: #14833b; --k3: #8a3ab9; --k4: #b8860b; --k5: #c2185b; --k6: #00838f;
      --k7: #6d4c41; --k8: #546e7a; }
    @media (prefers-color-scheme: dark) { :root { --k0: #62a8ff; --k1: #ff8f5a; --k2: #5fd487; --k3: #cf94f5;
      --k4: #f0c04a; --k5: #ff7fae; --k6: #4dd0e1; --k7: #c9a592; --k8: #a7bcc7; } }
    .facts, figcaption { color: var(--soft); font-size: .9em; }
    .warning { border-left: 4px solid var(--k1); padding: .2em .8em; }
    figure { margin: 1em 0; } figure svg { width: 100%; display: block; } th { white-space: nowrap; }
    .grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; } .bar { stroke-opacity: .8; }
    .out { stroke: var(--grid); } \((0...8).map { ".c\($0) { stroke: var(--k\($0)); }" }.joined(separator: " "))
    .legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: .8em 0 0; }
    .key { width: 20px; height: 10px; margin-right: 6px; }
    """
}
