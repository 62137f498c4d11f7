import CIOTestSupport
import Foundation
import Logging
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// How an app's own packet filter is kept while its packets are dropped.
@Suite(.bounded) struct SocketFilterTests {
  private let lockFilter: Int32 = 44

  /// Lets datagrams in that begin with `byte`, which is behind the eight of UDP's header.
  private func letsIn(_ byte: UInt8) -> [SocketFilter.Instruction] {
    [
      .init(code: 0x30, k: 8), .init(code: 0x15, jf: 1, k: UInt32(byte)), .init(code: 0x06, k: 0xffff),
      .drop,
    ]
  }

  /// An app with a socket, what the logger hears, and who sends `bytes` to it and tells what comes in.
  private struct Sockets {
    let lines = Lines()
    let broker: IOBroker
    let io: AppIO
    let mine: FileDescriptor
    private let sender: AppIO
    private let theirs: FileDescriptor

    init() async throws {
      broker = try IOBroker(logger: lines.logger)
      io = try broker.makeApp(named: "filters")
      sender = try broker.makeApp(named: "sender")
      (mine, theirs) = try await datagramPair(io, sender)
    }

    func setState(_ state: IOState) async throws {
      io.setState(state)
      _ = try await broker.statistics()
    }

    func send(_ bytes: [UInt8]) async throws {
      let address = try io.address(of: mine)
      for byte in bytes { try await sender.send(theirs, from: try IOBuffer(copying: [byte]), to: address) }
    }

    func receive(_ count: Int) async throws -> [UInt8] {
      let buffer = try IOBuffer(count: 1)
      var bytes: [UInt8] = []
      for _ in 0..<count {
        _ = try await io.receiveDatagram(mine, into: buffer, within: .seconds(10))
        bytes += try buffer.bytes(in: 0..<1)
      }
      return bytes
    }

    func end() async throws {
      try await io.close(mine)
      try await sender.close(theirs)
      await broker.shutdown()
    }
  }

  // R-NET-01
  @Test func isBackAfterASuspension() async throws {
    let sockets = try await Sockets()
    try SocketFilter.set(letsIn(1), on: sockets.mine.rawValue)
    for _ in 0..<2 {
      try await sockets.setState(.suspended)
      try await sockets.send([1, 2])
      try await sockets.setState(.active)
      #expect(try SocketFilter.program(of: sockets.mine.rawValue) == letsIn(1))
    }
    try await sockets.send([2, 1])
    #expect(try await sockets.receive(1) == [1])
    #expect(sockets.lines.all.isEmpty)
    try await sockets.end()
  }

  // R-NET-01
  @Test func noFilterIsNoneAgain() async throws {
    let sockets = try await Sockets()
    try await sockets.setState(.suspended)
    #expect(try SocketFilter.program(of: sockets.mine.rawValue) == [.drop])
    try await sockets.setState(.active)
    #expect(try SocketFilter.program(of: sockets.mine.rawValue) == [])
    try await sockets.end()
  }

  // R-NET-01
  @Test func oneThatIsAttachedMeanwhileStays() async throws {
    let sockets = try await Sockets()
    try await sockets.setState(.suspended)
    try SocketFilter.set(letsIn(3), on: sockets.mine.rawValue)
    try await sockets.setState(.active)
    #expect(try SocketFilter.program(of: sockets.mine.rawValue) == letsIn(3))
    try await sockets.end()
  }

  /// Packets are kept, and the logger says so once.
  // R-NET-01
  @Test func aLockedOneStaysInItsPlace() async throws {
    let sockets = try await Sockets()
    try SocketFilter.set(letsIn(1), on: sockets.mine.rawValue)
    #expect(SocketModeration.set(sockets.mine.rawValue, SOL_SOCKET, lockFilter, 1))
    for _ in 0..<2 {
      try await sockets.setState(.suspended)
      try await sockets.send([1, 2])
      #expect(try SocketFilter.program(of: sockets.mine.rawValue) == letsIn(1))
      try await sockets.setState(.active)
    }
    #expect(try await sockets.receive(2) == [1, 1])
    #expect(sockets.lines.all.count == 1)
    #expect(sockets.lines.all.first?.contains("keeps its packets") == true)
    try await sockets.end()
  }

  /// The kernel cannot tell it.
  // R-NET-01
  @Test func oneOfEBPFStaysInItsPlace() async throws {
    let sockets = try await Sockets()
    let error = io_test_attach_ebpf(sockets.mine.rawValue)
    guard error == 0 else {
      print("skipped: this process may not load a program of eBPF (errno \(-error))")
      return try await sockets.end()
    }
    try await sockets.setState(.suspended)
    try await sockets.send([7])
    try await sockets.setState(.active)
    #expect(throws: Errno.permissionDenied) { try SocketFilter.program(of: sockets.mine.rawValue) }
    #expect(try await sockets.receive(1) == [7])
    #expect(sockets.lines.all.count == 1)
    try await sockets.end()
  }
}
