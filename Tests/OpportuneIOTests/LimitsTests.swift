import Foundation
import OpportuneScheduler
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Apps with limits of their host beyond their band: storage and network, each by itself.
@Suite(.bounded) struct LimitsTests {
  // R-SYS-02, R-PWR-05, R-NET-08
  @Test(arguments: backends, [(false, true), (true, false), (true, true)])
  func eachDeviceHasItsOwnClass(backend: IOConfiguration.Backend, isBehind: (storage: Bool, network: Bool))
    async throws
  {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "limited", band: .foreground)
    let peers = try scheduler.makeApp(named: "peer", band: .foreground)
    let broker = try makeBroker(backend)
    let limits = Limits()
    let io = try broker.makeIO(for: app, limits: { limits.value })
    let peer = try broker.makeIO(for: peers)
    let (_, client) = try await connectedPair(peer, io)
    func isSmall() -> Bool { SocketModeration.get(client.rawValue, SO_SNDBUF) <= 16384 }
    /// What is done in the foreground, at once or not, and behind.
    func work() async throws -> (foreground: UInt64, background: UInt64) {
      func counts() async throws -> (foreground: UInt64, background: UInt64) {
        let found = try await broker.statistics().apps.first { $0.name == "limited" }
        let app = try #require(found)
        return (app.foreground.submitted + app.foreground.inline, app.background.submitted)
      }
      let before = try await counts()
      _ = try await io.status("/")
      try await io.send(client, from: try IOBuffer(count: 1))
      let after = try await counts()
      return (after.foreground - before.foreground, after.background - before.background)
    }
    #expect(try await work() == (2, 0))
    #expect(!isSmall())
    limits.value = IOLimits(
      storage: isBehind.storage ? .background : .foreground,
      network: isBehind.network ? .background : .foreground)
    app.tellObservers()
    let behind = (isBehind.storage ? 1 : 0) + (isBehind.network ? 1 : 0) as UInt64
    #expect(try await work() == (2 - behind, behind))
    #expect(isSmall() == isBehind.network)
    // A suspension is one of everything, and what the app is afterwards is as before.
    app.suspend()
    let held = Task { try await io.status("/") }
    try await eventually("the queue") {
      let storage = try await broker.statistics().storage
      return (isBehind.storage ? storage.backgroundQueued : storage.foregroundQueued) == 1
    }
    app.resume()
    _ = try await held.value
    // Lifted, also where the band says otherwise.
    limits.value = IOLimits(storage: .foreground, network: .foreground)
    try app.setBand(.background)
    #expect(try await work() == (2, 0))
    #expect(!isSmall())
    limits.value = nil
    app.tellObservers()
    #expect(try await work() == (0, 2))
    #expect(isSmall())
    await broker.shutdown()
    try await scheduler.shutdown()
  }

  private final class Limits: @unchecked Sendable {
    // Sendable: behind the lock.
    private let lock = NSLock()
    private var limits: IOLimits?
    var value: IOLimits? {
      get { lock.withLock { limits } }
      set { lock.withLock { limits = newValue } }
    }
  }
}
