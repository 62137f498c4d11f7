import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// No network: `localhost`, numeric addresses, and what no name server is asked for.
@Suite(.bounded) struct HostsTests {
  private func port(_ listener: Listener) throws -> UInt16 {
    switch try listener.address() {
    case .ipv4(_, let port), .ipv6(_, let port): port
    case .unix: 0
    }
  }

  /// A port that nobody listens on, at least a moment ago.
  private func freePort(_ io: AppIO) async throws -> UInt16 {
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let port = try port(listener)
    try await listener.close()
    return port
  }

  @Test(arguments: backends)
  func hostsAreFoundByName(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let hosts: [(SocketAddress, [String])] = [
      (.ipv4("127.0.0.1", port: 0), ["localhost", "127.0.0.1"]), (.ipv6("::1", port: 0), ["::1"]),
    ]
    for (address, names) in hosts {
      let listener = try await io.listen(on: address)
      for name in names {
        let client = try await io.connect(to: name, port: try port(listener), within: .seconds(20))
        let server = try await listener.accept(within: .seconds(20))
        try await io.send(client, from: try IOBuffer(copying: [7]))
        let buffer = try IOBuffer(count: 1)
        #expect(try await io.receive(server, into: buffer) == 1)
        #expect(try buffer.bytes() == [7])
        #expect(try io.value(of: .noDelay, of: client))
        for socket in [client, server] { try await io.close(socket) }
      }
      try await listener.close()
    }
    #expect(try await io.broker.statistics().apps[0].openDescriptors == 0)
  }

  @Test(arguments: backends)
  func errorsNameHostAndPort(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let port = try await freePort(io)
    let expected: [(String, IOError.Code)] = [
      ("no host", .hostNotResolved), ("", .configuration), ("local\0host", .configuration),
      ("localhost", .system(.connectionRefused)),
    ]
    for (host, code) in expected {
      let error = await #expect(throws: IOError.self) { _ = try await io.connect(to: host, port: port) }
      #expect(error?.code == code)
      #expect(error?.message.contains("\"\(host)\"") == true)
      #expect(error?.message.contains("port \(port)") == true)
    }
    #expect(try await io.broker.statistics().apps[0].openDescriptors == 0)
  }

  /// The first that answers is taken. Where none does, the error names them all.
  @Test(arguments: backends)
  func addressesAreTriedInTheirOrder(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let closed = SocketAddress.ipv4("127.0.0.1", port: try await freePort(io))
    let (first, second) = (
      try await io.listen(on: .ipv4("127.0.0.1", port: 0)), try await io.listen(on: .ipv6("::1", port: 0))
    )
    let client = try await io.connect(
      toFirstOf: [closed, try second.address(), try first.address()], true, until: nil, "whole")
    try await io.close(try await second.accept(within: .seconds(20)))
    await #expect(throws: IOError(.deadlineExceeded, "")) { _ = try await first.accept(within: .zero) }
    try await io.close(client)
    let error = await #expect(throws: IOError.self) {
      _ = try await io.connect(toFirstOf: [closed, closed], true, until: nil, "whole")
    }
    #expect(error?.code == .system(.connectionRefused))
    #expect(error?.message.components(separatedBy: "\(closed)").count == 3)
    for listener in [first, second] { try await listener.close() }
  }

  @Test(arguments: backends)
  func lookUpsEndEarly(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let late = await code { _ = try await io.connect(to: "localhost", port: 1, within: .zero) }
    #expect(late == .deadlineExceeded)
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await code { _ = try await io.connect(to: "localhost", port: 1) }
    }
    #expect(await cancelled.value == .cancelled)
    // A suspended app asks nobody. It learns of the end once it goes on itself.
    io.setState(.suspended)
    let waiting = Task {
      await code { _ = try await io.connect(to: "no host", port: 1, within: .milliseconds(20)) }
    }
    try await eventually("the deadline") { try await io.broker.statistics().apps[0].held == 1 }
    io.setState(.active)
    #expect(await waiting.value == .deadlineExceeded)
  }
}
