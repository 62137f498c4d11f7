import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneFuzz
import OpportuneLocation

/// What a gpsd may say, with a known meaning, cut into pieces as a connection does; and anything else.
struct GPSDProperty: DocumentProperty {
  let name = "gpsd"
  let summary =
    "What a gpsd says is heard as the fixes that it tells, in whatever pieces it comes; a line that makes no sense is "
    + "left out and counted, one without end ends the connection; nothing traps."
  var receive: @Sendable (inout GPSDSession, [UInt8]) -> [GPSDSession.Effect] = {
    $0.handle(.received($1), at: .seconds(1))
  }

  static let words = [
    "{\"class\":\"TPV\",", "\"mode\":3,", "\"lat\":90,", "\"lon\":-180,", "\"speed\":", "\"epx\":0,\"epy\":",
    "\"eph\":",
    "\"epv\":null,", "\"altHAE\":", "}\n", "\n", "\r\n", "\u{0}", "null", "1e400", "-1", "[[[[",
    "{\"class\":\"SKY\"}\n",
  ]

  static let bytesMade = 4...80

  static let fixtures: [[UInt8]] = (0..<12).map { seed in
    var generator = SplitMix64(seed: UInt64(seed))
    var bytes = ByteSource(generator.bytes(60))
    return Array(MadeReports(&bytes).text.utf8)
  }

  func check(document: Data) throws(Violation) { _ = try hear(Array(document), 7) }

  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let size = 1 + bytes.below(100)
    let made = MadeReports(&bytes)
    log.note("in pieces of \(size): \(made.text.prefix(2000))")
    let heard = try hear(Array(made.text.utf8), size)
    guard heard.fixes.count == made.fixes.count, heard.garbage == made.garbage,
      heard.isClosed == made.isEndless
    else {
      throw Violation(
        "\(heard.fixes.count) fixes, \(heard.garbage) lines left out, \(heard.isClosed ? "" : "not ")closed: of "
          + "\(made.fixes.count), \(made.garbage), \(made.isEndless ? "" : "not ")closed")
    }
    for (fix, said) in zip(heard.fixes, made.fixes) {
      guard fix.position.latitude == said.latitude, fix.position.longitude == said.longitude,
        (fix.altitude != nil) == said.hasHeight
      else { throw Violation("a fix is not what was said") }
    }
  }

  private struct Heard: Equatable {
    var fixes: [Fix] = []
    var garbage = 0
    var isClosed = false
  }

  /// The same whether it comes at once or in pieces.
  private func hear(_ bytes: [UInt8], _ size: Int) throws(Violation) -> Heard {
    let whole = try hear([bytes])
    let pieces = try hear(
      stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) })
    guard whole == pieces else {
      throw Violation("\(whole.fixes.count) fixes at once, \(pieces.fixes.count) in pieces of \(size)")
    }
    return whole
  }

  private func hear(_ pieces: [[UInt8]]) throws(Violation) -> Heard {
    guard var session = try? GPSDSession(at: .zero) else { throw Violation("no session") }
    _ = session.handle(.elapsed, at: .zero)
    _ = session.handle(.connected, at: .zero)
    var heard = Heard()
    var isAvailable: Bool?
    for piece in pieces where !heard.isClosed {
      for effect in receive(&session, piece) {
        switch effect {
        case .update(.fix(let fix)):
          guard isAvailable == true, !heard.isClosed, (0.01...1e7).contains(fix.accuracy.standardDeviation),
            fix.speed.map({ $0 >= 0 }) ?? true
          else { throw Violation("a fix of a source that has none, or out of range") }
          heard.fixes.append(fix)
        case .update(.available(let now)):
          guard now != isAvailable else { throw Violation("the same news twice") }
          isAvailable = now
        case .close: heard.isClosed = true
        case .connect, .send, .update(.cell):
          throw Violation("it connects where it is connected, or knows of cells")
        }
      }
    }
    guard session.deadline > .seconds(1) else { throw Violation("it is due at once, for ever") }
    heard.garbage = session.garbage
    return heard
  }
}

/// Reports and how a gpsd writes them.
private struct MadeReports {
  var fixes: [(latitude: Double, longitude: Double, hasHeight: Bool)] = []
  var garbage = 0
  var isEndless = false
  var text = ""

  init(_ bytes: inout ByteSource) {
    for _ in 0..<bytes.below(12) {
      switch bytes.below(10) {
      case 0: text += "{\"class\":\"SKY\",\"satellites\":[{\"PRN\":\(bytes.byte())}]}"
      case 1: text += "{\"class\":\"TPV\",\"mode\":\(bytes.below(2)),\"lat\":1,\"lon\":2}"
      case 2: break
      case 3:
        text += bytes.choice([
          "?", "{", "[]", "{\"class\":\"TPV\",\"mode\":2,\"lat\":91,\"lon\":0}", "\u{0}", "{\"class\":1}",
        ])
        garbage += 1
      default: add(&bytes)
      }
      text += bytes.flag() ? "\r\n" : "\n"
    }
    if bytes.below(30) == 0 {
      isEndless = true
      garbage += 1
      text += String(repeating: "a", count: GPSDSession.lineMax + 1)
    }
  }

  private mutating func add(_ bytes: inout ByteSource) {
    let (latitude, longitude) = (
      Double(bytes.below(18_001)) / 100 - 90, Double(bytes.below(36_001)) / 100 - 180
    )
    let (mode, hasHeight) = (2 + bytes.below(2), bytes.flag())
    var fields = ["\"class\":\"TPV\"", "\"mode\":\(mode)", "\"lat\":\(latitude)", "\"lon\":\(longitude)"]
    if hasHeight { fields.append("\"altHAE\":\(Double(bytes.byte()) * 10 - 400)") }
    if bytes.flag() { fields.append("\"epx\":\(bytes.byte()),\"epy\":\(bytes.byte())") }
    if bytes.flag() { fields.append("\"speed\":\(bytes.byte())") }
    if bytes.flag() { fields.append("\"time\":\"2020-02-07T02:14:00.000Z\",\"device\":\"a \\\"b\\\"\"") }
    text += "{\(fields.joined(separator: ","))}"
    fixes.append((latitude, longitude, mode == 3 && hasHeight))
  }
}
