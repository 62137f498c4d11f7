import Foundation
internal import OpportuneApps

/// What has become of messages to programs, for who has sent them and asks. (R-MSG-01)
struct MessageLedger {
  /// The most of an app that wait for its program's answer.
  static let mostWaiting = 8
  /// The longest kind, in bytes.
  static let longestKind = 100
  /// The longest payload, in bytes of the line to the program.
  static let longestPayload = 3072
  /// The most that are known when they are over.
  static let mostOver = 64

  enum Outcome: Hashable {
    case waits
    /// The program has had it, and may have replied.
    case answered(String?)
    /// Why nobody has heard it, for people.
    case lost(String)
  }

  private var last: UInt64 = 0
  private var entries: [UInt64: (app: String, outcome: Outcome)] = [:]
  /// The oldest first.
  private var over: [UInt64] = []

  /// - Returns: its number.
  mutating func begin(_ app: String) -> UInt64 {
    last += 1
    entries[last] = (app, .waits)
    return last
  }

  /// The first outcome counts.
  mutating func settle(_ number: UInt64, _ outcome: Outcome) {
    guard let entry = entries[number], entry.outcome == .waits else { return }
    entries[number] = (entry.app, outcome)
    over.append(number)
    if over.count > Self.mostOver { entries[over.removeFirst()] = nil }
  }

  /// Those of an app that wait.
  func waiting(_ app: String) -> [UInt64] {
    entries.filter { $0.value.app == app && $0.value.outcome == .waits }.keys.sorted()
  }

  /// Nobody hears those of an app that wait.
  mutating func lose(_ app: String, _ why: String) {
    for number in waiting(app) { settle(number, .lost(why)) }
  }

  /// - Returns: `nil` where it is not known, or not any more.
  func outcome(_ number: UInt64, of app: String) -> Outcome? {
    entries[number].flatMap { $0.app == app ? $0.outcome : nil }
  }
}

extension Message {
  /// The payload as a program is told it: an object of JSON, as a text, since lines are flat.
  var payloadText: String? { Self.encoded(payload) }

  private static func encoded(_ value: some Encodable) -> String? {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return (try? encoder.encode(value)).map { String(decoding: $0, as: UTF8.self) }
  }

  /// - Throws: ``ProcessHostError``: `value` where a program's line does not hold it.
  func checkFits() throws(ProcessHostError) {
    let bytes = kind.utf8.count
    guard (1...MessageLedger.longestKind).contains(bytes), !kind.unicodeScalars.contains("\0") else {
      throw ProcessHostError(
        .value(
          "the kind of the message", "\(bytes) bytes long",
          "expected 1 to \(MessageLedger.longestKind) bytes, none of them null"))
    }
    let size = payloadText.flatMap { Self.encoded($0) }?.utf8.count ?? .max
    guard size <= MessageLedger.longestPayload else {
      throw ProcessHostError(
        .value(
          "the payload of the message", "\(size) bytes long as it is sent",
          "expected up to \(MessageLedger.longestPayload)"))
    }
  }
}
