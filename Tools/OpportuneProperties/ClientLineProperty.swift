import COpportuneClientLines
import Foundation
import OpportuneBase
import OpportuneFuzz

/// Lines of the host as a program's client library in C reads them, beside another reader of JSON; and texts
/// as that library writes them.
struct ClientLineProperty: DocumentProperty {
  let name = "client"
  let summary =
    "A program's client reads a line of its host as it was meant, keeps texts within their bounds and whole "
    + "characters, whatever comes; what it writes is read as the same text."
  /// For tests of the judge.
  var read: @Sendable (Data) -> opp_checked_line? = { Self.readLine($0) }

  static let words = [
    "{\"event\":\"", "\"ok\":true", "\"id\":", "\"grace_s\":", "\"reason\":\"", "\\u0000", "\\ud83d\\ude00",
    "\\ud800", "\\", "\"", "}", "[", ",", "null", "\u{0}", "é", "😀", String(repeating: "é", count: 200),
    String(repeating: "k", count: 40),
  ]

  static let bytesMade = 4...40

  static let fixtures: [[UInt8]] = [
    #"{"ok":true,"id":7,"name":"mail","task":3}"#, #"{"ok":false,"error":"there is no 'é\n'"}"#,
    #"{"event":"willSuspend","id":18446744073709551615,"grace_s":0.5}"#,
    #"{"bytes":5,"event":"didReceiveData","grace_s":5,"id":9,"socket":2}"#,
    #"{"event":"didReceiveMessage","id":9,"kind":"letter","payload":"{\"from\":\"ada\"}"}"#,
    #"{"event":"didLeave","reason":"the host ended","later":null}"#, "{}",
  ].map { Array($0.utf8) }

  /// What a line says, as another reader has it; nil where that one refuses it, or it is no flat object.
  private func flat(_ document: Data) -> [String: Any]? {
    guard let object = try? JSONSerialization.jsonObject(with: document) as? [String: Any] else { return nil }
    return object.values.contains { $0 is [Any] || $0 is [String: Any] } ? nil : object
  }

  private static func readLine(_ document: Data) -> opp_checked_line? {
    var line = opp_checked_line()
    // A copy of just this size, so that a sanitizer sees a step beyond it.
    let bytes = UnsafeMutableBufferPointer<CChar>.allocate(capacity: max(1, document.count))
    defer { bytes.deallocate() }
    for (index, byte) in document.enumerated() { bytes[index] = CChar(bitPattern: byte) }
    return opp_checked_line_read(bytes.baseAddress, document.count, &line) ? line : nil
  }

  /// A text field, whose bytes end with the first that is null.
  private func text<Field>(_ field: Field) throws(Violation) -> String {
    let bytes = withUnsafeBytes(of: field) { Array($0) }
    guard let end = bytes.firstIndex(of: 0) else { throw Violation("a text has no end") }
    guard let text = String(validating: bytes[..<end], as: UTF8.self) else {
      throw Violation("half a character is left of a text")
    }
    return text
  }

  func check(document: Data) throws(Violation) {
    let line = read(document)
    // Of texts that are not UTF-8, and of null bytes, the library promises only that nothing happens.
    guard let string = String(validating: document, as: UTF8.self), !string.contains("\0"),
      !string.contains("\\u0000")
    else { return }
    if let line {
      for text in [
        try text(line.event), try text(line.launch), try text(line.name), try text(line.error),
        try text(line.reason),
        try text(line.file), try text(line.kind), try text(line.origin), try text(line.payload),
      ] {
        guard text.isEmpty || string.contains("\\") || document.range(of: Data(text.utf8)) != nil else {
          throw Violation("\(text.debugDescription) is not in the line")
        }
      }
    }
    // Keys that come twice mean one thing here and another there; a comma at the end is none here.
    guard let expected = flat(document), !string.contains(where: \.isNewline),
      expected.count == string.split(separator: ":").count - 1, !string.contains("\\"),
      !string.filter({ !$0.isWhitespace }).contains(",}")
    else { return }
    guard let line else { throw Violation("it is refused") }
    try compare(line, expected)
  }

  private func compare(_ line: opp_checked_line, _ expected: [String: Any]) throws(Violation) {
    let texts = [
      ("event", try text(line.event), MemoryLayout.size(ofValue: line.event)),
      ("launch", try text(line.launch), MemoryLayout.size(ofValue: line.launch)),
      ("name", try text(line.name), MemoryLayout.size(ofValue: line.name)),
      ("error", try text(line.error), MemoryLayout.size(ofValue: line.error)),
      ("reason", try text(line.reason), MemoryLayout.size(ofValue: line.reason)),
      ("file", try text(line.file), MemoryLayout.size(ofValue: line.file)),
      ("kind", try text(line.kind), MemoryLayout.size(ofValue: line.kind)),
      ("origin", try text(line.origin), MemoryLayout.size(ofValue: line.origin)),
      ("payload", try text(line.payload), MemoryLayout.size(ofValue: line.payload)),
    ]
    for (key, found, size) in texts {
      let meant = expected[key] as? String ?? ""
      // Cut at a whole character, so less than four bytes before the room ends.
      guard meant.utf8.count < size ? found == meant : meant.utf8.starts(with: found.utf8),
        found.utf8.count >= min(meant.utf8.count, size - 4)
      else { throw Violation("\(key) is \(found.debugDescription), and \(meant.debugDescription) was meant") }
    }
  }

  /// A line with a known meaning, whose texts the library has written.
  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let id = UInt64(bytes.byte()) << UInt64(bytes.below(57))
    let (quarters, ok) = (UInt64(bytes.byte()), bytes.flag())
    let (socket, size) = (Int64(bytes.byte()) - 128, UInt64(bytes.byte()) << 32)
    var members = [
      "\"id\":\(id)", "\"grace_s\":\(Double(quarters) / 4)", "\"ok\": \(ok)", "\"socket\":\(socket)",
      "\"bytes\":\(size)", "\"number\":\(socket)", "\"at_ms\":\(-socket)",
    ]
    var expected: [String: Any] = [:]
    for key in ["event", "launch", "name", "error", "reason", "file", "kind", "origin", "payload"]
    where bytes.flag() {
      let unit = bytes.choice(["a", "é", "\"", "\\", "\n", "😀", "\u{1}", "€b"])
      let meant = String(repeating: unit, count: Int(bytes.byte()) * (bytes.flag() ? 4 : 1))
      expected[key] = meant
      members.append("\"\(key)\":\(try quoted(meant))")
    }
    let line = "{\(members.joined(separator: ","))}"
    log.note("read: \(line.prefix(400))")
    guard let found = read(Data(line.utf8)) else { throw Violation("it is refused") }
    try compare(found, expected)
    guard found.id == id, found.grace_ns == quarters * 250_000_000, found.ok == ok else {
      throw Violation("id is \(found.id), grace \(found.grace_ns) ns, ok \(found.ok)")
    }
    guard found.socket == socket, found.bytes == size, found.number == socket, found.at_ms == -socket else {
      throw Violation(
        "socket is \(found.socket), with \(found.bytes) bytes; number \(found.number), at \(found.at_ms)")
    }
  }

  /// The text as the library writes it, which the other reader has to read as the same.
  private func quoted(_ text: String) throws(Violation) -> String {
    var out = [CChar](repeating: 0, count: text.utf8.count * 6 + 16)
    let length = Int(opp_checked_line_quote(text, text.unicodeScalars.count, &out, out.count))
    guard length > 0,
      let written = String(validating: out[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self)
    else { throw Violation("\(text.debugDescription) is not written: \(length)") }
    let again =
      try? JSONSerialization.jsonObject(with: Data(written.utf8), options: .fragmentsAllowed) as? String
    guard again == text else { throw Violation("\(text.debugDescription) is written as \(written)") }
    guard text.isEmpty || opp_checked_line_quote(text, text.unicodeScalars.count - 1, &out, out.count) < 0
    else {
      throw Violation("more characters than are allowed are written")
    }
    return written
  }
}
