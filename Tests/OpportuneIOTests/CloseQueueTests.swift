import COpportune
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Slow closes, and what they must not delay.
@Suite(.bounded) struct CloseQueueTests {
  /// As those of a network's file system may. Nothing of this machine takes long for certain but a socket
  /// that busyPoll, which the broker does not let it: so that is brought about when the broker is done with
  /// it.
  // R-DISK-01, R-NET-03
  @Test(arguments: backends)
  func longClosesHoldUpNobodyElse(backend: IOConfiguration.Backend) async throws {
    let begun = Numbers()
    let broker = try makeBroker(backend) {
      $0.triesInline = false
      $0.threads = 1
      $0.fault = { op in
        guard op.code == UInt8(opp_ring_code.OPP_RING_CLOSE.rawValue) else { return nil }
        if setLinger(op.fd, 60) { begun.add(Int(op.fd)) }
        return nil
      }
    }
    let io = try broker.makeApp(named: "closes")
    let peer = try broker.makeApp(named: "peer")
    var servers: [FileDescriptor] = []
    var clients: [FileDescriptor] = []
    for _ in 0..<(3 * CloseQueue.Kind.background.limit) {
      let (server, client) = try await connectedPair(peer, io)
      servers.append(server)
      clients.append(client)
      flood(client, server)
    }
    let listeners = begun.count
    io.setState(.background)
    let ended = Numbers()
    let clock = ContinuousClock()
    let start = clock.now
    let closing = clients.map { client in
      Task {
        try await io.close(client)
        ended.add(1)
      }
    }
    try await eventually("the closes") { try await broker.statistics().apps[0].openDescriptors == 0 }
    _ = try await broker.statistics()  // another turn
    #expect(clock.now - start < .seconds(60), "the reactor has not waited for a close")
    // Another's file, and another's close, beside as many as may be under way.
    let most = CloseQueue.Kind.background.limit
    try await eventually("the closes in the kernel") { begun.count - listeners == most }
    // One of the files has the number of a socket whose close is under way.
    let numbers = Set(begun.values.dropFirst(listeners))
    var files: [FileDescriptor] = []
    while files.count < 100, !numbers.contains(Int(files.last?.rawValue ?? -1)) {
      files.append(try await peer.open("/proc/self/status", .readOnly, within: .seconds(20)))
    }
    #expect(files.contains { numbers.contains(Int($0.rawValue)) })
    for file in files { try await peer.close(file) }
    #expect(begun.count - listeners == most && ended.count == 0)
    for server in servers { disconnect(server) }
    for task in closing { try await task.value }
    for server in servers { try await peer.close(server) }
    await broker.shutdown()
  }

  private func disconnect(_ socket: FileDescriptor) {
    var nobody = sockaddr()
    nobody.sa_family = sa_family_t(AF_UNSPEC)
    #expect(connect(socket.rawValue, &nobody, socklen_t(MemoryLayout<sockaddr>.size)) == 0)
  }

  @Test func aKindHasSoManyClosesAtOnce() {
    var queue = CloseQueue()
    func numbers(_ ops: [opp_ring_op?]) -> [Int32?] { ops.map { $0?.fd } }
    let begun = (0..<6).map { queue.begin(opp_ring_op(number: $0), .background) }
    #expect(numbers(begun) == [0, 1, 2, 3, nil, nil])
    let other = queue.begin(opp_ring_op(number: 9), .foreground)
    #expect(numbers([other]) == [9])
    let next = (0..<3).map { _ in queue.ended(.background) }
    #expect(numbers(next) == [4, 5, nil])
    let last = (6..<8).map { queue.begin(opp_ring_op(number: $0), .background) }
    #expect(numbers(last) == [6, nil])
    let freeing = (10..<12).map { queue.begin(opp_ring_op(number: $0), .backgroundFrees) }
    #expect(numbers(freeing) == [10, nil])
    #expect(numbers([queue.ended(.backgroundFrees), queue.ended(.backgroundFrees)]) == [11, nil])
  }

  // R-DISK-01
  @Test func aBackgroundCloseThatFreesAFileIsOfItsOwnKind() async throws {
    try await withFolder { folder in
      let path = folder.appending("file")
      let file = try FileDescriptor.open(
        path, .readWrite, options: .create, permissions: .ownerReadWrite)
      defer { try? file.close() }
      // In memory nothing is freed on a device.
      let isOnDevice = opp_file_kind(file.rawValue) & OPP_FILE_ON_NO_DEVICE == 0
      #expect(CloseQueue.Kind(file.rawValue, .background) == .background, "it has a name")
      #expect(unlink(path.string) == 0)
      #expect(CloseQueue.Kind(file.rawValue, .background) == (isOnDevice ? .backgroundFrees : .background))
      #expect(CloseQueue.Kind(file.rawValue, .foreground) == .foreground)
      #expect(CloseQueue.Kind(-1, .background) == .background)
    }
  }

  /// Far more is sent than is taken in.
  private func flood(_ client: FileDescriptor, _ server: FileDescriptor) {
    SocketModeration.set(server.rawValue, SOL_SOCKET, SO_RCVBUF, 4096)
    SocketModeration.set(client.rawValue, SOL_SOCKET, SO_SNDBUF, 1 << 20)
    let bytes = [UInt8](repeating: 1, count: 1 << 20)
    while send(client.rawValue, bytes, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)) > 0 {}
  }

  /// Sockets that linger because their peer reads nothing, more of them than there are threads.
  // R-NET-03
  @Test(arguments: backends)
  func lingeringClosesHoldUpNobodyElse(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) { $0.triesInline = false }
    let io = try broker.makeApp(named: "busyPoll")
    let peer = try broker.makeApp(named: "peer")
    var servers: [FileDescriptor] = []
    var clients: [FileDescriptor] = []
    for _ in 0..<20 {
      let (server, client) = try await connectedPair(peer, io)
      servers.append(server)
      clients.append(client)
      #expect(setLinger(client.rawValue, 60))
      flood(client, server)
    }
    io.setState(.background)
    let closing = clients.map { client in Task { try await io.close(client) } }
    try await eventually("the closes") { try await broker.statistics().apps[0].openDescriptors == 0 }
    // Another's file, and another's close.
    let file = try await peer.open("/proc/self/status", .readOnly, within: .seconds(20))
    try await peer.close(file)
    for task in closing { try await task.value }
    for server in servers { try await peer.close(server) }
    await broker.shutdown()
  }
}

/// Has a socket's close take so many seconds, or until its peer has read all. Whether it is a socket.
private func setLinger(_ descriptor: Int32, _ seconds: Int32) -> Bool {
  var time = linger(l_onoff: 1, l_linger: seconds)
  return setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &time, socklen_t(MemoryLayout<linger>.size)) == 0
}

extension opp_ring_op {
  fileprivate init(number: Int32) {
    self.init()
    fd = number
  }
}
