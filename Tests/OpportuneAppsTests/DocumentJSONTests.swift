import Foundation
import TestSupport
import Testing

@testable import OpportuneApps

@Suite(.bounded) struct DocumentJSONTests {
  private func read(_ text: String) throws -> DocumentValue { try DocumentValue(json: Data(text.utf8)) }

  private func number(_ text: String) throws -> Double? {
    if case .number(let value) = try read(text) { value } else { nil }
  }

  @Test func numbersAreTheNearestThereAre() throws {
    var generator = SplitMix64(seed: 3)
    var texts = [
      "0", "-0", "1", "-12.5", "8.123456789012345", "0.1", "9007199254740993", "1e22", "1E+2", "2.5e-3",
      "5e-324",
    ]
    for _ in 0..<3000 {
      let value = Double(bitPattern: UInt64.random(in: 0...UInt64.max, using: &generator))
      if value.isFinite { texts.append("\(value)") }
      texts.append("\(Double.random(in: -180...180, using: &generator))")
      let digits = (0..<Int.random(in: 1...25, using: &generator)).map { _ in
        "\(Int.random(in: 0...9, using: &generator))"
      }
      texts.append("1\(digits.joined()).\(digits.reversed().joined())")
    }
    for text in texts { #expect(try number(text) == Double(text), "\(text)") }
    // Zero keeps its sign, and what no number holds is none.
    #expect(try number("-0")?.sign == .minus)
    #expect(try number("1e999") == nil && number("-1e999") == nil)
  }

  @Test func textIsWhatItStandsFor() throws {
    let cases = [
      (#""""#, ""), (#""a b""#, "a b"), (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
      (#""\u00e9\u20AC""#, "é€"), (#""\ud83d\ude00!""#, "\u{1F600}!"), ("\"é\u{1F600}\"", "é\u{1F600}"),
      (#""a\u0000b""#, "a\0b"),
    ]
    for (text, expected) in cases {
      guard case .string(let value) = try read(text) else {
        Issue.record("\(text) is no text")
        continue
      }
      #expect(value == expected, "\(text)")
    }
  }

  @Test func listsAndObjectsAreRead() throws {
    let text = " { \"a\" : [ 1 , true,false ,null, {} , [ ] ] ,\n\t\"b\":\"c\", \"a b\": -1 }\r\n"
    for marked in [text, "\u{FEFF}\(text)"] {
      guard case .object(let object) = try read(marked), case .array(let list)? = object["a"] else {
        Issue.record("no object with a list")
        continue
      }
      #expect(
        object.count == 3
          && list.map(\.found).joined(separator: "; ") == """
            the number 1.0; the boolean true; the boolean false; neither text, number nor list; a dictionary of 0; an array of 0
            """
      )
    }
    guard case .object(let twice) = try read(#"{"a":1,"a":2}"#), case .number(2)? = twice["a"] else {
      Issue.record("of a key that comes twice not the last value")
      return
    }
  }

  @Test func whatIsNotJSONIsRefusedWhereItStopsToBe() {
    let cases: [(String, Int)] = [
      ("", 0), (" ", 1), ("{", 1), ("[1,]", 3), ("[1 2]", 3), ("{\"a\":}", 5), ("{\"a\" 1}", 5), ("{a:1}", 1),
      ("[]]", 2),
      ("01", 2), ("1.", 2), (".5", 0), ("-", 1), ("+1", 0), ("1e", 2), ("nul", 0), ("NaN", 0),
      ("Infinity", 0),
      ("\"a", 2), ("\"a\nb\"", 2), (#""\x""#, 3), (#""\u12G4""#, 5), (#""\ud800""#, 7), (#""\udc00""#, 7),
      (#""\ud800\u0041""#, 13), ("'a'", 0), ("[1]x", 3), ("// a\n1", 0),
    ]
    for (text, byte) in cases {
      #expect(throws: NotJSON(byte: byte), "\(text)") { try read(text) }
    }
    let bytes: [[UInt8]] = [[0x22, 0xFF, 0x22], [0x22, 0xC3, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22]]
    for bytes in bytes { #expect(throws: NotJSON.self, "\(bytes)") { try DocumentValue(json: Data(bytes)) } }
  }

  @Test func depthIsBounded() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }
    _ = try read(nested(512))
    #expect(throws: NotJSON.self) { try read(nested(513)) }
    #expect(throws: NotJSON.self) { try read(String(repeating: "{\"a\":", count: 100_000)) }
  }

  /// Damaged texts: what Foundation takes is taken, and nothing else, as far as the two read the same
  /// language.
  @Test func garbageIsTakenAsFoundationTakesIt() {
    var generator = SplitMix64(seed: 11)
    let text = Array(
      #"{"type":"Feature","properties":{"name":"a\u00e9","radius":1.5e2},"coordinates":[[1,-2.5],[0,3]]}"#
        .utf8)
    var taken = 0
    for _ in 0..<3000 {
      var bytes = text
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
          bytes[place] =
            Array(#"{}[]",:\0123456789.-+eEtrufalsn "#.utf8).randomElement(using: &generator) ?? 32
        case 1: bytes.remove(at: place)
        default: bytes.insert(bytes[Int.random(in: 0..<bytes.count, using: &generator)], at: place)
        }
      }
      let data = Data(bytes)
      let ours = (try? DocumentValue(json: data)) != nil
      let theirs = (try? JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed)) != nil
      let damaged = String(decoding: bytes, as: UTF8.self)
      // A comma before the end is none of the language; Foundation lets it pass.
      let hasCommaAtEnd = damaged.contains(/,\s*[\]}]/)
      #expect(ours == theirs || (hasCommaAtEnd && !ours), "\(damaged)")
      taken += ours ? 1 : 0
    }
    #expect(taken > 100)
  }
}
