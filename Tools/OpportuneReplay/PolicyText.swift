import OpportuneBase
import OpportuneMemory
import ToolSupport

extension PolicyComparison {
  /// For people.
  package func text(removalsShown: Int = 5) -> String {
    var lines = preface
    guard !outcomes.isEmpty else { return lines.asLines }
    let rows = rows
    let head = rows[0]
    let widths = head.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    lines.append("")
    for row in rows {
      let cells = row.enumerated().map { index, cell in
        index == row.count - 1 ? cell : pad(cell, widths[index], left: index > 0)
      }
      lines.append(cells.joined(separator: "  "))
    }
    for outcome in outcomes where !outcome.removals.isEmpty {
      lines += ["", "\(outcome.policy.rawValue): \(outcome.removals.summary)"]
      lines += outcome.removals.lines(shown: removalsShown)
    }
    return lines.asLines
  }

  /// What was compared, by lines.
  var preface: [String] {
    guard let budget = budgets.last else {
      return ["\(format): no app is seen to run, so there is nothing to compare"]
    }
    let tried =
      budgets.count > 1
      ? "; \(budgets.count) budgets were tried from \(budgets[0].inMegabytes) down"
        + (isFelt ? "" : " to what the largest app needs") : ""
    let drawn = [
      (sizesRecorded == 0 ? "sizes are" : "sizes of \(sizesRecorded) apps are recorded, those of the others")
        + " synthetic: drawn with seed \(seed) from those of other apps, '\(table.name)':",
      "  \(table.source)",
    ]
    let lines =
      ["\(format): \(switches) switches among \(apps) apps of \(footprint.inMegabytes) together"]
      + notes.map { "note: \($0)" } + (sizesRecorded == apps ? ["sizes are as recorded"] : drawn)
      + ["budget \(budget.inMegabytes), apps are removed from \(criticalShare.inPercent) of it on" + tried]
    return outcomes.count > 1 && !differs ? lines + ["the policies do not differ"] : lines
  }

  /// The policies side by side, after a row of what each column is.
  var rows: [[String]] {
    [
      [
        "policy", "kills", "hibernations", "reanimations", "to the front", "cold starts", "written",
        "who goes first",
      ]
    ]
      + outcomes.map {
        [
          $0.policy.rawValue, "\($0.kills)", "\($0.hibernations)", "\($0.reanimations)",
          "\($0.frontReanimations)", "\($0.coldStarts)",
          $0.bytesWritten.inMegabytes, $0.policy.explanation,
        ]
      }
  }

  /// The same for programs, with keys in a fixed order.
  package func json() throws -> String {
    struct Row: Encodable {
      let policy: String
      let kills, hibernations, reanimations, frontReanimations, coldStarts: Int
      let bytesWritten: UInt64
      let removals: [ReplayRemoval]
    }
    struct Document: Encodable {
      let format: String
      let apps, switches: Int
      let footprint, seed: UInt64
      let sizes, sizesSource: String
      let sizesAreSynthetic: Bool
      let sizesRecorded: Int
      let criticalPoint: Double
      let budgetsTried: [UInt64]
      let budget: UInt64?
      let differs: Bool
      let policies: [Row]
      let notes: [String]
    }
    return try jsonText(
      of: Document(
        format: format, apps: apps, switches: switches, footprint: footprint, seed: seed, sizes: table.name,
        sizesSource: table.source, sizesAreSynthetic: sizesRecorded < apps, sizesRecorded: sizesRecorded,
        criticalPoint: criticalShare, budgetsTried: budgets, budget: budgets.last,
        differs: differs,
        policies: outcomes.map {
          Row(
            policy: $0.policy.rawValue, kills: $0.kills, hibernations: $0.hibernations,
            reanimations: $0.reanimations, frontReanimations: $0.frontReanimations, coldStarts: $0.coldStarts,
            bytesWritten: $0.bytesWritten,
            removals: $0.removals)
        }, notes: notes), indented: false)
  }
}
