import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Descriptors: how a close ends requests, that none stays open, and that none is used after its close.
@Suite(.bounded) struct ClosingTests {
  /// What is queued on a descriptor that is closed would reach the next file of its number.
  @Test(arguments: backends)
  func closingEndsWhatIsQueued(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.storage.bytes = .init(perSecond: 1, burst: 1) }
      let io = try broker.makeApp(named: "background", state: .background)
      let file = try await io.open(folder.appending("a"), .readWrite, options: [.create])
      let writing = Task { try await io.write(file, from: try IOBuffer(count: 100_000), at: 0) }
      try await eventually("the queue") { try await broker.statistics().storage.backgroundQueued == 1 }
      try await io.close(file)
      #expect(await code { _ = try await writing.value } == .system(.canceled))
      #expect(try await broker.statistics().storage.backgroundQueued == 0)
      #expect(try await io.status(folder.appending("a")).size == 0)
    }
  }

  @Test(arguments: backends)
  func closingWaitsForWhatIsInFlight(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "closes")
    let ends = try FileDescriptor.pipe()
    let buffer = try IOBuffer(count: 8)
    let reading = Task { try await io.read(ends.readEnd, into: buffer) }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    try await io.close(ends.readEnd)
    // The kernel has let go by now: nothing is in flight, and nobody's buffer is in use.
    #expect(try await broker.statistics().apps[0].inFlight == 0)
    #expect(await code { _ = try await reading.value } == .system(.canceled))
    #expect(!buffer.isInUse)
    try ends.writeEnd.close()
  }

  /// Whoever's it is: the number may be another file's afterwards. But what goes by another descriptor of the
  /// file goes on.
  @Test(arguments: backends)
  func closingEndsAllOnTheDescriptor(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "closes")
    let other = try broker.makeApp(named: "reads as well")
    let ends = try FileDescriptor.pipe()
    let duplicate = try ends.readEnd.duplicate()
    let others = [ends.readEnd, duplicate].map { end in
      Task { try await other.read(end, into: try IOBuffer(count: 1)) }
    }
    try await eventually("the other's reads") { try await broker.statistics().apps[1].inFlight == 2 }
    let reads = (0..<3).map { _ in Task { try await io.read(ends.readEnd, into: try IOBuffer(count: 1)) } }
    try await eventually("the reads") { try await broker.statistics().apps[0].inFlight == 3 }
    try await io.close(ends.readEnd)
    for read in reads { #expect(await code { _ = try await read.value } == .system(.canceled)) }
    #expect(await code { _ = try await others[0].value } == .system(.canceled))
    #expect(try await broker.statistics().apps[1].inFlight == 1)
    _ = try ends.writeEnd.writeAll([1])
    #expect(try await others[1].value == 1)
    for end in [duplicate, ends.writeEnd] { try end.close() }
  }

  // R-FTS-07
  @Test(arguments: backends)
  func theEndOfAnAppEndsAllOnItsDescriptors(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "ends")
    let other = try broker.makeApp(named: "receives")
    let (server, client) = try await connectedPair(io)
    let receiving = Task { try await other.receive(server, into: try IOBuffer(count: 1)) }
    try await eventually("the receive") { try await broker.statistics().apps[1].inFlight == 1 }
    await io.terminate()
    #expect(await code { _ = try await receiving.value } == .system(.canceled))
    #expect(fcntl(client.rawValue, F_GETFD) < 0)
  }

  /// It is not taken out of the queue, and its number is the next file's when its turn comes.
  @Test(arguments: backends, [false, true])
  func whatOthersHaveQueuedReachesNoOtherFile(backend: IOConfiguration.Backend, isSuspended: Bool)
    async throws
  {
    try await withFolder { folder in
      let broker = try makeBroker(backend) {
        $0.storage.bytes = isSuspended ? nil : .init(perSecond: 10_000, burst: 1)
      }
      let io = try broker.makeApp(named: "closes")
      let other = try broker.makeApp(named: "waits", state: isSuspended ? .suspended : .background)
      let file = try await io.open(folder.appending("a"), .readWrite, options: [.create])
      let writing = Task { try await other.write(file, from: try IOBuffer(count: 10_000), at: 0) }
      try await eventually("the queue") { try await broker.statistics().storage.backgroundQueued == 1 }
      try await io.close(file)
      // The next that the process opens, unless another test is faster.
      let next = try await io.open(folder.appending("b"), .readWrite, options: [.create])
      if isSuspended { other.setState(.background) }
      #expect(await code { _ = try await writing.value } == .system(.canceled))
      for name in ["a", "b"] { #expect(try await io.status(folder.appending(name)).size == 0) }
      try await io.close(next)
    }
  }

  /// A cancelled task's files are closed as well.
  @Test(arguments: backends)
  func cancelledTasksLeaveNothingOpen(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "cancelled")
    let file = try await io.open("/dev/zero", .readOnly)
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      #expect(await code { _ = try await io.read(file, into: try IOBuffer(count: 1), at: 0) } == .cancelled)
      try await io.close(file)
    }
    task.cancel()
    try await task.value
    #expect(try await broker.statistics().apps[0].openDescriptors == 0)
    // Whole-file calls that are cancelled anywhere on their way.
    try await withFolder { folder in
      let path = folder.appending("f")
      try await io.writeFile(path, [UInt8](repeating: 1, count: 100_000))
      for turn in 0..<30 {
        let task = Task {
          if turn % 3 == 0 {
            _ = try await io.readFile(path)
          } else if turn % 3 == 1 {
            try await io.writeFile(path, [UInt8](repeating: 2, count: 100_000), isDurable: false)
          } else {
            for try await _ in try io.chunks(of: path, count: 4096) {}
          }
        }
        for _ in 0..<turn { await Task.yield() }
        task.cancel()
        _ = await task.result
      }
      try await eventually("the closing") { try await broker.statistics().apps[0].openDescriptors == 0 }
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.string) == ["f"])
    }
  }

  /// The peer reads nothing, so the send never ends: its app does all the same.
  // R-FTS-07
  @Test(arguments: backends, [Int?.none, 4096])
  func stalledPeersHoldUpNoTermination(backend: IOConfiguration.Backend, zeroCopyFrom: Int?) async throws {
    let broker = try makeBroker(backend) { $0.zeroCopyFrom = zeroCopyFrom }
    let io = try broker.makeApp(named: "sender")
    let peer = try broker.makeApp(named: "peer")
    let (server, client) = try await connectedPair(peer, io)
    let ends = try FileDescriptor.pipe()
    let sending = Task { try await io.send(client, from: try IOBuffer(count: 64 << 20)) }
    let writing = Task { try await io.write(ends.writeEnd, from: try IOBuffer(count: 1 << 20)) }
    try await eventually("both") { try await broker.statistics().apps[0].inFlight >= 2 }
    await io.terminate()
    #expect(await code { _ = try await sending.value } == .terminated)
    #expect(await code { _ = try await writing.value } == .terminated)
    // What the kernel had accepted arrives, then the stream ends: the descriptor is closed.
    let buffer = try IOBuffer(count: 1 << 20)
    while try await peer.receive(server, into: buffer) > 0 {}
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
    await broker.shutdown()
  }

  /// The kernel keeps the buffer until the peer has read it all, and the descriptor is closed all the same.
  @Test func closesDoNotWaitForZeroCopyPeers() async throws {
    guard let broker = try makeZeroCopyBroker() else { return }
    let io = try broker.makeApp(named: "sender")
    let peer = try broker.makeApp(named: "peer")
    var sockets: [FileDescriptor] = []
    for hasDeadline in [true, false] {
      let (server, client) = try await connectedPair(peer, io)
      sockets.append(server)
      let buffer = try IOBuffer(count: 64 << 20)
      let sending = Task {
        try await io.send(client, from: buffer, within: hasDeadline ? .milliseconds(500) : nil)
      }
      if hasDeadline {
        #expect(await code { try await sending.value } == .deadlineExceeded)
      } else {
        try await eventually("the send") { try await broker.statistics().apps[0].inFlight == 2 }
      }
      try await io.close(client)
      if !hasDeadline { #expect(await code { try await sending.value } == .system(.canceled)) }
      #expect(buffer.isInUse)
    }
    await io.terminate()
    for socket in sockets { try await peer.close(socket) }
    await broker.shutdown()
  }

  /// Peers that read nothing take no place in the device's queue.
  // R-NET-03
  @Test(arguments: backends, [IOState.active, .background])
  func stalledPeersHoldUpNobodyElse(backend: IOConfiguration.Backend, state: IOState) async throws {
    let broker = try makeBroker(backend) {
      $0.network.depth = 4
      $0.network.cap = .fixed(2)
      $0.triesInline = false
    }
    let io = try broker.makeApp(named: "sender", state: state)
    let peer = try broker.makeApp(named: "peer")
    var sockets: [FileDescriptor] = []
    for _ in 0..<6 {
      let (server, client) = try await connectedPair(peer, io)
      sockets += [server]
      Task { try? await io.send(client, from: try IOBuffer(count: 16 << 20)) }
    }
    try await eventually("the stall") {
      let network = try await broker.statistics().network
      let inFlight = try await broker.statistics().apps[0].inFlight
      return inFlight == 6 && network.foregroundInFlight + network.backgroundInFlight == 0
    }
    let (server, client) = try await connectedPair(peer, io)
    try await io.send(client, from: try IOBuffer(copying: [1]), within: .seconds(10))
    #expect(try await peer.receive(server, into: try IOBuffer(count: 1)) == 1)
    await io.terminate()
    await broker.shutdown()
  }

  // R-FTS-06, R-FTS-07
  @Test(arguments: backends)
  func aSuspendedAppClosesNothing(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "suspended")
    let (server, client) = try await connectedPair(io)
    io.setState(.suspended)
    func submitted() async throws -> UInt64 {
      let app = try await broker.statistics().apps[0]
      return app.foreground.submitted + app.background.submitted
    }
    let before = try await submitted()
    let closing = Task { try await io.close(client) }
    try await eventually("the close") { try await submitted() > before }
    #expect(try await broker.statistics().apps[0].openDescriptors == 2)
    io.setState(.active)
    try await closing.value
    #expect(try await io.receive(server, into: try IOBuffer(count: 1)) == 0)
    try await io.close(server)
  }

  // R-FTS-07
  @Test(arguments: backends)
  func nothingIsOpenedAfterTheEnd(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "over")
    let peer = try broker.makeApp(named: "peer")
    let listener = try await peer.listen(on: .ipv4("127.0.0.1", port: 0))
    await io.terminate()
    #expect(await code { _ = try await io.connect(to: try listener.address()) } == .terminated)
    let socket = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0))
    let over = try await broker.statistics().apps.first { $0.name == "over" }
    #expect(over?.openDescriptors == 0)
    #expect(
      await code { _ = try await io.receiveDatagram(socket, into: try IOBuffer(count: 1)) } == .terminated)
    try await listener.close()
  }

  /// Not even what needs no waiting: by its number a descriptor may be another's file by then.
  // R-FTS-07
  @Test(arguments: backends)
  func nothingIsDoneInlineAfterTheEnd(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "over")
    let other = try broker.makeApp(named: "shut down")
    let (socket, peer) = try descriptorPair()
    let buffer = try IOBuffer(count: 1)
    _ = try peer.writeAll(0..<10 as Range<UInt8>)
    #expect(try await io.receive(socket, into: buffer) == 1)
    #expect(try await broker.statistics().foreground.inline == 1)
    await io.terminate()
    #expect(await code { _ = try await io.receive(socket, into: buffer) } == .terminated)
    #expect(try await other.receive(socket, into: buffer) == 1)
    // Made while the broker shuts down: in the same turn, after it has begun to.
    let late = try inOneTurn(broker) {
      broker.reactor.post(Control { $0.shutDown {} })
      return try broker.makeApp(named: "made meanwhile")
    }
    await broker.shutdown()
    #expect(await code { _ = try broker.makeApp(named: "made after the shutdown") } == .unavailable)
    for app in [other, late] {
      #expect(await code { _ = try await app.receive(socket, into: buffer) } == .unavailable)
    }
    for end in [socket, peer] { try end.close() }
  }

  // R-FTS-08, R-FTS-07
  @Test(arguments: backends)
  func descriptorsOfHeldAnswersAreClosedWithTheApp(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) { $0.suspendedSockets = .none }
    let io = try broker.makeApp(named: "held")
    let peer = try broker.makeApp(named: "peer")
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let address = try listener.address()
    let accepting = Task { try await listener.accept() }
    try await eventually("the accept") { try await broker.statistics().apps[0].inFlight == 1 }
    io.setState(.suspended)
    let client = try await peer.connect(to: address)
    try await eventually("the answer") { try await broker.statistics().apps[0].held == 1 }
    await io.terminate()
    #expect(await code { _ = try await accepting.value } == .terminated)
    #expect(try await peer.receive(client, into: try IOBuffer(count: 1), within: .seconds(10)) == 0)
    try await peer.close(client)
  }
}
