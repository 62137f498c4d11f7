import COpportune
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct SocketsTests {
  @Test(arguments: backends)
  func streamsOverTCPAndUnix(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "sockets")
      for address in [SocketAddress.ipv4("127.0.0.1", port: 0), .unix(folder.appending("socket"))] {
        let listener = try await io.listen(on: address)
        async let accepted = listener.accept()
        let client = try await io.connect(to: try listener.address())
        let server = try await accepted
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let sending = Task {
          try await io.send(client, from: try IOBuffer(copying: bytes))
          try await io.shutdown(client)
        }
        let buffer = try IOBuffer(count: 300_000)
        #expect(try await io.receive(server, into: buffer, untilFull: true) == 300_000)
        #expect(try buffer.bytes() == bytes)
        #expect(try await io.receive(server, into: buffer) == 0)
        try await sending.value
        for socket in [server, client] { try await io.close(socket) }
        try await listener.close()
      }
    }
  }

  /// A literal, a `String` and a `FilePath` are the same address.
  @Test func aUnixSocketHasItsPathOfAString() async throws {
    #expect(SocketAddress.unix("/run/x.sock") == .unix(FilePath("/run/x.sock")))
    try await withFolder { folder in
      let io = try makeBroker(.automatic).makeApp(named: "sockets")
      let path: String = folder.appending("socket").string
      let listener = try await io.listen(on: .unix(path))
      #expect(try listener.address() == .unix(path))
      async let accepted = listener.accept()
      let client = try await io.connect(to: .unix(path))
      for socket in [client, try await accepted] { try await io.close(socket) }
      try await listener.close()
    }
    let long = String(repeating: "x", count: 108)
    let io = try makeBroker(.automatic).makeApp(named: "sockets")
    let error = await #expect(throws: IOError.self) { _ = try await io.listen(on: .unix(long)) }
    #expect(error?.message.contains("is not a path of 1 to 107 bytes") == true)
  }

  /// The file of a Unix socket stays, and the error of who comes next says what to do about it.
  @Test func theFileOfAnEarlierUnixSocketIsToldOf() async throws {
    try await withFolder { folder in
      let io = try makeBroker(.automatic).makeApp(named: "sockets")
      let address = SocketAddress.unix(folder.appending("socket"))
      try await io.listen(on: address).close()
      let error = await #expect(throws: IOError.self) { _ = try await io.listen(on: address) }
      #expect(error?.code == .system(.addressInUse))
      #expect(error?.message.contains("remove what is left") == true)
    }
  }

  /// What is small waits for nothing, unless that is asked for.
  @Test(arguments: backends, [nil, true, false])
  func connectionsDoNotDelay(backend: IOConfiguration.Backend, noDelay: Bool?) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    for host in [SocketAddress.ipv4("127.0.0.1", port: 0), .ipv6("::1", port: 0)] {
      let listener =
        if let noDelay { try await io.listen(on: host, noDelay: noDelay) } else {
          try await io.listen(on: host)
        }
      async let accepted = listener.accept()
      let address = try listener.address()
      let client =
        if let noDelay { try await io.connect(to: address, noDelay: noDelay) } else {
          try await io.connect(to: address)
        }
      for socket in [client, try await accepted] {
        var (value, size): (Int32, socklen_t) = (-1, 4)
        #expect(getsockopt(socket.rawValue, Int32(IPPROTO_TCP), TCP_NODELAY, &value, &size) == 0)
        #expect(value == (noDelay == false ? 0 : 1))
        try await io.close(socket)
      }
      try await listener.close()
    }
  }

  @Test(arguments: backends)
  func listenersAreSequences(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let listener = try await io.listen(on: .ipv6("::1", port: 0))
    let counting = Task {
      var count = 0
      for try await connection in listener {
        try await io.close(connection)
        count += 1
        if count == 5 { try await listener.close() }
      }
      return count
    }
    for _ in 0..<5 { try await io.close(try await io.connect(to: try listener.address())) }
    #expect(try await counting.value == 5)
    #expect(await code { _ = try await listener.accept() } == .system(.badFileDescriptor))
    try await listener.close()
  }

  @Test(arguments: backends)
  func datagramsKeepTheirBounds(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let (one, other) = try await datagramPair(io)
    for length in [1, 100, 20_000] {
      let bytes = [UInt8](repeating: UInt8(length % 251), count: length)
      try await io.send(one, from: try IOBuffer(copying: bytes), to: try io.address(of: other))
      let buffer = try IOBuffer(count: 65_536)
      let (count, from, isTruncated) = try await io.receiveDatagram(other, into: buffer)
      #expect(count == length)
      #expect(!isTruncated)
      #expect(try buffer.bytes(in: 0..<count) == bytes)
      #expect(from == (try io.address(of: one)))
    }
    for socket in [one, other] { try await io.close(socket) }
  }

  /// What does not fit is lost, and the receiver knows. The next datagram begins at its start.
  @Test(arguments: backends, [SocketAddress.ipv4("127.0.0.1", port: 0), .ipv6("::1", port: 0)])
  func aDatagramThatIsLongerThanTheBufferIsToldAsTruncated(
    backend: IOConfiguration.Backend, host: SocketAddress
  ) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let one = try await io.datagramSocket(on: host)
    let other = try await io.datagramSocket(on: host)
    let buffer = try IOBuffer(count: 10)
    for length in [11, 10, 2000, 0, 3] {
      let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
      try await io.send(one, from: try IOBuffer(copying: bytes), to: try io.address(of: other))
      let (count, from, isTruncated) = try await io.receiveDatagram(other, into: buffer)
      #expect(count == min(length, 10))
      #expect(isTruncated == (length > 10))
      #expect(try buffer.bytes(in: 0..<count) == Array(bytes.prefix(10)))
      #expect(from == (try io.address(of: one)))
    }
    for socket in [one, other] { try await io.close(socket) }
  }

  @Test(arguments: backends)
  func anAddressIsOneDatagramSockets(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "first")
    let socket = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0))
    let address = try io.address(of: socket)
    let second = try broker.makeApp(named: "second")
    #expect(await code { _ = try await second.datagramSocket(on: address) } == .system(.addressInUse))
    try await io.close(socket)
  }

  /// Without it the kernel does not know which link an address is on.
  @Test func aLinkLocalAddressKeepsItsInterface() throws {
    let index = if_nametoindex("lo")
    guard index != 0 else { return print("skipped: there is no interface lo") }
    for text in ["fe80::1%lo", "fe80::1%\(index)"] {
      try withUnsafeTemporaryAllocation(byteCount: SocketAddress.storageCount, alignment: 8) { memory in
        let base = try #require(memory.baseAddress)
        let count = try SocketAddress.ipv6(text, port: 80).write(to: base)
        #expect(base.load(as: sockaddr_in6.self).sin6_scope_id == index)
        #expect(SocketAddress(base, count: count) == .ipv6("fe80::1%lo", port: 80))
        // An interface that has gone has a number only.
        base.assumingMemoryBound(to: sockaddr_in6.self).pointee.sin6_scope_id = 123_456_789
        #expect(SocketAddress(base, count: count) == .ipv6("fe80::1%123456789", port: 80))
      }
    }
    for text in ["fe80::1%", "fe80::1%no-such", "fe80::1%0", "%lo", "fe80::1%lo%lo"] {
      #expect(!SocketAddress.ipv6(text, port: 80).isWellFormed, "\(text)")
    }
    #expect(SocketAddress.ipv6("::1", port: 80).isWellFormed)
  }

  /// One that its peer has left before it was accepted is none of the next one's faults.
  // R-CARD-04
  @Test(arguments: backends)
  func aListenerGoesOnAfterAConnectionThatWasLeft(backend: IOConfiguration.Backend) async throws {
    let accepts = Numbers()
    let broker = try makeBroker(backend) {
      $0.fault = { op in
        guard op.code == opp_ring_code.OPP_RING_ACCEPT.rawValue else { return nil }
        accepts.add(1)
        return accepts.count == 1 ? -ECONNABORTED : nil
      }
    }
    let io = try broker.makeApp(named: "sockets")
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let client = try await io.connect(to: listener.address())
    let connections = listener.makeAsyncIterator()
    let server = try #require(try await connections.next())
    #expect(accepts.count > 1)
    for socket in [server, client] { try await io.close(socket) }
    try await listener.close()
  }

  @Test(arguments: backends)
  func brokenConnectionsAreErrors(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let address = try listener.address()
    try await listener.close()
    #expect(await code { _ = try await io.connect(to: address) } == .system(.connectionRefused))
    #expect(await code { _ = try await io.connect(to: .ipv4("127.0.0.256", port: 1)) } == .configuration)
    for path in ["", String(repeating: "x", count: 108), "/run/x\0y"] {
      #expect(await code { _ = try await io.connect(to: .unix(path)) } == .configuration)
      #expect(await code { _ = try await io.listen(on: .unix(path)) } == .configuration)
    }

    // EPIPE: our own side is shut.
    let (server, client) = try await connectedPair(io)
    try await io.shutdown(client)
    let buffer = try IOBuffer(count: 100)
    #expect(await code { try await io.send(client, from: buffer) } == .system(.brokenPipe))
    // ECONNRESET: the peer closes with data unread.
    let (peer, mine) = try await connectedPair(io)
    try await io.send(mine, from: buffer)
    try await eventually("the data's arrival") {
      var count: Int32 = 0
      return ioctl(peer.rawValue, UInt(FIONREAD), &count) == 0 && count == 100
    }
    try await io.close(peer)
    let reset = await code { _ = try await io.receive(mine, into: buffer) }
    #expect(reset == .system(.connectionReset))
    for socket in [server, client, mine] { try await io.close(socket) }
  }

  @Test(arguments: backends)
  func descriptorsThatDoNotBlockAreWaitedFor(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend) { $0.triesInline = false }.makeApp(named: "sockets")
    let (server, client) = try await connectedPair(io)
    for socket in [server, client] { _ = fcntl(socket.rawValue, F_SETFL, O_NONBLOCK) }
    let receiving = Task {
      let buffer = try IOBuffer(count: 2_000_000)
      let count = try await io.receive(server, into: buffer, untilFull: true)
      return count
    }
    try await io.send(client, from: try IOBuffer(count: 2_000_000))
    #expect(try await receiving.value == 2_000_000)
    for socket in [server, client] { try await io.close(socket) }
  }

  @Test func sendsWithoutCopyingWhereAskedTo() async throws {
    let broker = try makeBroker(.automatic) {
      $0.zeroCopyFrom = 4096
      $0.triesInline = false
    }
    let io = try broker.makeApp(named: "sockets")
    let (server, client) = try await connectedPair(io)
    let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 / 11) }
    let receiving = Task {
      let buffer = try IOBuffer(count: 200_000)
      _ = try await io.receive(server, into: buffer, untilFull: true)
      return try buffer.bytes()
    }
    try await io.send(client, from: try IOBuffer(copying: bytes))
    #expect(try await receiving.value == bytes)
    for socket in [server, client] { try await io.close(socket) }
    if !broker.capabilities.sendsWithoutCopying { print("skipped: this kernel sends with a copy only") }
  }

  /// Unix sockets refuse to: what is sent goes with a copy.
  @Test func sendsWithACopyWhereTheSocketWantsOne() async throws {
    try await withFolder { folder in
      let io = try makeBroker(.automatic) {
        $0.zeroCopyFrom = 4096
        $0.triesInline = false
      }.makeApp(named: "sockets")
      let listener = try await io.listen(on: .unix(folder.appending("socket")))
      async let accepted = listener.accept()
      let client = try await io.connect(to: try listener.address())
      let server = try await accepted
      let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 / 13) }
      let sending = Task { try await io.send(client, from: try IOBuffer(copying: bytes)) }
      let buffer = try IOBuffer(count: bytes.count)
      #expect(
        try await io.receive(server, into: buffer, untilFull: true, within: .seconds(20)) == bytes.count)
      #expect(try buffer.bytes() == bytes)
      try await sending.value
      for socket in [server, client] { try await io.close(socket) }
      try await listener.close()
    }
  }

  // R-NET-03
  @Test(arguments: backends)
  func foregroundSendsGoFirst(backend: IOConfiguration.Backend) async throws {
    // One send at a time, and many wait: the order in which they reach the kernel is seen at the fault hook.
    let order = Numbers()
    let broker = try makeBroker(backend) {
      $0.network = DevicePolicy(ratio: .strict, depth: 1, cap: .fixed(1))
      $0.triesInline = false
      $0.fault = { op in
        if op.code == 19 { order.add(Int(op.length)) }
        return nil
      }
    }
    let foreground = try broker.makeApp(named: "foreground")
    let background = try broker.makeApp(named: "background", state: .background)
    let (server, client) = try await connectedPair(foreground)
    background.setState(.suspended)
    foreground.setState(.suspended)
    try await withThrowingTaskGroup { group in
      for number in 0..<20 {
        let io = number % 2 == 0 ? background : foreground
        let buffer = try IOBuffer(count: number % 2 == 0 ? 100 : 1)
        group.addTask { try await io.send(client, from: buffer) }
      }
      try await eventually("the queue") {
        try await broker.statistics().network.foregroundQueued + broker.statistics().network.backgroundQueued
          == 20
      }
      foreground.setState(.active)
      background.setState(.background)
      try await group.waitForAll()
    }
    // What was sent before the second app came back is the foreground's anyway.
    #expect(order.values == Array(repeating: 1, count: 10) + Array(repeating: 100, count: 10))
    for socket in [server, client] { try await foreground.close(socket) }
  }
}

/// Numbers added from any thread.
final class Numbers: @unchecked Sendable {
  private let lock = NSLock()
  private var list: [Int] = []
  var values: [Int] { lock.withLock { list } }
  func add(_ number: Int) { lock.withLock { list.append(number) } }
}
