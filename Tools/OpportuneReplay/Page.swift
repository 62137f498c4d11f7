import OpportuneBase

extension [ReplayRemoval] {
  /// Why each went, as a table; of very many the first, since a page of tens of megabytes opens nowhere.
  func list(shown: Int = 2000) -> String {
    let rows = prefix(shown).map { [time($0.at), $0.reason] }
    let more = count > shown ? "<p>… \(count - shown) more; --json has all.</p>" : ""
    return HTMLPage.table(["When", "Why"], rows, isNumber: { $0 == 0 }) + more
  }
}

extension PolicyComparison {
  /// What the text says, with every removal.
  package func page(title: String) -> String {
    var body = ["<p>\(preface.map(\.inHTML).joined(separator: "<br>\n"))</p>"]
    if !outcomes.isEmpty {
      let rows = rows
      body.append(
        HTMLPage.table(rows[0], Array(rows.dropFirst()), isNumber: (1..<rows[0].count - 1).contains))
      body.append("<h2>Why each app was removed</h2>")
    }
    for outcome in outcomes {
      let head = "\(outcome.policy.rawValue): \(outcome.removals.summary)"
      body.append(
        outcome.removals.isEmpty
          ? "<p>\(head)</p>" : "<details><summary>\(head)</summary>\n\(outcome.removals.list())</details>")
    }
    return HTMLPage.text(title: title, style: "summary { cursor: pointer; margin-top: 1em; }", body)
  }
}
