import OpportuneBase

/// One self-contained page. No script, nothing fetched.
func document(title: String, body: String) -> String {
  """
  <!doctype html>
  <html lang="en"><head><meta charset="utf-8"><title>\(title.inHTML)</title>
  <meta name="viewport" content="width=device-width">
  <style>
  body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em; color: #1b1b1b; background: #fff }
  h1 { font-size: 1.3em } h2 { font-size: 1.1em } pre { font-size: 13px; overflow-x: auto; background: #f5f5f3; padding: 1em }
  svg { width: 100%; height: auto } text { font: 11px system-ui, sans-serif; fill: #333 }
  .foreground { fill: #1a7f4e } .background { fill: #e0a100 } .suspended { fill: #9aa7b5 } .hibernated { fill: #6a5acd }
  .tick { stroke: #ddd } .divergence { stroke: #c0262d; stroke-width: 1.5 } .removal { fill: #1b1b1b }
  .key span { margin-right: 1.5em; white-space: nowrap }
  .key i { display: inline-block; width: 1em; height: 1em; vertical-align: -0.15em; margin-right: 0.4em }
  table { border-collapse: collapse; font-size: 14px } th, td { padding: 0.2em 0.8em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
  .number { text-align: right; white-space: nowrap } summary { cursor: pointer; margin-top: 1em; font-weight: 600 }
  </style></head><body>
  <h1>\(title.inHTML)</h1>
  \(body)
  </body></html>

  """
}

extension [ReplayRemoval] {
  /// Why each went, as a table; of very many the first, since a page of tens of megabytes opens nowhere.
  func list(shown: Int = 2000) -> String {
    let rows = prefix(shown).map {
      "<tr><td class=\"number\">\(time($0.at))</td><td>\($0.reason.inHTML)</td></tr>"
    }
    let more = count > shown ? "<p>… \(count - shown) more; --json has all.</p>" : ""
    return "<table><tr><th>When</th><th>Why</th></tr>\n\(rows.joined(separator: "\n"))\n</table>\(more)"
  }
}

extension PolicyComparison {
  /// What the text says, with every removal.
  package func page(title: String) -> String {
    func row(_ cells: [String], _ tag: String) -> String {
      let cells = cells.enumerated().map { index, cell in
        "<\(tag)\((1..<cells.count - 1).contains(index) ? " class=\"number\"" : "")>\(cell.inHTML)</\(tag)>"
      }
      return "<tr>\(cells.joined())</tr>"
    }
    var body = ["<p>\(preface.map(\.inHTML).joined(separator: "<br>\n"))</p>"]
    if !outcomes.isEmpty {
      let rows = rows
      body.append("<table>\(row(rows[0], "th"))")
      body += rows.dropFirst().map { row($0, "td") }
      body += ["</table>", "<h2>Why each app was removed</h2>"]
    }
    for outcome in outcomes {
      let head = "\(outcome.policy.rawValue): \(outcome.removals.summary)"
      body.append(
        outcome.removals.isEmpty
          ? "<p>\(head)</p>" : "<details><summary>\(head)</summary>\n\(outcome.removals.list())</details>")
    }
    return document(title: title, body: body.joined(separator: "\n"))
  }
}
