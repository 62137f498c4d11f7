// Escaping of foreign text (names, paths, messages of programs) for a terminal, a page or JSON. Everything
// that is printed passes through one of these.

extension Unicode.Scalar {
  /// Whether the scalar controls a terminal, ends a line, or changes the direction of the surrounding text.
  private var steers: Bool {
    // The most frequent case.
    if value >= 0x20, value < 0x7F { return false }
    switch properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: return true
    default: return properties.isBidiControl
    }
  }

  /// The visible spelling of the scalar.
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

  /// The escape for a scalar that JSON may contain and a terminal must not. In JSON it can occur in strings
  /// only.
  fileprivate var inJSON: String? {
    guard value > 0x7E, steers else { return nil }
    let digits = String(value, radix: 16)
    return "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }
}

extension String {
  /// Escaped for one line of a terminal: control characters and line ends are spelled out, as `\u{1B}` and
  /// `\n`. Escaping twice is the same as once.
  package var printable: String { escaped(\.onOneLine) }

  /// Like ``printable``, for text of several lines: line ends and tabs are kept.
  package var printableLines: String { escaped(\.onLines) }

  /// Escaped for HTML, between tags and in attributes: like ``printableLines``, and characters with a meaning
  /// in HTML become entities.
  package var inHTML: String { escaped { $0.inMarkup ?? $0.onLines } }

  /// Escaped for XML such that a parser returns the same text: only characters with a meaning in XML.
  package var inXML: String { escaped(\.inMarkup) }

  /// The same JSON document, without characters that control a terminal.
  package var printableJSON: String { escaped(\.inJSON) }

  /// Works on scalars: a combining mark after a quote must not hide the quote, which a reader of the page
  /// would still parse.
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
  /// Each on a line of its own, with its content escaped.
  package var asLines: String { map { $0.printable + "\n" }.joined() }
}
