/// A page that needs nothing else: no script, nothing fetched, light or dark as the reader's system is.
package enum HTMLPage {
  /// - Parameters:
  ///   - heading: what stands above the parts; `nil`: the title.
  ///   - style: of what this page alone has. Colours of text, paper and lines are `--ink`, `--soft`,
  ///     `--paper` and `--grid`.
  ///   - parts: elements, one below the other.
  package static func text(
    title: String, heading: String? = nil, style: String = "", _ parts: [String]
  ) -> String {
    """
    <!DOCTYPE html>
    <html lang=en><head><meta charset=utf-8>
    <meta name=viewport content="width=device-width, initial-scale=1">
    <title>\(title.inHTML)</title>
    <style>
    :root { color-scheme: light dark; --paper: #fff; --ink: #1d2127; --soft: #5b6470; --grid: #dfe3e8; }
    @media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8eaed; --soft: #9aa4b0; --grid: #2d333b; } }
    body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
    main { max-width: 1100px; margin: 0 auto; padding: 24px 16px 64px; }
    h1 { font-size: 1.5em; margin: 0 0 .4em; } h2 { font-size: 1.2em; margin: 2em 0 .2em; }
    h3 { font-size: 1em; margin: 1.2em 0 .2em; } p { margin: .3em 0; }
    svg { max-width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
    .scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85em; }
    th, td { padding: .3em .7em; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid);
      font-variant-numeric: tabular-nums; } thead th { color: var(--soft); }
    .n { text-align: right; white-space: nowrap; }
    \(style)
    </style></head><body><main>
    <h1>\((heading ?? title).inHTML)</h1>
    \(parts.joined(separator: "\n"))
    </main></body></html>

    """
  }

  /// A table of plain text. What stands first in a row is its name.
  ///
  /// - Parameter isNumber: of which columns, by their number, cells are right-aligned; by default all but the
  ///   first.
  package static func table(
    _ heads: [String], _ rows: [[String]], isNumber: (Int) -> Bool = { $0 > 0 }
  ) -> String {
    func cell(_ tag: String, _ attributes: String, _ column: Int, _ text: String) -> String {
      "<\(tag)\(attributes)\(isNumber(column) ? " class=n" : "")>\(text.inHTML)</\(tag)>"
    }
    let head = heads.enumerated().map { cell("th", " scope=col", $0.offset, $0.element) }
    let body = rows.map { row in
      let cells = row.enumerated().map { column, text in
        column == 0 ? cell("th", " scope=row", column, text) : cell("td", "", column, text)
      }
      return "<tr>\(cells.joined())</tr>"
    }
    return "<div class=scroll><table><thead><tr>\(head.joined())</tr></thead>"
      + "<tbody>\(body.joined(separator: "\n"))</tbody></table></div>"
  }
}
