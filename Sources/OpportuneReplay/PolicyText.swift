extension PolicyComparison {
  /// For people.
  package func text() -> String {
    guard let budget = budgets.last else { return "\(format): no app is seen to run, so there is nothing to compare\n" }
    var lines = [
      "\(format): \(switches) switches among \(apps) apps of \(mebibytes(footprint)) together",
      "sizes are synthetic: drawn with seed \(seed) from those of other apps, '\(table.name)':",
      "  \(table.source)",
      "budget \(mebibytes(budget)), apps are removed from \(Int((criticalShare * 100).rounded())) % of it on"
        + (budgets.count > 1 ? "; \(budgets.count) budgets were tried from \(mebibytes(budgets[0])) down" : ""),
    ]
    if outcomes.count > 1, !differs { lines.append("the policies do not differ") }
    let head = ["policy", "kills", "hibernations", "reanimations", "cold starts", "written", "who goes first"]
    let rows =
      [head]
      + outcomes.map {
        [
          $0.policy.rawValue, "\($0.kills)", "\($0.hibernations)", "\($0.reanimations)", "\($0.coldStarts)",
          mebibytes($0.bytesWritten), $0.policy.explanation,
        ]
      }
    let widths = head.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    lines.append("")
    for row in rows {
      let cells = row.enumerated().map { index, cell in
        index == row.count - 1 ? cell : pad(cell, widths[index], left: index > 0)
      }
      lines.append(cells.joined(separator: "  "))
    }
    let reasons = outcomes.compactMap { outcome in outcome.removals.first.map { (outcome.policy, $0) } }
    if !reasons.isEmpty { lines += ["", "the first to go; --json has all:"] }
    for (policy, removal) in reasons { lines.append("  \(policy.rawValue): \(time(removal.at)) \(removal.reason)") }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The same for programs, with keys in a fixed order.
  package func json() throws -> String {
    struct Row: Encodable {
      let policy: String
      let kills, hibernations, reanimations, coldStarts: Int
      let bytesWritten: UInt64
      let removals: [ReplayRemoval]
    }
    struct Document: Encodable {
      let format: String
      let apps, switches: Int
      let footprint, seed: UInt64
      let sizes, sizesSource: String
      let sizesAreSynthetic = true
      let criticalPoint: Double
      let budgetsTried: [UInt64]
      let budget: UInt64?
      let differs: Bool
      let policies: [Row]
    }
    return try encode(
      Document(
        format: format, apps: apps, switches: switches, footprint: footprint, seed: seed, sizes: table.name,
        sizesSource: table.source, criticalPoint: criticalShare, budgetsTried: budgets, budget: budgets.last,
        differs: differs,
        policies: outcomes.map {
          Row(
            policy: $0.policy.rawValue, kills: $0.kills, hibernations: $0.hibernations,
            reanimations: $0.reanimations, coldStarts: $0.coldStarts, bytesWritten: $0.bytesWritten,
            removals: $0.removals)
        }))
  }
}

private func mebibytes(_ bytes: UInt64) -> String {
  // Divided first: ten times as many may be more than 64 bits hold.
  let tenths = bytes / (1 << 20) * 10 + (bytes % (1 << 20) * 10 + (1 << 19)) / (1 << 20)
  return "\(tenths / 10).\(tenths % 10) MiB"
}
