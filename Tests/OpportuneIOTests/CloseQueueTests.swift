import Foundation
import SystemPackage
import Testing

@testable import OpportuneIO

/// Closes that take long: whom they must not hold up.
@Suite struct CloseQueueTests {
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
    let broker = try makeBroker(backend) { $0.triesAtOnce = false }
    let io = try broker.makeApp(named: "lingers")
    let peer = try broker.makeApp(named: "peer")
    var servers: [FileDescriptor] = []
    var clients: [FileDescriptor] = []
    for _ in 0..<20 {
      let (server, client) = try await connectedPair(peer, io)
      servers.append(server)
      clients.append(client)
      var time = linger(l_onoff: 1, l_linger: 60)
      setsockopt(client.rawValue, SOL_SOCKET, SO_LINGER, &time, socklen_t(MemoryLayout<linger>.size))
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
