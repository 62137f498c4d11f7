import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// No network: `localhost`, numeric addresses, and what no name server is asked for.
@Suite(.bounded) struct HostsTests {
  private func port(_ listener: Listener) throws -> UInt16 {
    port(of: try listener.address())
  }

  private func port(of address: SocketAddress) -> UInt16 {
    switch address {
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

  @Test func aLookUpKeepsTheInterface() throws {
    switch SocketAddress.lookUp("fe80::1%lo", port: 80) {
    case .success(let addresses): #expect(addresses == [.ipv6("fe80::1%lo", port: 80)])
    case .failure(let failure): print("skipped: fe80::1%lo is not looked up here: \(failure.reason)")
    }
  }

  /// Over a link of this machine, where it has one.
  @Test(arguments: backends)
  func hostsAreFoundByLinkLocalAddress(backend: IOConfiguration.Backend) async throws {
    guard let own = linkLocalAddress() else {
      return print("skipped: no interface has a link-local IPv6 address")
    }
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let listener = try await io.listen(on: .ipv6(own, port: 0))
    let client = try await io.connect(to: own, port: try port(listener), within: .seconds(20))
    let server = try await listener.accept(within: .seconds(20))
    #expect(try io.address(of: client) == .ipv6(own, port: port(of: try io.address(of: client))))
    for socket in [client, server] { try await io.close(socket) }
    try await listener.close()
  }

  /// A link-local address of this machine, with its interface.
  private func linkLocalAddress() -> String? {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&first) == 0 else { return nil }
    defer { freeifaddrs(first) }
    var next = first
    while let entry = next?.pointee {
      next = entry.ifa_next
      guard let memory = entry.ifa_addr, Int32(memory.pointee.sa_family) == AF_INET6,
        case .ipv6(let text, _) = SocketAddress(memory, count: MemoryLayout<sockaddr_in6>.size)
      else { continue }
      if text.hasPrefix("fe80:") { return text }
    }
    return nil
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
