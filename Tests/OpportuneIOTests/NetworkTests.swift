import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// The effect of an app's state on its sockets.
@Suite(.bounded, .serialized) struct NetworkTests {
  /// How many bytes `client` can send in steps until the peer, which reads nothing, takes no more.
  private func fill(_ socket: FileDescriptor) -> Int {
    let bytes = [UInt8](repeating: 1, count: 16 << 10)
    var total = 0
    while true {
      let sent = send(socket.rawValue, bytes, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
      if sent <= 0 { return total }
      total += sent
    }
  }

  // R-NET-02
  @Test(arguments: backends)
  func aBackgroundReceiverSlowsItsSender(backend: IOConfiguration.Backend) async throws {
    let (broker, sender) = try makeApp(backend, named: "sender")
    let receiver = try broker.makeApp(named: "receiver")
    let (server, client) = try await connectedPair(receiver, sender)
    let sending = Task {
      let buffer = try IOBuffer(count: 256 << 10)
      while true { try await sender.send(client, from: buffer) }
    }
    defer { sending.cancel() }
    let buffer = try IOBuffer(count: 64 << 10)
    // Rounds of a receiver that looks every millisecond: the window, not the CPU, bounds what comes each
    // time.
    func bytes(inRounds rounds: Int) async throws -> Int {
      var total = 0
      for _ in 0..<rounds {
        try await Task.sleep(for: .milliseconds(1))
        // More than a window is only there because the sender keeps pace with the reading.
        for _ in 0..<64 {
          let count = try await receiver.receive(server, into: buffer)
          total += count
          if count < buffer.count { break }
        }
      }
      return total
    }
    // On a loaded machine the sender may have no CPU in a round, and nothing comes in it; not each time.
    var seen: [(before: Int, behind: Int, after: Int)] = []
    func isSlowed() -> Bool { seen.last.map { $0.behind * 4 < min($0.before, $0.after) } ?? false }
    for _ in 0..<5 where !isSlowed() {
      let before = try await bytes(inRounds: 10)
      receiver.setState(.background)
      _ = try await bytes(inRounds: 5)  // what was under way
      let behind = try await bytes(inRounds: 10)
      receiver.setState(.active)
      _ = try await bytes(inRounds: 10)
      seen.append((before, behind, try await bytes(inRounds: 10)))
    }
    #expect(isSlowed(), "bytes in 10 rounds: \(seen)")
    sending.cancel()
    await broker.shutdown()
  }

  // R-NET-08, R-NET-02
  @Test(arguments: backends)
  func buffersShrinkAndAreRestored(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "shrinks")
    let (server, client) = try await connectedPair(io)
    func sizes() -> [Int32] {
      [SO_RCVBUF, SO_SNDBUF, 72].map { SocketModeration.get(client.rawValue, $0) }
    }
    let before = sizes()
    io.setState(.background)
    _ = try await broker.statistics()
    let small = sizes()
    #expect(small[0] <= 8192 && small[1] <= 16384, "\(small)")
    let held = fill(client)
    io.setState(.suspended)
    _ = try await broker.statistics()
    io.setState(.active)
    _ = try await broker.statistics()
    #expect(sizes() == before)
    #expect(fill(client) > 4 * held)
    for socket in [server, client] { try await io.close(socket) }
  }

  /// A window that the app has clamped, and a buffer of more than can be set, as the kernel tunes it for much
  /// traffic.
  // R-NET-02, R-NET-08
  @Test(arguments: [IOState.background, .suspended])
  func whatTheAppAndTheKernelSetIsRestored(state: IOState) async throws {
    let (broker, io) = try makeApp(.automatic, named: "restored")
    let (clamped, tuned) = try await connectedPair(io)
    SocketModeration.setClamp(of: clamped.rawValue, 20_000)
    // The kernel makes room for so high a mark, up to the size that it would tune the buffer to.
    SocketModeration.set(tuned.rawValue, SOL_SOCKET, SO_RCVLOWAT, 64 << 20)
    SocketModeration.set(tuned.rawValue, SOL_SOCKET, SO_RCVLOWAT, 3)
    func all() -> [Int32?] {
      [clamped, tuned].flatMap { socket in
        [SO_RCVBUF, SO_RCVLOWAT, 72].map { SocketModeration.get(socket.rawValue, $0) }
          + [SocketModeration.clamp(of: socket.rawValue)]
      }
    }
    let before = all()
    for _ in 0..<2 {
      io.setState(state)
      _ = try await broker.statistics()
      #expect(SocketModeration.get(tuned.rawValue, SO_RCVBUF) <= 8192)
      #expect(SocketModeration.clamp(of: clamped.rawValue) == 4096)
      io.setState(.active)
      _ = try await broker.statistics()
      #expect(all() == before)
    }
    for socket in [clamped, tuned] { try await io.close(socket) }
  }

  // R-NET-08
  @Test func newSocketsOfABackgroundAppAreSmallFromTheStart() async throws {
    let (broker, io) = try makeApp(.automatic, named: "small", state: .background)
    let (server, client) = try await connectedPair(io)
    _ = try await broker.statistics()
    for socket in [server, client] {
      #expect(SocketModeration.get(socket.rawValue, SO_RCVBUF) <= 8192)
      #expect(SocketModeration.get(socket.rawValue, SO_SNDBUF) <= 16384)
      try await io.close(socket)
    }
  }

  // R-NET-08
  @Test(arguments: [true, false])
  func socketsOfInactiveAppsAreLimitedWhereConfigured(limits: Bool) async throws {
    let broker = try makeBroker(.automatic) { $0.network.limitsInactive = limits }
    let io = try broker.makeApp(named: "inactive")
    let (server, client) = try await connectedPair(io)
    io.setState(.inactive)
    _ = try await broker.statistics()
    #expect((SocketModeration.get(client.rawValue, SO_SNDBUF) <= 16384) == limits)
    for socket in [server, client] { try await io.close(socket) }
  }

  /// A connection that was accepted in the background is like any other afterwards: it inherits nothing
  /// small.
  // R-NET-02, R-NET-08
  @Test(arguments: backends)
  func connectionsAcceptedInTheBackgroundRecover(backend: IOConfiguration.Backend) async throws {
    let (broker, peer) = try makeApp(backend, named: "peer")
    let io = try broker.makeApp(named: "accepts", state: .background)
    let (server, client) = try await connectedPair(io, peer)
    func sizes(_ socket: FileDescriptor) -> [Int32] {
      [SO_RCVBUF, 72].map { SocketModeration.get(socket.rawValue, $0) }
    }
    _ = try await broker.statistics()
    #expect(sizes(server)[0] <= 8192)
    io.setState(.active)
    _ = try await broker.statistics()
    let (usual, other) = try await connectedPair(io, peer)
    _ = try await broker.statistics()
    #expect(sizes(server)[1] == 0)  // the kernel may tune it again
    #expect(sizes(server)[0] * 2 >= sizes(usual)[0], "\(sizes(server)) against \(sizes(usual))")
    for socket in [server, client, usual, other] { try await io.close(socket) }
  }

  /// How far the window can be scaled is settled at the connection.
  // R-NET-02, R-NET-08
  @Test(arguments: backends)
  func connectionsMadeInTheBackgroundRecover(backend: IOConfiguration.Backend) async throws {
    let (broker, peer) = try makeApp(backend, named: "peer")
    let io = try broker.makeApp(named: "connects", state: .background)
    let (server, client) = try await connectedPair(peer, io)
    #expect(SocketModeration.get(client.rawValue, SO_RCVBUF) <= 8192)
    io.setState(.active)
    let (other, usual) = try await connectedPair(peer, io)
    _ = try await broker.statistics()
    func windows(_ socket: FileDescriptor) -> [UInt8] {
      var info = [UInt8](repeating: 0, count: 8)
      var size = socklen_t(info.count)
      #expect(getsockopt(socket.rawValue, Int32(IPPROTO_TCP), TCP_INFO, &info, &size) == 0)
      return [info[0], info[6]]  // the state, and both scales
    }
    #expect(windows(client) == windows(usual))
    #expect(SocketModeration.get(client.rawValue, 72) == 0)
    for socket in [server, client, other, usual] { try await io.close(socket) }
  }

  // R-NET-01
  @Test(arguments: backends, [IOState.suspended, .background])
  func packetsAreDroppedAsConfigured(backend: IOConfiguration.Backend, state: IOState) async throws {
    for drops in [true, false] {
      let broker = try makeBroker(backend) {
        $0.backgroundSockets.dropsIncoming = drops
        $0.suspendedSockets.dropsIncoming = drops
      }
      let io = try broker.makeApp(named: "dropped")
      let sender = try broker.makeApp(named: "sender")
      let (mine, theirs) = try await datagramPair(io, sender)
      let address = try io.address(of: mine)
      let byte = try IOBuffer(count: 1)
      io.setState(state)
      _ = try await broker.statistics()
      try await sender.send(theirs, from: byte, to: address)
      io.setState(.active)
      _ = try await broker.statistics()
      let last = try IOBuffer(copying: [9])
      try await sender.send(theirs, from: last, to: address)
      let received = try IOBuffer(count: 10)
      _ = try await io.receiveDatagram(mine, into: received)
      #expect(try received.bytes(in: 0..<1) == [drops ? 9 : 0])
      for socket in [mine, theirs] { try await io.close(socket) }
    }
  }

  // R-NET-01
  @Test func tcpConnectionsSurviveDroppedPackets() async throws {
    let (broker, io) = try makeApp(.automatic, named: "dropped")
    let peer = try broker.makeApp(named: "peer")
    let (server, client) = try await connectedPair(io, peer)
    io.setState(.suspended)
    _ = try await broker.statistics()
    try await peer.send(client, from: try IOBuffer(copying: Array("again".utf8)))
    var waiting: Int32 = 0
    #expect(ioctl(server.rawValue, UInt(FIONREAD), &waiting) == 0 && waiting == 0)
    io.setState(.active)
    let buffer = try IOBuffer(count: 10)
    #expect(try await io.receive(server, into: buffer) == 5)  // sent again by the peer's kernel
    for socket in [server, client] { try await io.close(socket) }
  }
}
