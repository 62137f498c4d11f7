import OpportuneApps
import OpportuneBase
import ToolSupport

extension ReplayReport {
  /// What the text says, below a timeline.
  package func page(title: String) -> String {
    var parts = [timeline(), "<pre>\(text(divergencesShown: 200, removalsShown: 0).inHTML)</pre>"]
    if !removals.isEmpty { parts += ["<h2>Why each app was removed</h2>", removals.list()] }
    return HTMLPage.text(title: title, style: Self.style, parts)
  }

  private static let style =
    colours.map { ".\($0.0.rawValue) { fill: \($0.1); }\n" }.joined()
      + """
      pre { font-size: 13px; overflow-x: auto; border: 1px solid var(--grid); padding: 1em; }
      .tick { stroke: var(--grid); } .divergence { stroke: #c0262d; stroke-width: 1.5; } .removal { fill: var(--ink); }
      .key span { margin-right: 1.5em; white-space: nowrap; }
      .key i { display: inline-block; width: 1em; height: 1em; vertical-align: -.15em; margin-right: .4em; }
      """

  private static let colours: [(LifecycleState.Operational, String)] = [
    (.foreground, "#1a7f4e"), (.background, "#e0a100"), (.suspended, "#9aa7b5"), (.hibernated, "#6a5acd"),
  ]

  private func timeline() -> String {
    guard !spans.isEmpty, end > start else { return "<p>There is no timeline: the trace has no events.</p>" }
    // Those that were in front or behind longest; the rest would be lines without a mark.
    var weight: [String: Double] = [:]
    for span in spans where span.state != .suspended { weight[span.app, default: 0] += span.end - span.start }
    let shown = Array(
      apps.filter { weight[$0] != nil }.sorted { (weight[$1] ?? 0, $0) < (weight[$0] ?? 0, $1) }.prefix(40))
    let (left, width, row) = (300.0, 780.0, 18.0)
    let height = Double(shown.count) * row + 48
    func x(_ at: Double) -> Double { left + (at - start) / (end - start) * width }
    var out = [
      "<p class=\"key\">"
        + Self.colours.map { "<span><i style=\"background:\($0.1)\"></i>\($0.0.rawValue)</span>" }.joined()
        + (divergences.isEmpty
          ? "" : "<span><i style=\"background:#c0262d;width:2px\"></i>differs from the recording</span>")
        + (removals.isEmpty ? "" : "<span>▼ removed; point at it for why</span>") + "</p>"
    ]
    out.append(
      "<svg viewBox=\"0 0 1100 \(Int(height))\" role=\"img\" aria-label=\"States of each app over time\">")
    let rows = Dictionary(
      shown.enumerated().map { ($0.element, Double($0.offset) * row + 4) },
      uniquingKeysWith: { first, _ in first })
    let floor = Double(shown.count) * row + 6
    for (at, label) in ticks() {
      let x = short(x(at))
      out.append("<line class=\"tick\" x1=\"\(x)\" x2=\"\(x)\" y1=\"0\" y2=\"\(floor)\"/>")
      out.append("<text x=\"\(x)\" y=\"\(floor + 12)\" text-anchor=\"middle\">\(label)</text>")
    }
    for app in shown {
      let label = app.count > 42 ? "…" + app.suffix(41) : app
      out.append(
        "<text x=\"\(left - 8)\" y=\"\((rows[app] ?? 0) + 11)\" text-anchor=\"end\">\(label.inHTML)</text>")
    }
    // What a person looks for lies on top, and is never too narrow to be seen.
    let order: [LifecycleState.Operational] = [.suspended, .hibernated, .background, .foreground]
    for span in order.flatMap({ state in spans.filter { $0.state == state } }) {
      guard let y = rows[span.app] else { continue }
      let begin = x(span.start)
      let size = max(span.state == .suspended ? 0.3 : 1, x(span.end) - begin)
      out.append(
        "<rect class=\"\(span.state.rawValue)\" x=\"\(short(begin))\" y=\"\(y)\" width=\"\(short(size))\" height=\"13\"><title>\(span.app.inHTML): \(span.state.rawValue), \(time(span.start)), \(hours(span.end - span.start))</title></rect>"
      )
    }
    for one in divergences {
      guard let y = rows[one.app] else { continue }
      out.append(
        "<line class=\"divergence\" x1=\"\(short(x(one.at)))\" x2=\"\(short(x(one.at)))\" y1=\"\(y - 2)\" y2=\"\(y + 15)\"/>"
      )
    }
    for one in removals {
      guard let y = rows[one.app] else { continue }
      out.append(
        "<path class=\"removal\" d=\"M\(short(x(one.at) - 4)) \(y - 3)h8l-4 7z\"><title>\(time(one.at)) \(one.reason.inHTML)</title></path>"
      )
    }
    let bottom = Double(shown.count) * row + 36
    out.append("<text x=\"\(left)\" y=\"\(bottom)\">\(time(start))</text>")
    out.append("<text x=\"\(left + width)\" y=\"\(bottom)\" text-anchor=\"end\">\(time(end))</text></svg>")
    if weight.count > shown.count {
      out.append("<p>Not drawn, as they ran for less time: \(weight.count - shown.count) more.</p>")
    }
    return out.joined(separator: "\n")
  }

  /// Round times within the timeline, eight at most, and how they are called, in UTC.
  private func ticks() -> [(Double, String)] {
    let steps: [Double] = [
      1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
    ]
    guard let step = steps.first(where: { (end - start) / $0 <= 8 }) else { return [] }
    return stride(from: (start / step).rounded(.up) * step, through: end, by: step).map { at in
      let text = time(at)  // 2023-05-29T20:27:58Z
      return (at, String(step < 86_400 ? text.dropFirst(11).prefix(step < 60 ? 8 : 5) : text.prefix(10)))
    }
  }

  private func short(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }
}
