/// The group `[Desktop Entry]` of a file, by the Desktop Entry Specification 1.5. Other groups are checked
/// and passed over, as are the values for locales.
package struct DesktopEntry: Sendable, Hashable {
  /// The text behind the equals sign, not unescaped yet.
  package private(set) var values: [String: String] = [:]

  /// The line, from 1 on, and what is wrong there.
  struct SyntaxError: Error, Hashable {
    let line: Int
    let reason: String
  }

  static let group = "Desktop Entry"

  init(_ bytes: [UInt8]) throws(SyntaxError) {
    var names: Set<String> = []
    var current: String?
    var keys: Set<String> = []
    var number = 0
    for raw in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      number += 1
      guard var line = String(validating: raw, as: UTF8.self) else {
        throw SyntaxError(line: number, reason: "it is not in UTF-8")
      }
      if line.utf8.last == UInt8(ascii: "\r") { line = String(decoding: line.utf8.dropLast(), as: UTF8.self) }
      if line.utf8.contains(0) { throw SyntaxError(line: number, reason: "it holds a null byte") }
      if line.utf8.first == UInt8(ascii: "#") || line.utf8.allSatisfy({ $0 == 32 || $0 == 9 }) { continue }
      if line.utf8.first == UInt8(ascii: "[") {
        let name = try Self.groupName(line, number)
        if current == nil, name != Self.group {
          throw SyntaxError(line: number, reason: "the first group is '\(name)', expected '\(Self.group)'")
        }
        guard names.insert(name).inserted else {
          throw SyntaxError(line: number, reason: "the group '\(name)' is there twice")
        }
        (current, keys) = (name, [])
        continue
      }
      guard current != nil else {
        throw SyntaxError(line: number, reason: "it comes before the group, expected '[\(Self.group)]'")
      }
      let (key, locale, value) = try Self.pair(line, number)
      guard keys.insert(locale.map { "\(key)[\($0)]" } ?? key).inserted else {
        throw SyntaxError(line: number, reason: "the key '\(key)' is there twice")
      }
      if current == Self.group, locale == nil { values[key] = value }
    }
    if current == nil {
      throw SyntaxError(line: max(1, number), reason: "there is no group '[\(Self.group)]'")
    }
  }

  private static func groupName(_ line: String, _ number: Int) throws(SyntaxError) -> String {
    // The specification wants ASCII without brackets and control characters.
    let name = line.utf8.dropFirst().prefix { $0 != UInt8(ascii: "]") }
    guard line.utf8.count == name.count + 2, !name.isEmpty,
      name.allSatisfy({ (32..<127).contains($0) && $0 != UInt8(ascii: "[") })
    else { throw SyntaxError(line: number, reason: "it is no group, expected '[NAME]'") }
    return String(decoding: name, as: UTF8.self)
  }

  private static func pair(
    _ line: String, _ number: Int
  ) throws(SyntaxError) -> (key: String, locale: String?, value: String) {
    func wrong(_ reason: String) -> SyntaxError { SyntaxError(line: number, reason: reason) }
    guard let equals = line.firstIndex(of: "=") else { throw wrong("it is no entry, expected KEY=VALUE") }
    var key = Substring(line[..<equals]).trimmed
    var locale: String?
    if let bracket = key.firstIndex(of: "[") {
      let inner = key[key.index(after: bracket)...]
      guard inner.last == "]", inner.count > 1,
        inner.dropLast().allSatisfy({ $0.isASCII && $0 != "[" && $0 != "]" })
      else { throw wrong("'\(key)' is no key, expected KEY or KEY[LOCALE]") }
      locale = String(inner.dropLast())
      key = key[..<bracket]
    }
    guard !key.isEmpty, key.utf8.allSatisfy(isOfKey) else {
      throw wrong("'\(key)' is no key, expected A-Z, a-z, 0-9 and '-'")
    }
    return (String(key), locale, String(line[line.index(after: equals)...].trimmed))
  }

  private static func isOfKey(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  // MARK: Values

  /// A value with its escapes replaced; `nil` where there is no such key.
  func string(_ key: String) throws(ValueError) -> String? {
    guard let raw = values[key] else { return nil }
    return try Self.unescaped(raw, semicolons: false)[0]
  }

  /// A value of several, each ended by a semicolon.
  func strings(_ key: String) throws(ValueError) -> [String]? {
    guard let raw = values[key] else { return nil }
    var parts = try Self.unescaped(raw, semicolons: true)
    if parts.last == "" { parts.removeLast() }
    return parts
  }

  func boolean(_ key: String) throws(ValueError) -> Bool? {
    switch values[key] {
    case nil: return nil
    case "true": return true
    case "false": return false
    case .some(let other): throw ValueError(other, "true or false")
    }
  }

  /// A number in plain decimal form.
  func number(_ key: String) throws(ValueError) -> Double? {
    guard let raw = values[key] else { return nil }
    guard !raw.isEmpty, raw.utf8.allSatisfy({ (48...57).contains($0) || $0 == 46 || $0 == 45 }),
      let number = Double(raw)
    else { throw ValueError(raw, "a number") }
    return number
  }

  private static func unescaped(_ raw: String, semicolons: Bool) throws(ValueError) -> [String] {
    var parts = [""]
    var scalars = raw.unicodeScalars.makeIterator()
    while let scalar = scalars.next() {
      if semicolons, scalar == ";" {
        parts.append("")
      } else if scalar != "\\" {
        parts[parts.count - 1].unicodeScalars.append(scalar)
      } else {
        switch scalars.next() {
        case "s": parts[parts.count - 1] += " "
        case "n": parts[parts.count - 1] += "\n"
        case "t": parts[parts.count - 1] += "\t"
        case "r": parts[parts.count - 1] += "\r"
        case "\\": parts[parts.count - 1] += "\\"
        case ";" where semicolons: parts[parts.count - 1] += ";"
        default: throw ValueError(raw, #"no backslash but in \s, \n, \t, \r and \\"#)
        }
      }
    }
    return parts
  }
}

extension Substring {
  /// Without blanks at its ends.
  fileprivate var trimmed: Substring {
    var result = self
    while let first = result.first, first == " " || first == "\t" { result.removeFirst() }
    while let last = result.last, last == " " || last == "\t" { result.removeLast() }
    return result
  }
}
