import COpportune
import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

/// The client of RealtimeKit, against a bus of the test's own that answers as told, well or badly.
@Suite(.bounded, .serialized) struct RealtimeKitTests {
  /// What the bus makes of a call, by its number of the connection.
  enum Script: Sendable {
    case refusesUser
    case grants
    /// With signals, and a reply to another call, before the reply.
    case grantsAmongOthers
    case errors(String)
    case garbage([UInt8])
    case hangsUp
  }

  // R-SYS-03
  @Test func aGrantIsAGrant() async throws {
    for script in [Script.grants, .grantsAmongOthers] {
      let bus = try FakeBus(script)
      #expect(await bus.ask() == RealtimeKit.Answer(isGranted: true, reason: ""))
      // The call as D-Bus has it: process, thread, priority.
      let call = try #require(bus.calls.values.last)
      #expect(call.contains("MakeThreadRealtimeWithPID") && call.contains("org.freedesktop.RealtimeKit1"))
      let body = try #require(bus.bodies.values.last)
      let number = { (at: Int, count: Int) in
        body[at..<at + count].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      }
      #expect(body.count == 20)
      #expect(number(0, 8) == UInt64(getpid()) && number(8, 8) == 4711 && number(16, 4) == 2)
    }
  }

  @Test func aRefusalNamesItsReason() async throws {
    let denied = try await FakeBus(.errors("org.freedesktop.DBus.Error.AccessDenied")).ask()
    #expect(!denied.isGranted && denied.reason.contains("refuses") && denied.reason.contains("AccessDenied"))
    let unknown = try await FakeBus(.errors("org.freedesktop.DBus.Error.ServiceUnknown")).ask()
    #expect(!unknown.isGranted && unknown.reason.contains("not there"))
    let long = try await FakeBus(.errors(String(repeating: "a.", count: 400))).ask()
    #expect(!long.isGranted && long.reason.count < 200)
  }

  @Test func noBusAndABusThatLetsNobodyInAreTold() async throws {
    let none = RealtimeKit.answer { opp_realtime_kit_ask("/nowhere/bus", 1, 1, 1000, $0) }
    #expect(none.reason.contains("no system bus"))
    let closed = try await FakeBus(.refusesUser).ask()
    #expect(!closed.isGranted && closed.reason.contains("no system bus"))
    let path = String(repeating: "a", count: 200)
    #expect(!RealtimeKit.answer { opp_realtime_kit_ask(path, 1, 1, 1000, $0) }.isGranted)
  }

  // Lengths that lie, a wrong byte order, fields of no such type, an end in the middle.
  @Test func whatIsNoAnswerIsNoGrant() async throws {
    let start: [UInt8] = [0x6C, 2, 1, 1]
    let malformed: [[UInt8]] = [
      [0], [0x78] + [UInt8](repeating: 0, count: 15),
      start + [0xFF, 0xFF, 0xFF, 0x7F] + [1, 0, 0, 0] + [0, 0, 0, 0],
      start + [0, 0, 0, 0] + [1, 0, 0, 0] + [0xFF, 0xFF, 0xFF, 0xFF],
      start + [0, 0, 0, 0] + [1, 0, 0, 0] + [8, 0, 0, 0] + [5, 1, 0x75, 0, 0, 0],
      start + [0, 0, 0, 0] + [1, 0, 0, 0] + [8, 0, 0, 0] + [5, 1, 0x61, 0, 2, 0, 0, 0],
      start + [0, 0, 0, 0] + [1, 0, 0, 0] + [8, 0, 0, 0] + [4, 1, 0x73, 0, 0xFF, 0xFF, 0xFF, 0xFF],
      start + [0, 0, 0, 0] + [1, 0, 0, 0] + [8, 0, 0, 0] + [8, 1, 0x67, 0, 0xFF, 0, 0, 0],
    ]
    for bytes in malformed {
      let answer = try await FakeBus(.garbage(bytes)).ask()
      #expect(!answer.isGranted, "\(bytes)")
    }
    #expect(try await !FakeBus(.hangsUp).ask().isGranted)
  }

  /// The bus of this machine, if there is one, is asked for a name that is always there.
  @Test func theLookNeverFails() { #expect(RealtimeKit.look().reason.count < 250) }
}

/// A D-Bus server for one connection, on a socket of its own.
private final class FakeBus: Sendable {
  let path: String
  let calls = Record<String>()
  let bodies = Record<[UInt8]>()
  private let script: RealtimeKitTests.Script

  init(_ script: RealtimeKitTests.Script) throws {
    self.script = script
    let name = "kit-\(UUID().uuidString.prefix(8))"
    path = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    try #require(listener >= 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(bound == 0 && listen(listener, 1) == 0)
    Thread { [self] in
      let connection = accept(listener, nil, nil)
      serve(connection)
      close(connection)
      close(listener)
      unlink(path)
    }.start()
  }

  /// The client's answer. It waits in the kernel, so not on a thread of the language's pool.
  func ask() async -> RealtimeKit.Answer {
    await withCheckedContinuation { continuation in
      Thread { [path] in
        continuation.resume(returning: RealtimeKit.answer { opp_realtime_kit_ask(path, 4711, 2, 10_000, $0) })
      }.start()
    }
  }

  private func take(_ connection: Int32, _ count: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    var have = 0
    while have < count {
      let more = bytes.withUnsafeMutableBytes {
        recv(connection, $0.baseAddress.map { $0 + have }, count - have, 0)
      }
      guard more > 0 else { return nil }
      have += more
    }
    return bytes
  }

  private func give(_ connection: Int32, _ bytes: [UInt8]) {
    _ = bytes.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
  }

  private func line(_ connection: Int32) -> String? {
    var text: [UInt8] = []
    while let byte = take(connection, 1) {
      text += byte
      if byte[0] == 10 { return String(decoding: text, as: UTF8.self) }
    }
    return nil
  }

  private func serve(_ connection: Int32) {
    guard take(connection, 1) == [0], let hello = line(connection) else { return }
    let user = String(geteuid()).utf8.map { String($0, radix: 16) }.joined()
    guard hello == "AUTH EXTERNAL \(user)\r\n" else { return }
    if case .refusesUser = script { return give(connection, Array("REJECTED EXTERNAL\r\n".utf8)) }
    give(connection, Array("OK 0123456789abcdef0123456789abcdef\r\n".utf8))
    guard line(connection) == "BEGIN\r\n" else { return }
    while let start = take(connection, 16) {
      let number = { (at: Int) in start[at..<at + 4].reversed().reduce(0) { $0 << 8 | Int($1) } }
      let (body, serial, fields) = (number(4), number(8), number(12))
      guard let header = take(connection, (fields + 7) / 8 * 8), let content = take(connection, body) else {
        return
      }
      calls.add(String(decoding: header, as: UTF8.self))
      bodies.add(content)
      guard calls.values.count > 1 else {
        give(connection, Self.reply(2, to: serial))
        continue
      }
      switch script {
      case .grants, .refusesUser: give(connection, Self.reply(2, to: serial))
      case .grantsAmongOthers:
        give(connection, Self.reply(4, to: serial))
        give(connection, Self.reply(3, to: serial + 7, error: "not.This"))
        give(connection, Self.reply(2, to: serial))
      case .errors(let name): give(connection, Self.reply(3, to: serial, error: name))
      case .garbage(let bytes):
        give(connection, bytes)
        return
      case .hangsUp: return
      }
    }
  }

  /// A message without a body: type 2 returns, 3 is an error, 4 a signal.
  private static func reply(_ type: UInt8, to serial: Int, error: String? = nil) -> [UInt8] {
    func word(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
    var fields: [UInt8] = []
    if let error { fields += [4, 1, 0x73, 0] + word(error.utf8.count) + Array(error.utf8) + [0] }
    while fields.count % 8 != 0 { fields.append(0) }
    fields += [5, 1, 0x75, 0] + word(serial)
    let message: [UInt8] = [0x6C, type, 1, 1] + word(0) + word(99) + word(fields.count) + fields
    return message + [UInt8](repeating: 0, count: (8 - message.count % 8) % 8)
  }
}
