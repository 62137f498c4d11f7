/// An input as text: `target: NAME`, then its bytes in hexadecimal, lines of `input: …`. `#` begins a
/// comment.
enum ExampleText {
  private static let bytesMax = 1 << 20

  static func text(target: String, message: String, input: [UInt8]) -> String {
    var lines = ["# \(message.split(separator: "\n").first ?? "")", "target: \(target)"]
    for start in stride(from: 0, to: max(1, input.count), by: 32) {
      lines.append("input: " + input[start..<min(start + 32, input.count)].map(hexadecimal).joined())
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    (byte < 16 ? "0" : "") + String(byte, radix: 16)
  }

  /// - Throws: ``FuzzError/badExample(_:)``.
  static func input(of text: String) throws(FuzzError) -> [UInt8] {
    var input: [UInt8] = []
    var isThere = false
    for line in text.split(separator: "\n") where line.hasPrefix("input:") {
      isThere = true
      let digits = Array(line.dropFirst(6).utf8.filter { $0 != 32 && $0 != 13 })
      guard digits.count % 2 == 0 else {
        throw .badExample("a line of input has half a byte: '\(line.prefix(80))'")
      }
      for at in stride(from: 0, to: digits.count, by: 2) {
        guard let byte = UInt8(String(decoding: digits[at...at + 1], as: UTF8.self), radix: 16) else {
          throw .badExample(
            "a byte is two hexadecimal digits, not '\(String(decoding: digits[at...at + 1], as: UTF8.self))'")
        }
        input.append(byte)
      }
      guard input.count <= bytesMax else { throw .badExample("there are more than \(bytesMax) bytes") }
    }
    guard isThere else { throw .badExample("there is no line 'input: …'") }
    return input
  }

  /// The name of the target that an example of any kind is for.
  ///
  /// - Throws: ``FuzzError/badExample(_:)``.
  static func target(of text: String) throws(FuzzError) -> String {
    for line in text.split(separator: "\n") where line.hasPrefix("target:") {
      return String(line.dropFirst(7).filter { !$0.isWhitespace })
    }
    throw .badExample("there is no line 'target: …'")
  }
}
