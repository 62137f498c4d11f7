internal import OpportuneBase

extension Diagnosis {
  /// The findings as a table, for people.
  ///
  /// - Parameters:
  ///   - columns: the maximum width; at least 60.
  ///   - usesColor: whether the terminal supports colours.
  package func text(columns: Int = 100, usesColor: Bool = false) -> String {
    TextLayout(columns: max(60, columns), usesColor: usesColor).render(self)
  }
}

extension Diagnosis: CustomStringConvertible {
  /// `text(columns:usesColor:)` at 100 columns.
  public var description: String { text() }
}

private struct TextLayout {
  let columns: Int
  let usesColor: Bool

  private static let statusWidth = 10
  private static let margin = 2

  func render(_ diagnosis: Diagnosis) -> String {
    let width = 2 + (diagnosis.findings.map(\.subject.printable.count).max() ?? 0)
    var lines: [String] = []
    for area in Diagnosis.Area.allCases {
      let findings = diagnosis.findings.filter { $0.area == area }
      guard !findings.isEmpty else { continue }
      lines += [bold(area.title)] + findings.flatMap { rows($0, subjectWidth: width) } + [""]
    }
    lines.append(summary(diagnosis))
    return lines.joined(separator: "\n") + "\n"
  }

  private func rows(_ finding: Diagnosis.Finding, subjectWidth: Int) -> [String] {
    let indent = String(repeating: " ", count: Self.margin + Self.statusWidth + subjectWidth)
    let room = columns - indent.count
    let head =
      String(repeating: " ", count: Self.margin) + coloured(finding.status)
      + padding(finding.status.rawValue, Self.statusWidth) + finding.subject.printable
      + padding(finding.subject.printable, subjectWidth)
    var text = wrap(finding.found, room)
    if let cost = finding.cost { text += wrap(cost, room, label: "costs: ") }
    if let remedy = finding.remedy { text += wrap(remedy, room, label: "mend:  ") }
    return text.enumerated().map { ($0.offset == 0 ? head : indent) + $0.element }
  }

  /// Wraps `text` into lines of `room` characters. The first line follows `label`, the others are indented
  /// alike. A number is kept with its unit.
  private func wrap(_ text: String, _ room: Int, label: String = "") -> [String] {
    let room = room - label.count
    let unitWidth = 3
    var lines: [String] = []
    var line = ""
    var wasNumber = false
    for word in text.printable.split(separator: " ") {
      let isUnit = wasNumber && ["s", "ms", "µs"].contains(word.prefix { $0.isLetter })
      let isNumber = word.last?.isNumber == true
      if line.isEmpty {
        line = String(word)
      } else if isUnit || line.count + 1 + word.count + (isNumber ? unitWidth : 0) <= room {
        line += " " + word
      } else {
        lines.append(line)
        line = String(word)
      }
      wasNumber = isNumber
    }
    let indent = padding("", label.count)
    return (lines + [line]).enumerated().map { ($0.offset == 0 ? label : indent) + $0.element }
  }

  private func padding(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count))
  }

  private func summary(_ diagnosis: Diagnosis) -> String {
    let counts = Diagnosis.Status.allCases.map { "\(diagnosis.count($0)) \($0.rawValue)" }
    return counts.joined(separator: ", ")
  }

  private func bold(_ text: String) -> String { usesColor ? "\u{1B}[1m\(text)\u{1B}[0m" : text }

  private func coloured(_ status: Diagnosis.Status) -> String {
    guard usesColor else { return status.rawValue }
    let code =
      switch status {
      case .ok: 32
      case .degraded: 33
      case .missing: 31
      }
    return "\u{1B}[\(code)m\(status.rawValue)\u{1B}[0m"
  }
}

extension Diagnosis.Area {
  fileprivate var title: String {
    switch self {
    case .system: "System"
    case .processors: "Processors"
    case .priorities: "Kernel priorities"
    case .pools: "Pools"
    case .accounting: "Accounting"
    case .memory: "Memory"
    case .io: "Input and output"
    case .runtime: "Swift runtime"
    case .selfTest: "Self-test"
    }
  }
}
