// Text of others (names, paths, messages of programs) on its way to a terminal, a page or JSON. All that is
// printed goes through one of these.

extension Unicode.Scalar {
  /// Steers a terminal, ends a line, or turns the order of what stands beside it.
  private var steers: Bool {
    // Most of what there is.
    if value >= 0x20, value < 0x7F { return false }
    switch properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: return true
    default: return properties.isBidiControl
    }
  }

  /// What stands for it, to be seen.
  private var spelled: String {
    switch self {
    case "\n": "\\n"
    case "\r": "\\r"
    case "\t": "\\t"
    default: "\\u{\(String(value, radix: 16, uppercase: true))}"
    }
  }

  fileprivate var onOneLine: String? { steers ? spelled : nil }
  fileprivate var onLines: String? { self == "\n" || self == "\t" ? nil : onOneLine }

  fileprivate var inMarkup: String? {
    switch self {
    case "&": "&amp;"
    case "<": "&lt;"
    case ">": "&gt;"
    case "\"": "&quot;"
    case "'": "&#39;"
    default: nil
    }
  }

  /// What JSON may have as it is, and a terminal not; it can only stand in strings there.
  fileprivate var inJSON: String? {
    guard value > 0x7E, steers else { return nil }
    let digits = String(value, radix: 16)
    return "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }
}

extension String {
  /// For one line of a terminal: what would steer it, or end the line, is spelled out, as `\u{1B}` and `\n`.
  /// What is escaped once stays the same.
  package var printable: String { escaped(\.onOneLine) }

  /// As ``printable``, for text of several lines: line ends and tabs stay.
  package var printableLines: String { escaped(\.onLines) }

  /// For HTML, between tags and in attributes: as ``printableLines``, and what has a meaning there becomes an
  /// entity.
  package var inHTML: String { escaped { $0.inMarkup ?? $0.onLines } }

  /// For XML that gives back the same text: only what has a meaning there.
  package var inXML: String { escaped(\.inMarkup) }

  /// Of a JSON document, the same document without what would steer a terminal.
  package var printableJSON: String { escaped(\.inJSON) }

  /// By scalars: a combining mark that follows makes no other character of a quote, for whoever reads the
  /// page.
  private func escaped(_ escape: (Unicode.Scalar) -> String?) -> String {
    guard unicodeScalars.contains(where: { escape($0) != nil }) else { return self }
    var result = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      if let text = escape(scalar) { result += text.unicodeScalars } else { result.append(scalar) }
    }
    return String(result)
  }
}

extension Sequence<String> {
  /// Each on a line of its own, whatever is in it.
  package var asLines: String { map { $0.printable + "\n" }.joined() }
}
