import Glibc
import OpportuneBase

/// A logarithmic axis between two powers of ten.
struct LogAxis: Sendable, Equatable {
  /// Exponents of ten.
  let low: Int
  let high: Int
  /// Pixels.
  let start: Double
  let end: Double

  /// Holds all positive `values`; at least one decade.
  init(holding values: [Double], start: Double, end: Double) {
    let exponents = values.filter { $0 > 0 && $0.isFinite }.map(log10)
    low = Int(((exponents.min() ?? 0) + 1e-9).rounded(.down))
    high = max(low + 1, Int(((exponents.max() ?? 1) - 1e-9).rounded(.up)))
    self.start = start
    self.end = end
  }

  func position(_ value: Double) -> Double {
    let clamped = min(Double(high), max(Double(low), log10(max(value, 1e-12))))
    return start + (clamped - Double(low)) / Double(high - low) * (end - start)
  }

  /// The powers of ten on the axis.
  var ticks: [Double] { (low...high).map { pow(10, Double($0)) } }
}

/// What a chart shows of one contender.
struct ChartSeries: Sendable {
  /// A time of the run with a name, in seconds since its begin, drawn below the timeline.
  struct Span: Sendable {
    let start: Double
    let end: Double
    /// When something became of it, such as that it was lowered.
    var mark: Double?
  }

  let contender: String
  var curve: [CurvePoint]
  var timeline: [TimelinePoint]
  var spans: [Span] = []
}

/// The two charts of the page, as inline SVG. Colours come from the page's style sheet, one class per
/// contender.
enum HTMLCharts {
  private static let width = 900.0
  private static let left = 70.0
  private static let right = 866.0
  private static let top = 12.0

  /// Latency by percentile, both axes logarithmic: to the right lie the rarer jobs.
  static func curves(_ series: [ChartSeries], colour: (String) -> Int) -> String {
    let bottom = 330.0
    let points = series.flatMap(\.curve)
    guard !points.isEmpty else { return "" }
    let y = LogAxis(holding: points.map(\.value), start: bottom, end: top)
    let x = LogAxis(holding: points.map { 1 / $0.shareAbove }, start: left, end: right)
    var parts = [open("Latency by percentile", height: bottom + 44)]
    parts += horizontals(y)
    for tick in x.ticks {
      let at = fixed(x.position(tick), 1)
      parts.append("<line class=grid x1=\(at) x2=\(at) y1=\(fixed(top, 1)) y2=\(fixed(bottom, 1)) />")
      let label = tick <= 1 ? "0" : fixed(100 - 100 / tick, tick <= 100 ? 0 : Int(log10(tick).rounded()) - 2)
      parts.append(text(label + " %", x: x.position(tick), y: bottom + 16, anchor: "middle"))
    }
    parts.append(
      text("share of the jobs at or below", x: (left + right) / 2, y: bottom + 36, anchor: "middle"))
    for row in series where !row.curve.isEmpty {
      let path = row.curve.map {
        "\(fixed(x.position(1 / $0.shareAbove), 1)),\(fixed(y.position($0.value), 1))"
      }
      parts.append(
        "<polyline class=\"line c\(colour(row.contender))\" points=\"\(path.joined(separator: " "))\">"
          + "<title>\(row.contender.inHTML)</title></polyline>")
    }
    return parts.joined(separator: "\n") + "\n</svg>"
  }

  /// Every 100 ms of the run: from the median to the largest latency. Disturbed slices are grey.
  static func timeline(_ series: [ChartSeries], colour: (String) -> Int) -> String {
    let bottom = 230.0
    let points = series.flatMap(\.timeline)
    guard let first = points.map(\.second).min(), let last = points.map(\.second).max() else { return "" }
    let span = max(0.1, last + 0.1 - first)
    func x(_ second: Double) -> Double { left + (second - first) / span * (right - left) }
    let y = LogAxis(holding: points.flatMap { [$0.median, $0.max] }, start: bottom, end: top)
    let stroke = max(0.8, min(6, (x(first + 0.1) - x(first)) * 0.7))
    var parts = [open("Timeline of the run", height: bottom + 44)]
    parts += horizontals(y)
    let step = niceStep(span)
    var tick = (first / step).rounded(.up) * step
    while tick <= last {
      parts.append(text("\(fixed(tick, step < 1 ? 1 : 0)) s", x: x(tick), y: bottom + 16, anchor: "middle"))
      tick += step
    }
    parts.append(text("time of the run", x: (left + right) / 2, y: bottom + 36, anchor: "middle"))
    for row in series {
      for point in row.timeline {
        let style = point.isLeftOut ? "out" : "c\(colour(row.contender))"
        let at = fixed(x(point.second + 0.05), 1)
        let low = y.position(point.median)
        let high = min(low - 2, y.position(point.max))
        parts.append(
          "<line class=\"bar \(style)\" stroke-width=\(fixed(stroke, 1)) x1=\(at) x2=\(at) "
            + "y1=\(fixed(low, 1)) y2=\(fixed(high, 1)) />")
      }
      parts += spans(row.spans, "c\(colour(row.contender))", bottom: bottom, x: x)
    }
    return parts.joined(separator: "\n") + "\n</svg>"
  }

  /// Lines at the chart's bottom, those that overlap above one another; a stroke across where it is marked.
  private static func spans(
    _ spans: [ChartSeries.Span], _ style: String, bottom: Double, x: (Double) -> Double
  ) -> [String] {
    var ends: [Double] = []
    return spans.sorted { $0.start < $1.start }.flatMap { span in
      let lane = ends.firstIndex { $0 <= span.start } ?? ends.count
      if lane == ends.count { ends.append(span.end) } else { ends[lane] = span.end }
      let y = fixed(bottom - 3 - 5 * Double(lane), 1)
      let (start, end) = (fixed(x(span.start), 1), fixed(x(span.end), 1))
      var parts = ["<line class=\"bar \(style)\" stroke-width=2 x1=\(start) x2=\(end) y1=\(y) y2=\(y) />"]
      if let mark = span.mark {
        let at = fixed(x(mark), 1)
        let low = fixed(bottom - 5 * Double(lane), 1)
        let high = fixed(bottom - 6 - 5 * Double(lane), 1)
        parts.append("<line class=\"bar \(style)\" stroke-width=2 x1=\(at) x2=\(at) y1=\(low) y2=\(high) />")
      }
      return parts
    }
  }

  /// A step of 1, 2 or 5 times a power of ten, for about ten labels.
  static func niceStep(_ span: Double) -> Double {
    let rough = max(span, 1e-9) / 10
    let power = pow(10, log10(rough).rounded(.down))
    for factor in [1.0, 2, 5] where factor * power >= rough { return factor * power }
    return 10 * power
  }

  private static func open(_ title: String, height: Double) -> String {
    "<svg viewBox=\"0 0 \(fixed(width, 0)) \(fixed(height, 0))\" role=img aria-label=\"\(title)\">"
  }

  private static func horizontals(_ axis: LogAxis) -> [String] {
    axis.ticks.flatMap { tick in
      let at = axis.position(tick)
      return [
        "<line class=grid x1=\(fixed(left, 1)) x2=\(fixed(right, 1)) y1=\(fixed(at, 1)) y2=\(fixed(at, 1)) />",
        text(duration(tick), x: left - 8, y: at + 4, anchor: "end"),
      ]
    }
  }

  private static func duration(_ microseconds: Double) -> String {
    if microseconds < 1 { return "\(fixed(microseconds * 1000, 0)) ns" }
    if microseconds < 1000 { return "\(fixed(microseconds, 0)) µs" }
    if microseconds < 1e6 { return "\(fixed(microseconds / 1000, 0)) ms" }
    return "\(fixed(microseconds / 1e6, 0)) s"
  }

  private static func text(_ label: String, x: Double, y: Double, anchor: String) -> String {
    "<text x=\(fixed(x, 1)) y=\(fixed(y, 1)) text-anchor=\(anchor)>\(label.inHTML)</text>"
  }
}
