import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// The watcher of suspended apps' sockets.
@Suite(.bounded, .serialized) struct KeepAliveTests {
  // R-VOIP-01, R-VOIP-03
  @Test(arguments: backends)
  func theWatcherReportsDataOfASuspendedApp(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "call")
    let peer = try broker.makeApp(named: "peer")
    let (server, client) = try await connectedPair(io, peer)
    let (other, otherClient) = try await connectedPair(io, peer)
    var events = try io.keepAlive([server]).makeAsyncIterator()
    let byte = try IOBuffer(count: 1)
    try await peer.send(client, from: byte)  // while it runs: nobody is told
    #expect(try await io.receive(server, into: byte) == 1)
    io.setState(.suspended)
    _ = try await broker.statistics()
    let before = try await broker.statistics().wakeups
    try await othersWork()
    #expect(try await broker.statistics().wakeups <= before + 2)
    try await peer.send(otherClient, from: byte)  // not watched, and dropped
    try await peer.send(client, from: byte)
    #expect(await events.next() == .dataArrived(server))
    // The app is woken by it, takes the data, and is suspended again: the next data is the next event.
    io.setState(.background)
    #expect(try await io.receive(server, into: byte) == 1)
    io.setState(.suspended)
    try await peer.close(client)
    #expect(await events.next() == .dataArrived(server))
    io.setState(.active)
    #expect(try await io.receive(server, into: byte) == 0)
    for socket in [server, other] { try await io.close(socket) }
    try await peer.close(otherClient)
    await io.terminate()
    #expect(await events.next() == nil)
  }

  /// The number of a socket that was closed may be anybody's.
  // R-VOIP-01
  @Test(arguments: backends)
  func theWatcherForgetsClosedSockets(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "call")
    let (server, _) = try await connectedPair(io)
    let (kept, keptClient) = try await connectedPair(io)
    var events = try io.keepAlive([server, kept]).makeAsyncIterator()
    try await io.close(server)
    // Another's file under the same number, with something to read.
    let zeroes = try FileDescriptor.open("/dev/zero", .readOnly)
    #expect(dup2(zeroes.rawValue, server.rawValue) == server.rawValue)
    io.setState(.suspended)
    _ = try await broker.statistics()
    #expect(send(keptClient.rawValue, [1], 1, Int32(MSG_NOSIGNAL)) == 1)
    #expect(await events.next() == .dataArrived(kept))
    io.setState(.active)
    // One that is closed behind the broker's back ends the events, one that is not open is refused.
    let (mine, theirs) = try descriptorPair()
    var others = try io.keepAlive([mine]).makeAsyncIterator()
    _ = try await broker.statistics()
    for descriptor in Set([mine, theirs, server, zeroes].map(\.rawValue)) { #expect(close(descriptor) == 0) }
    io.setState(.suspended)
    #expect(await others.next() == nil)
    #expect(
      await code { _ = try io.keepAlive([FileDescriptor(rawValue: 99_999)]) } == .system(.badFileDescriptor))
    await broker.shutdown()
  }

  /// Closed behind the broker's back, its number is another socket's: that is not made small, reported, or
  /// closed.
  // R-VOIP-01, R-NET-01
  @Test(arguments: backends)
  func aSocketThatIsAnothersByNowIsLeftAlone(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "call")
    let (server, client) = try await connectedPair(io)
    let stream = try io.keepAlive([server])
    let watching = Task { for await _ in stream {} }
    var others = try io.keepAlive([server]).makeAsyncIterator()
    io.setState(.suspended)
    _ = try await broker.statistics()
    let (mine, theirs) = try descriptorPair()
    let room = receiveBuffer(of: mine)
    #expect(dup2(mine.rawValue, server.rawValue) == server.rawValue)
    watching.cancel()
    await watching.value
    _ = try await broker.statistics()
    #expect(receiveBuffer(of: mine) == room)
    io.setState(.active)
    _ = try await broker.statistics()
    #expect(receiveBuffer(of: mine) == room)
    _ = try theirs.writeAll("x".utf8)
    io.setState(.suspended)
    #expect(await others.next() == nil)
    await io.terminate()
    #expect(fcntl(server.rawValue, F_GETFD) >= 0)
    #expect(fcntl(client.rawValue, F_GETFD) < 0)
    for descriptor in [mine, theirs, server] { try descriptor.close() }
  }

  private func receiveBuffer(of socket: FileDescriptor) -> Int32 {
    var size: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(socket.rawValue, SOL_SOCKET, SO_RCVBUF, &size, &length) == 0 ? size : -1
  }

  /// From within the suspension: packets come through from then on.
  // R-VOIP-01, R-NET-01
  @Test(arguments: backends)
  func aSuspendedAppsSocketsCanBeWatched(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "call")
    let peer = try broker.makeApp(named: "peer")
    let (mine, theirs) = try await datagramPair(io, peer)
    io.setState(.suspended)
    let told = Told(try io.keepAlive([mine]))
    _ = try await broker.statistics()
    try await peer.send(theirs, from: try IOBuffer(count: 1), to: try io.address(of: mine))
    try await eventually("the event") { told.events == [.dataArrived(mine)] }
    await broker.shutdown()
  }

  /// While the app is suspended: its socket is like any other from then on.
  // R-NET-01, R-VOIP-01
  @Test(arguments: backends)
  func aWatchThatEndsDropsPackets(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "call")
    let peer = try broker.makeApp(named: "peer")
    let (mine, theirs) = try await datagramPair(io, peer)
    let address = try io.address(of: mine)
    func say(_ number: UInt8) async throws {
      _ = try await broker.statistics()  // the reactor has heard of what came before
      try await peer.send(theirs, from: try IOBuffer(copying: [number]), to: address)
    }
    let stream = try io.keepAlive([mine])
    let watching = Task { for await _ in stream {} }
    io.setState(.suspended)
    try await say(1)
    watching.cancel()
    await watching.value
    try await say(2)
    io.setState(.active)
    try await say(3)
    let buffer = try IOBuffer(count: 1)
    var heard: [UInt8] = []
    for _ in 0..<2 {
      _ = try await io.receiveDatagram(mine, into: buffer)
      heard += try buffer.bytes()
    }
    #expect(heard == [1, 3])
    await broker.shutdown()
  }

  /// Resumed and suspended again faster than the reactor looks: what was reported before is reported anew,
  /// and polls of the time before say nothing.
  // R-VOIP-03
  @Test(arguments: backends)
  func theWatcherFollowsSuspensionsOneAfterTheOther(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "call")
    let peer = try broker.makeApp(named: "peer")
    let (server, client) = try await connectedPair(io, peer)
    let told = Told(try io.keepAlive([server]))
    io.setState(.suspended)
    try await peer.send(client, from: try IOBuffer(count: 1))
    try await eventually("the first event") { told.events.count == 1 }
    // Seen as one change.
    broker.reactor.post(
      Control { _ in
        io.setState(.active)
        io.setState(.suspended)
      })
    try await eventually("the second event") { told.events.count == 2 }
    io.setState(.active)
    #expect(try await io.receive(server, into: try IOBuffer(count: 1)) == 1)
    io.setState(.suspended)
    _ = try await broker.statistics()
    // Seen as two: the poll is cancelled, and another is in its place when that is heard of.
    broker.reactor.post(
      Control { reactor in
        for state in [IOState.active, .suspended] {
          io.setState(state)
          reactor.path.follow(io.entry)
        }
      })
    try await eventually("the cancellation") { try await broker.statistics().network.foregroundQueued == 0 }
    try await othersWork()
    try await peer.send(client, from: try IOBuffer(count: 1))
    try await eventually("the third event") { told.events.count == 3 }
    await broker.shutdown()
  }

  /// What a watcher has reported.
  private final class Told: @unchecked Sendable {
    // Sendable: behind the lock.
    private let lock = NSLock()
    private var list: [KeepAliveEvent] = []
    var events: [KeepAliveEvent] { lock.withLock { list } }

    init(_ stream: AsyncStream<KeepAliveEvent>) {
      Task { for await event in stream { lock.withLock { list.append(event) } } }
    }
  }

  // R-VOIP-02, R-VOIP-03
  @Test(arguments: backends)
  func theWatcherReportsHeartbeats(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend)
    let io = try broker.makeApp(named: "call")
    var events = try io.keepAlive([], heartbeat: .milliseconds(20)).makeAsyncIterator()
    let clock = ContinuousClock()
    let start = clock.now
    io.setState(.suspended)
    #expect(await events.next() == .heartbeatDue)
    #expect(clock.now - start >= .milliseconds(20))
    #expect(await events.next() == .heartbeatDue)
    #expect(clock.now - start >= .milliseconds(40))
    io.setState(.active)
    #expect(await code { _ = try io.keepAlive([], heartbeat: .zero) } == .configuration)
  }
}
