import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Bytes and text that are sent or written without a buffer.
@Suite(.bounded) struct SendingTests {
  /// What comes until the end of the stream.
  private func all(of socket: FileDescriptor, _ io: AppIO) async throws -> [UInt8] {
    let buffer = try IOBuffer(count: 64 << 10)
    var bytes: [UInt8] = []
    while true {
      let count = try await io.receive(socket, into: buffer)
      if count == 0 { return bytes }
      bytes += try buffer.bytes(in: 0..<count)
    }
  }

  /// Also what the socket does not take at once, of a slice, and of what lies in no array.
  @Test(arguments: backends, [IOState.active, .background])
  func allOfItArrives(backend: IOConfiguration.Backend, state: IOState) async throws {
    let io = try makeBroker(backend).makeApp(named: "sends", state: state)
    let (server, client) = try await connectedPair(io)
    // The background's buffers are small, and so slow.
    let bytes = (0..<(state == .active ? 5_000_000 : 20_000)).map { UInt8(truncatingIfNeeded: $0 / 7) }
    let receiving = Task { try await all(of: server, io) }
    try await io.send(client, bytes)
    try await io.send(client, bytes[10_000...])
    try await io.send(client, [])
    try await io.send(client, bytes[..<1000].reversed())
    try await io.send(client, "one \(2)\n")
    try await io.send(client, "äöü".dropFirst(), within: .seconds(20))
    try await io.shutdown(client)
    let expected = bytes + bytes[10_000...] + bytes[..<1000].reversed() + Array("one 2\nöü".utf8)
    #expect(try await receiving.value == expected)
    for socket in [server, client] { try await io.close(socket) }
    let none = FileDescriptor(rawValue: 99_999)
    #expect(await code { try await io.send(none, []) } == .system(.badFileDescriptor))
    #expect(await code { try await io.send(none, "text") } == .system(.badFileDescriptor))
  }

  /// An active app's, that the socket takes at once: the reactor has nothing to do with it.
  @Test(arguments: backends)
  func whatGoesAtOnceIsSentFromItsOwnMemory(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "sends")
    let (server, client) = try await connectedPair(io)
    let before = try await broker.statistics().foreground
    try await io.send(client, [1, 2, 3])
    try await io.send(client, "text")
    var added = try await broker.statistics().foreground
    added.subtract(before)
    #expect(added.inline == 2 && added.bytesWritten == 7 && added.submitted == 0)
    for socket in [server, client] { try await io.close(socket) }
  }

  /// The array may go before the kernel has done with what was asked of it.
  // R-CARD-04
  @Test(arguments: backends)
  func anErrorSaysHowMuchWasSent(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sends")
    let (server, client) = try await connectedPair(io)
    let error = await #expect(throws: IOError.self) {
      try await io.send(client, [UInt8](repeating: 1, count: 32 << 20), within: .milliseconds(50))
    }
    #expect(error?.code == .deadlineExceeded)
    #expect(error?.message.contains(" of \(32 << 20) bytes done") == true)
    #expect(error?.message.contains(", 0 of") == false)
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await code { try await io.send(client, "text") }
    }
    #expect(await cancelled.value == .cancelled)
    for socket in [server, client] { try await io.close(socket) }
  }

  @Test(arguments: backends)
  func datagramsOfBytes(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sends")
    let (one, other) = try await datagramPair(io)
    let buffer = try IOBuffer(count: 100)
    for bytes in [[1, 2, 3], [], [4]] as [[UInt8]] {
      try await io.send(one, bytes, to: try io.address(of: other))
      let (count, from, _) = try await io.receiveDatagram(other, into: buffer)
      #expect(try buffer.bytes(in: 0..<count) == bytes)
      #expect(from == (try io.address(of: one)))
    }
    for socket in [one, other] { try await io.close(socket) }
  }

  @Test(arguments: backends)
  func bytesAndTextAreWritten(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "writes")
      let path = folder.appending("a")
      let file = try await io.open(path, .readWrite, options: [.create])
      #expect(try await io.write(file, "0123456789", at: 0) == 10)
      #expect(try await io.write(file, [UInt8](repeating: 65, count: 3)[1...], at: 8) == 2)
      #expect(try await io.write(file, "ab") == 2)  // at the descriptor's own position
      #expect(try await io.write(file, "ö", within: .seconds(20)) == 2)
      #expect(try await io.write(file, []) == 0)
      #expect(try await io.readFile(path) == Array("abö4567AA".utf8))
      #expect(await code { try await io.write(file, "a", at: -1) } == .configuration)
      try await io.close(file)
    }
  }
}
