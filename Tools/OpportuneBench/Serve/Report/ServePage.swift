import OpportuneBase
import ToolSupport

/// A run of `opportune bench serve` as one page that needs nothing else.
package enum ServePage {
  package static func render(_ report: ServeReport) -> String {
    let contenders = ReportTable.unique(report.tallies.map(\.contender))
    let colour: (String) -> Int = { name in contenders.firstIndex(of: name) ?? 0 }
    var parts = [
      HTMLReport.facts(report.machine, report.noise, report.notes, seconds: report.seconds)
    ]
    parts += HTMLReport.warnings(report.noise, wasInterrupted: report.wasInterrupted)
    for load in ServePlan.Load.allCases.reversed() {
      let tallies = report.tallies.filter { $0.load == load }
      guard !tallies.isEmpty else { continue }
      let series = tallies.map(\.series)
      parts.append("<section><h2>\(load.rawValue.inHTML)</h2>")
      parts.append(HTMLReport.legend(series, colour))
      parts.append("<figure>\(HTMLCharts.curves(series, colour: colour))")
      parts.append(
        "<figcaption>Short queries, intended keystroke to answer. Lower is better; to the right the rarer ones."
          + "</figcaption></figure>")
      for kind in ServeRequest.Kind.allCases {
        let rows = report.rows.filter { $0.tally.load == load && $0.kind == kind }
        guard !rows.isEmpty else { continue }
        parts.append("<h3>\(kind) requests, µs</h3>")
        parts.append(HTMLPage.table(ServeTable.latencyHeads, rows.map(ServeTable.latencyCells)))
        if rows.contains(where: { $0.leftOut > 0 }) {
          parts.append("<h4>The same with those that are left out, µs</h4>")
          parts.append(HTMLPage.table(ServeTable.leftOutHeads, rows.map(ServeTable.leftOutCells)))
        }
        let repeats = rows.compactMap(ServeTable.repeatCells)
        if !repeats.isEmpty {
          parts.append("<h4>By repeat: median (least–most) over the repeats, µs</h4>")
          parts.append(HTMLPage.table(ServeTable.repeatHeads, repeats))
        }
        parts.append("<h4>Where the time went, mean µs</h4>")
        parts.append(HTMLPage.table(ServeTable.spentHeads, rows.flatMap(ServeTable.spentCells)))
      }
      parts.append("<h3>What else was done</h3>")
      parts.append(HTMLPage.table(ServeTable.serverHeads, tallies.map(ServeTable.serverCells)))
      parts += tallies.flatMap(ServeTable.serverNotes).map { "<p>\($0.inHTML)</p>" }
      // Contenders take turns, so each has a strip of the time of its own.
      for one in series {
        parts.append("<figure>\(HTMLCharts.timeline([one], colour: colour))")
        parts.append(
          "<figcaption>\(one.contender.inHTML): short queries, each stroke 100 ms from the median to the longest; "
            + "below, heavy requests from their question to their answer, with a mark where their thread was seen "
            + "at a lower priority.</figcaption></figure>")
      }
      parts.append("</section>")
    }
    return HTMLPage.text(
      title: "opportune bench serve", heading: "A search server that indexes meanwhile",
      style: HTMLReport.style,
      parts)
  }
}
