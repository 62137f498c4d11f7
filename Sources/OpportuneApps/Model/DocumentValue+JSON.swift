import Foundation

/// The error for text that is not JSON (RFC 8259): the offset of the first wrong byte, from 0 on.
package struct NotJSON: Error, Sendable, Hashable, CustomStringConvertible {
  package let byte: Int

  package var description: String { "it stops being JSON at byte \(byte)" }
}

extension DocumentValue {
  /// Parses JSON in UTF-8. Foundation's decoder makes an error for each type that a value is not, and takes
  /// more than ten times as long, which is too long for maps.
  ///
  /// Of a repeated key the last value counts. A number beyond the range of `Double` is ``other``.
  package init(json data: Data) throws(NotJSON) {
    var reader = JSONReader(Array(data))
    self = try reader.document()
  }
}

private struct JSONReader {
  private let bytes: [UInt8]
  private var place = 0
  /// The limit of nesting, as in Foundation. A thread's stack holds more.
  private static let deepest = 512

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    // A byte order mark at the beginning is skipped.
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { place = 3 }
  }

  mutating func document() throws(NotJSON) -> DocumentValue {
    let value = try value(depth: 1)
    guard next == nil else { throw wrong }
    return value
  }

  private var wrong: NotJSON { NotJSON(byte: place) }

  private var byte: UInt8? { place < bytes.count ? bytes[place] : nil }

  /// The next byte that is not whitespace.
  private var next: UInt8? {
    mutating get {
      while let byte, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { place += 1 }
      return byte
    }
  }

  /// Consumes a character, if it comes next.
  private mutating func takes(_ sign: Unicode.Scalar) -> Bool {
    guard next == UInt8(ascii: sign) else { return false }
    place += 1
    return true
  }

  private mutating func value(depth: Int) throws(NotJSON) -> DocumentValue {
    guard let first = next, depth <= Self.deepest else { throw wrong }
    switch first {
    case UInt8(ascii: "{"): return .object(try object(depth: depth))
    case UInt8(ascii: "["): return .array(try array(depth: depth))
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .boolean(true))
    case UInt8(ascii: "f"): return try word("false", .boolean(false))
    case UInt8(ascii: "n"): return try word("null", .other)
    default: return try number()
    }
  }

  private mutating func word(_ word: String, _ value: DocumentValue) throws(NotJSON) -> DocumentValue {
    guard bytes[place...].starts(with: word.utf8) else { throw wrong }
    place += word.utf8.count
    return value
  }

  private mutating func array(depth: Int) throws(NotJSON) -> [DocumentValue] {
    place += 1
    var values: [DocumentValue] = []
    if takes("]") { return values }
    repeat { values.append(try value(depth: depth + 1)) } while takes(",")
    guard takes("]") else { throw wrong }
    return values
  }

  private mutating func object(depth: Int) throws(NotJSON) -> [String: DocumentValue] {
    place += 1
    var values = [String: DocumentValue](minimumCapacity: 4)
    if takes("}") { return values }
    repeat {
      guard next == UInt8(ascii: "\"") else { throw wrong }
      let key = try string()
      guard takes(":") else { throw wrong }
      values[key] = try value(depth: depth + 1)
    } while takes(",")
    guard takes("}") else { throw wrong }
    return values
  }

  // MARK: Text

  private mutating func string() throws(NotJSON) -> String {
    place += 1
    let start = place
    var all: UInt8 = 0
    while let byte, byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
      all |= byte
      place += 1
    }
    if byte == UInt8(ascii: "\"") {
      defer { place += 1 }
      // Nearly all names and keys are ASCII, which needs no check.
      return all < 0x80
        ? String(decoding: bytes[start..<place], as: UTF8.self) : try text(bytes[start..<place])
    }
    var unescaped = Array(bytes[start..<place])
    while let byte, byte >= 0x20 {
      place += 1
      switch byte {
      case UInt8(ascii: "\""): return try text(unescaped[...])
      case UInt8(ascii: "\\"): unescaped += String(try escaped()).utf8
      default: unescaped.append(byte)
      }
    }
    throw wrong
  }

  private func text(_ bytes: ArraySlice<UInt8>) throws(NotJSON) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else { throw wrong }
    return text
  }

  /// The character of an escape sequence, after the backslash.
  private mutating func escaped() throws(NotJSON) -> Character {
    guard let byte else { throw wrong }
    place += 1
    switch byte {
    case UInt8(ascii: "\""): return "\""
    case UInt8(ascii: "\\"): return "\\"
    case UInt8(ascii: "/"): return "/"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"):
      let unit = try fourDigits()
      if let scalar = Unicode.Scalar(unit) { return Character(scalar) }
      // A surrogate must be followed by its second half.
      guard unit < 0xDC00, bytes[place...].starts(with: "\\u".utf8) else { throw wrong }
      place += 2
      let second = try fourDigits()
      guard (0xDC00...0xDFFF).contains(second),
        let scalar = Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (second - 0xDC00))
      else { throw wrong }
      return Character(scalar)
    default: throw wrong
    }
  }

  private mutating func fourDigits() throws(NotJSON) -> UInt32 {
    var value: UInt32 = 0
    for _ in 0..<4 {
      guard let byte, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { throw wrong }
      value = value << 4 | UInt32(digit)
      place += 1
    }
    return value
  }

  // MARK: Numbers

  private mutating func number() throws(NotJSON) -> DocumentValue {
    let start = place
    // The digits as an integer, and the power of ten to multiply it by.
    var (whole, power) = (0.0, 0)
    if byte == UInt8(ascii: "-") { place += 1 }
    let first = byte
    let count = digits(&whole)
    guard count > 0, count == 1 || first != UInt8(ascii: "0") else { throw wrong }
    if byte == UInt8(ascii: ".") {
      place += 1
      power = -digits(&whole)
      guard power < 0 else { throw wrong }
    }
    var isPlain = true
    if byte == UInt8(ascii: "e") || byte == UInt8(ascii: "E") {
      isPlain = false
      place += 1
      if byte == UInt8(ascii: "-") || byte == UInt8(ascii: "+") { place += 1 }
      var exponent = 0.0
      guard digits(&exponent) > 0 else { throw wrong }
    }
    // Up to these bounds both numbers are exact, and their quotient is the nearest double.
    if isPlain, whole < 0x1p53, power >= -22 {
      let value = whole / Self.powers[-power]
      return .number(bytes[start] == UInt8(ascii: "-") ? -value : value)
    }
    guard let value = Double(String(decoding: bytes[start..<place], as: UTF8.self)), value.isFinite else {
      return .other
    }
    return .number(value)
  }

  private static let powers = (0...22).map { pow(10, Double($0)) }

  /// Appends the following digits to an integer, and returns how many there were.
  private mutating func digits(_ whole: inout Double) -> Int {
    let start = place
    while let byte, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
      whole = whole * 10 + Double(byte - UInt8(ascii: "0"))
      place += 1
    }
    return place - start
  }
}
