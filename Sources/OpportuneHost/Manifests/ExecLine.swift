/// The value of `Exec` in a desktop entry: a program and its arguments. No shell reads it, so what would mean
/// something there is refused outside of quotes instead of being handed over as it stands.
struct ExecLine {
  /// What codes stand for.
  struct Fields {
    let name: String
    let icon: String?
    let file: String
  }

  /// - Parameter text: unescaped as any string of the file.
  /// - Returns: the program, and its arguments. No files are given: codes for them stand for nothing.
  static func command(_ text: String, _ fields: Fields) throws(ValueError) -> [String] {
    var result: [String] = []
    var reader = Reader(text)
    while let word = try reader.word() { result += try expanded(word, text, fields) }
    guard let program = result.first, !program.isEmpty else { throw ValueError(text, "a program") }
    guard !program.contains("=") else {
      throw ValueError(text, "a program, without '=' in its name (for variables: env NAME=VALUE PROGRAM)")
    }
    return result
  }

  private struct Word {
    var text = ""
    var isQuoted = false
  }

  private struct Reader {
    private let text: String
    private var rest: Substring.UnicodeScalarView

    init(_ text: String) {
      self.text = text
      rest = Substring(text).unicodeScalars
    }

    /// What a shell might understand.
    private static let reserved: Set<Unicode.Scalar> = [
      "'", "\\", ">", "<", "~", "|", "&", ";", "$", "*", "?", "#", "(", ")", "`", "\t", "\n", "\r",
    ]

    mutating func word() throws(ValueError) -> Word? {
      while rest.first == " " { rest.removeFirst() }
      guard let first = rest.first else { return nil }
      if first == "\"" { return try quoted() }
      var word = Word()
      while let next = rest.first, next != " " {
        if next == "\"" {
          throw ValueError(text, "each argument either whole in double quotes or without any")
        }
        if Self.reserved.contains(next) {
          throw ValueError(
            text, "arguments with \(String(next).debugDescription) in double quotes (no shell reads them)")
        }
        word.text.unicodeScalars.append(rest.removeFirst())
      }
      return word
    }

    private mutating func quoted() throws(ValueError) -> Word {
      var word = Word(isQuoted: true)
      rest.removeFirst()
      while let next = rest.popFirst() {
        switch next {
        case "\"":
          guard rest.isEmpty || rest.first == " " else {
            throw ValueError(text, "each argument either whole in double quotes or without any")
          }
          return word
        case "\\":
          guard let escaped = rest.popFirst(), ["\"", "`", "$", "\\"].contains(escaped) else {
            throw ValueError(text, #"a backslash in quotes only before '"', '`', '$' and '\'"#)
          }
          word.text.unicodeScalars.append(escaped)
        case "`", "$": throw ValueError(text, "'\(next)' in quotes after a backslash")
        default: word.text.unicodeScalars.append(next)
        }
      }
      throw ValueError(text, "a closing quote")
    }
  }

  private static func expanded(_ word: Word, _ text: String, _ fields: Fields) throws(ValueError) -> [String]
  {
    guard word.text.unicodeScalars.contains("%") else { return [word.text] }
    if !word.isQuoted, word.text == "%i" {
      return fields.icon.map { $0.isEmpty ? [] : ["--icon", $0] } ?? []
    }
    var result = ""
    var scalars = word.text.unicodeScalars.makeIterator()
    while let scalar = scalars.next() {
      guard scalar == "%" else {
        result.unicodeScalars.append(scalar)
        continue
      }
      let code = scalars.next()
      if word.isQuoted, code != "%" { throw ValueError(text, "no field code in quotes but '%%'") }
      switch code {
      case "%": result += "%"
      case "c": result += fields.name
      case "k": result += fields.file
      // For files, of which there are none, and of older versions of the specification.
      case "f", "u", "d", "D", "n", "N", "v", "m": break
      case "F", "U", "i":
        guard word.text.unicodeScalars.count == 2 else {
          throw ValueError(text, "the field code '%\(code ?? " ")' as an argument of its own")
        }
      case .some(let other):
        throw ValueError(text, "no field code '%\(other)': one of %f %F %u %U %i %c %k %%")
      case nil: throw ValueError(text, "a field code after '%', or '%%'")
      }
    }
    return result.isEmpty && !word.isQuoted ? [] : [result]
  }
}
