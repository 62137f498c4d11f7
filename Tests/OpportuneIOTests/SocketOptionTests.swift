import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct SocketOptionTests {
  private func raw(_ socket: FileDescriptor, _ level: Int32, _ option: Int32) -> Int32 {
    var (value, size): (Int32, socklen_t) = (-1, 4)
    #expect(getsockopt(socket.rawValue, level, option, &value, &size) == 0)
    return value
  }

  @Test func optionsAreSetAndRead() async throws {
    let io = try makeBroker(.automatic).makeApp(named: "sockets")
    let (server, client) = try await connectedPair(io)
    let switches: [(SocketOption<Bool>, Int32, Int32)] = [
      (.noDelay, Int32(IPPROTO_TCP), TCP_NODELAY), (.asksSilentPeers, SOL_SOCKET, SO_KEEPALIVE),
      (.reusesAddress, SOL_SOCKET, SO_REUSEADDR), (.reusesPort, SOL_SOCKET, SO_REUSEPORT),
    ]
    for (option, level, number) in switches {
      for value in [true, false, true] {
        try io.set(option, of: client, to: value)
        #expect((raw(client, level, number) != 0) == value, "\(option.name)")
        #expect(try io.value(of: option, of: client) == value, "\(option.name)")
      }
    }
    let buffers = [(SocketOption.receiveBuffer, SO_RCVBUF), (.sendBuffer, SO_SNDBUF)]
    for (option, number) in buffers {
      for bytes in [20_000, 40_000] {
        try io.set(option, of: client, to: bytes)
        #expect(raw(client, SOL_SOCKET, number) == Int32(2 * bytes))
        #expect(try io.value(of: option, of: client) == 2 * bytes)
      }
    }
    for socket in [server, client] { try await io.close(socket) }
  }

  @Test func whatTheKernelRefusesIsAnError() async throws {
    try await withFolder { folder in
      let io = try makeBroker(.automatic).makeApp(named: "sockets")
      let socket = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0))
      let file = try await io.open(folder.appending("file"), .writeOnly, options: [.create])
      #expect(throws: IOError(.configuration, "")) { try io.set(.sendBuffer, of: socket, to: -1) }
      #expect(throws: IOError(.system(.notSocket), "")) { try io.set(.sendBuffer, of: file, to: 1) }
      #expect(throws: IOError(.system(.notSocket), "")) { try io.value(of: .reusesPort, of: file) }
      #expect(throws: IOError.self) { try io.set(.noDelay, of: socket, to: true) }
      for descriptor in [socket, file] { try await io.close(descriptor) }
      #expect(throws: IOError(.system(.badFileDescriptor), "")) { try io.value(of: .noDelay, of: socket) }
    }
  }

  /// A port belongs to one, unless all of them ask for another thing.
  @Test func aPortIsSharedOnlyByThoseWhoAskForIt() async throws {
    let io = try makeBroker(.automatic).makeApp(named: "sockets")
    let first = try await io.listen(on: .ipv4("127.0.0.1", port: 0), reusesPort: true)
    let second = try await io.listen(on: try first.address(), reusesPort: true)
    #expect(await code { _ = try await io.listen(on: try first.address()) } == .system(.addressInUse))
    let one = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0), reusesPort: true)
    let other = try await io.datagramSocket(on: try io.address(of: one), reusesPort: true)
    #expect(
      await code { _ = try await io.datagramSocket(on: try io.address(of: one)) } == .system(.addressInUse))
    for listener in [first, second] { try await listener.close() }
    for socket in [one, other] { try await io.close(socket) }
  }
}
