import Foundation
import OpportuneBase
import OpportuneFuzz

/// A property of a parser. Random bytes seldom get past the first test of one, so after a first byte that
/// says which the input is either bytes from which a document with a known meaning is made, or a document
/// whole: a valid one, changed here and there.
protocol DocumentProperty: DrawnProperty {
  /// Valid documents, and what is put into them.
  static var fixtures: [[UInt8]] { get }
  static var words: [String] { get }
  /// How many bytes a document is made from.
  static var bytesMade: ClosedRange<Int> { get }

  /// Reads a document that may mean anything.
  func check(document: Data) throws(Violation)
  /// Reads one that is made from `bytes`.
  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation)
}

extension DocumentProperty {
  var grain: Int { 1 }
  var head: Int { 1 }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    if Bool.random(using: &generator) {
      return [0] + generator.bytes(Int.random(in: Self.bytesMade, using: &generator))
    }
    let fixture = Self.fixtures.randomElement(using: &generator) ?? []
    return [1] + Documents.changed(fixture, Self.fixtures, Self.words, &generator)
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    let rest = input.dropFirst()
    if let kind = input.first, kind & 1 == 1 {
      log.note("read: " + String(decoding: rest, as: UTF8.self).debugDescription)
      return try check(document: Data(rest))
    }
    var bytes = ByteSource(rest)
    try check(madeFrom: &bytes, &log)
  }
}

/// How documents are made and damaged.
enum Documents {
  private static let numbers = [
    "0", "-1", "1e308", "-1e308", "1e-308", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808",
    "1e999",
    "0.1", "-0", "180", "90.0000001", "1e11", "",
  ]

  /// A document changed in up to 6 places.
  static func changed(
    _ document: [UInt8], _ others: [[UInt8]], _ words: [String], _ generator: inout SplitMix64
  ) -> [UInt8] {
    var bytes = document
    for _ in 0..<Int.random(in: 0...6, using: &generator) {
      let at = Int.random(in: 0...bytes.count, using: &generator)
      let end = min(bytes.count, at + Int.random(in: 0...24, using: &generator))
      switch Int.random(in: 0..<9, using: &generator) {
      case 0: if at < bytes.count { bytes[at] = UInt8.random(in: 0...255, using: &generator) }
      case 1: bytes.removeSubrange(at..<end)
      case 2: bytes.insert(contentsOf: bytes[at..<end], at: at)
      case 3: bytes.insert(contentsOf: Array((words.randomElement(using: &generator) ?? "").utf8), at: at)
      case 4:
        guard let other = others.randomElement(using: &generator), !other.isEmpty else { continue }
        let from = Int.random(in: 0..<other.count, using: &generator)
        bytes.insert(contentsOf: other[from..<min(other.count, from + 40)], at: at)
      case 5: bytes.removeSubrange(at...)
      default: replaceNumber(&bytes, from: at, with: numbers.randomElement(using: &generator) ?? "0")
      }
    }
    return bytes
  }

  private static func replaceNumber(_ bytes: inout [UInt8], from at: Int, with number: String) {
    func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) || byte == 46 || byte == 45 }
    guard let start = bytes[at...].firstIndex(where: isDigit) else { return }
    let end = bytes[start...].firstIndex { !isDigit($0) } ?? bytes.count
    bytes.replaceSubrange(start..<end, with: Array(number.utf8))
  }
}
