import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

/// The image that an app makes at its suspension, off the host's strand.
@Suite(.bounded) struct LiveImageTests {
  /// Its n-th image takes until `mayEnd` is n.
  private struct Painter: AppDelegate {
    let begun = Counter()
    let mayEnd = Counter()
    let ended = Counter()

    func snapshot() -> [UInt8]? {
      begun.add()
      let number = begun.value
      mayEnd.spin(to: number)
      ended.add()
      return [UInt8(number)]
    }
  }

  private func leave(_ host: AppHost, _ painter: Painter) async throws -> HostedApp {
    let app = try await launchAndWait(host, Manifest(identifier: "painter")) { _ in painter }
    try await host.leave(app.id)
    try await until { painter.begun.value > 0 }
    return app
  }

  // R-LIFE-20, R-CPU-01
  @Test(.timeLimit(.minutes(1))) func nobodyWaitsForAnImageButItsApp() async throws {
    let (host, painter) = (try patientHost(), Painter())
    let app = try await leave(host, painter)
    let other = try await launchAndWait(host, Manifest(identifier: "other")) { _ in Silent() }
    // Nothing else of it runs, and it is not called suspended before this has ended.
    #expect(app.app.activity == .suspended)
    #expect(await host.state(of: app.id) == .stopping)
    painter.mayEnd.add()
    await wait(host, app, for: .suspended)
    #expect(await host.snapshot(of: app.id) == [1])
    // Kept by the host itself, as it has no broker of memory.
    await host.purgeSnapshots()
    #expect(await host.snapshot(of: app.id) == nil)
    for id in [app.id, other.id] { try await host.terminate(id) }
  }

  // R-LIFE-20, R-LIFE-19
  @Test(.timeLimit(.minutes(1))) func whoIsWantedBackDoesNotWaitForItsImage() async throws {
    let (host, painter) = (try patientHost(), Painter())
    let app = try await leave(host, painter)
    try await host.bringForward(app.id)
    await wait(host, app, for: .active)
    #expect(try await app.task { 42 }.value == 42)
    // The next suspension has an image of its own.
    try await host.leave(app.id)
    try await until { painter.begun.value > 1 }
    painter.mayEnd.add()
    try await until { painter.ended.value > 0 }
    let other = try await host.launch(Manifest(identifier: "other")) { _ in Silent() }
    for _ in 0..<1000 { try await other.task {}.value }
    #expect(await host.state(of: app.id) == .stopping, "the image of the time before is not its image")
    painter.mayEnd.add()
    await wait(host, app, for: .suspended)
    #expect(await host.snapshot(of: app.id) == [2])
    for id in [app.id, other.id] { try await host.terminate(id) }
  }

  // R-FTS-03, R-LIFE-20, R-LIFE-08
  @Test(.timeLimit(.minutes(1))) func anImageThatDoesNotEndIsAnOverrun() async throws {
    // Enough to be asked for it on a loaded machine; who is not asked in time overruns without.
    let (host, painter) = (try patientHost { $0.sliceAllowance = .seconds(2) }, Painter())
    let events = await host.observe()
    let app = try await leave(host, painter)
    // Gone already where the machine is slow.
    let snapshotExecutor = await host.residents[app.id]?.snapshotExecutor
    for await event in events { if event.action == .diagnose(.sliceOverrun) { break } }
    for await event in events { if event.action == .diagnose(.unendingSlice) { break } }
    #expect(await host.state(of: app.id) == .terminated)
    #expect(snapshotExecutor == nil || snapshotExecutor?.band == .background)
    painter.mayEnd.add()
    await wait(host, app, for: .notRunning)
    #expect(await host.snapshot(of: app.id) == nil)
  }
}
