import OpportuneBase

/// The storage figure as a picture: what each mode costs the foreground against what it leaves to background.
/// The line joins the modes that no other beats in both.
package struct IOParetoChart: Sendable {
  struct Point: Sendable, Equatable {
    var mode: String
    /// Share of the uncontrolled background, 0 and up.
    var kept: Double
    /// Foreground p99 ÷ that of `alone`.
    var cost: Double
  }

  private let loads: [(name: String, points: [Point])]

  package init(_ report: IOBenchReport) {
    var loads: [(name: String, points: [Point])] = []
    for result in report.results where result.figure == IOBenchOptions.Figure.storage.rawValue {
      guard let load = result.load, let kept = result.backgroundKept, let cost = result.p99RatioToAlone else {
        continue
      }
      let point = Point(mode: result.mode, kept: kept, cost: cost)
      if let index = loads.firstIndex(where: { $0.name == load }) {
        loads[index].points.append(point)
      } else {
        loads.append((load, [point]))
      }
    }
    self.loads = loads
  }

  /// The points that no other beats: none keeps as much at less cost. By what they keep.
  static func front(_ points: [Point]) -> [Point] {
    points.filter { point in
      !points.contains { other in
        other.kept >= point.kept && other.cost <= point.cost
          && (other.kept > point.kept || other.cost < point.cost)
      }
    }.sorted { ($0.kept, $0.cost) < ($1.kept, $1.cost) }
  }

  private static let width = 900.0
  private static let height = 420.0

  /// A page of SVG, one chart for each background load; empty where the storage figure was not measured.
  package func svg() -> String {
    let total = Double(max(1, loads.count)) * Self.height
    var parts = [
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(fixed(Self.width, 0)) \(fixed(total, 0))\" "
        + "font-family=\"sans-serif\" font-size=\"12\">",
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
    ]
    for (number, load) in loads.enumerated() {
      parts += chart(load.name, load.points, Double(number) * Self.height)
    }
    return parts.joined(separator: "\n") + "\n</svg>\n"
  }

  private func chart(_ name: String, _ points: [Point], _ offset: Double) -> [String] {
    let (left, right, top, bottom) = (70.0, Self.width - 130, offset + 40, offset + Self.height - 50)
    let y = LogAxis(holding: points.map(\.cost) + [1], start: bottom, end: top)
    let most = max(1, points.map(\.kept).max() ?? 1)
    func x(_ kept: Double) -> Double { left + kept / most * (right - left) }
    var parts = [text("foreground p99 ÷ alone, beside \(name)", left, top - 18, "start")]
    for tick in y.ticks {
      parts.append(line(left, y.position(tick), right, y.position(tick)))
      parts.append(text(fixed(tick, tick < 1 ? 1 : 0), left - 8, y.position(tick) + 4, "end"))
    }
    for kept in stride(from: 0, through: most, by: 0.25) {
      parts.append(text(fixed(kept * 100, 0) + " %", x(kept), bottom + 18, "middle"))
    }
    parts.append(text("background kept, of uncontrolled", (left + right) / 2, bottom + 36, "middle"))
    let front = Self.front(points)
    let path = front.map { "\(fixed(x($0.kept), 1)),\(fixed(y.position($0.cost), 1))" }.joined(separator: " ")
    parts.append("<polyline points=\"\(path)\" fill=\"none\" stroke=\"#b5451f\" stroke-width=\"1.5\"/>")
    var labels: [(x: Double, y: Double)] = []
    for point in points.sorted(by: { $0.cost > $1.cost }) {
      let colour = front.contains(point) ? "#b5451f" : "#777"
      let (h, v) = (x(point.kept), y.position(point.cost))
      parts.append("<circle cx=\"\(fixed(h, 1))\" cy=\"\(fixed(v, 1))\" r=\"4\" fill=\"\(colour)\"/>")
      // Below those that it would cover. In whole pixels: with a rounding error, what was moved off would
      // seem to cover it.
      var label = (x: h + 7, y: (v + 4).rounded())
      while let other = labels.first(where: { abs($0.x - label.x) < 120 && abs($0.y - label.y) < 11 }) {
        label.y = other.y + 11
      }
      labels.append(label)
      parts.append(text(point.mode, label.x, label.y, "start"))
    }
    return parts
  }

  private func line(_ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double) -> String {
    "<line x1=\"\(fixed(x1, 1))\" y1=\"\(fixed(y1, 1))\" x2=\"\(fixed(x2, 1))\" y2=\"\(fixed(y2, 1))\" stroke=\"#ddd\"/>"
  }

  private func text(_ words: String, _ x: Double, _ y: Double, _ anchor: String) -> String {
    "<text x=\"\(fixed(x, 1))\" y=\"\(fixed(y, 1))\" text-anchor=\"\(anchor)\">\(words.inHTML)</text>"
  }
}
