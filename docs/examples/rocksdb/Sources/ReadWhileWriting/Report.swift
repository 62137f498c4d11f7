import Foundation

/// The figures of all windows, and of each contender the median of its windows with the least and the most.
struct Report {
  let settings: Settings
  var windows: [WindowResult] = []

  private static var columns: [(title: String, of: KeyPath<WindowResult, Double>, digits: Int)] {
    [
      ("read p50 µs", \.readUs.p50, 0), ("p99", \.readUs.p99, 0), ("p99.9", \.readUs.p999, 0),
      ("write p99 ms", \.writeMs99, 1), ("compacted MB/s", \.compactedMBPerS, 1), ("owed MB", \.pendingMB, 0),
      ("stalled ms", \.stalledMs, 0), ("sent late p99 µs", \.sentLateUs, 0),
    ]
  }

  var table: String {
    var rows = [["contender"] + Self.columns.map(\.title)]
    for contender in settings.contenders {
      let own = windows.filter { $0.contender == contender }
      guard !own.isEmpty else { continue }
      rows.append(
        [contender.rawValue]
          + Self.columns.map { column in
            let values = own.map { $0[keyPath: column.of] }.sorted()
            func text(_ value: Double) -> String { String(format: "%.\(column.digits)f", value) }
            let spread = values.count > 1 ? " (\(text(values[0]))–\(text(values[values.count - 1])))" : ""
            return text(Self.median(values)) + spread
          })
    }
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    let lines = rows.map { row in
      zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ")
    }
    return (lines + comparisons).joined(separator: "\n")
  }

  /// Each contender beside RocksDB's default of the same run.
  private var comparisons: [String] {
    guard let base = medians(of: .rocksdb) else { return [] }
    return settings.contenders.filter { $0 != .rocksdb }.compactMap { contender in
      guard let own = medians(of: contender), base.p99 > 0, base.compacted > 0 else { return nil }
      return String(
        format: "%@ beside default: read p99 %.2f x, compaction %.2f x", contender.rawValue,
        own.p99 / base.p99, own.compacted / base.compacted)
    }
  }

  private func medians(of contender: Contender) -> (p99: Double, compacted: Double)? {
    let own = windows.filter { $0.contender == contender }
    guard !own.isEmpty else { return nil }
    return (Self.median(own.map(\.readUs.p99)), Self.median(own.map(\.compactedMBPerS)))
  }

  static func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    let middle = sorted.count / 2
    return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
  }

  func writeJSON(to path: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try encoder.encode(["results": windows]).write(to: URL(fileURLWithPath: path))
  }
}

extension WindowResult {
  fileprivate var writeMs99: Double { writeUs.p99 / 1000 }
}
