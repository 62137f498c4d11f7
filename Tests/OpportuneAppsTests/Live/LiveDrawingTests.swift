import Glibc
import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

/// Drawing buffers of live apps.
@Suite(.bounded) struct LiveDrawingTests {
  /// Enters background when it may.
  private struct Painter: AppDelegate {
    var mayEnter = Counter()
    func didEnterBackground() async { while mayEnter.value == 0, !Task.isCancelled { await Task.yield() } }
  }

  private func launch(
    suspendsOnReturn: Bool = false
  ) async throws -> (host: AppHost, app: HostedApp, buffer: DrawingBuffer, mayEnter: Counter) {
    let (host, painter) = (try patientHost { $0.suspendsOnReturn = suspendsOnReturn }, Painter())
    let app = try await launchAndWait(host, Manifest(identifier: "painter")) { _ in painter }
    return (host, app, try await app.makeDrawingBuffer(bytes: 10_000), painter.mayEnter)
  }

  /// Until `didEnterBackground` has returned, for the host as well.
  private func hasEntered(_ host: AppHost, _ app: HostedApp) async throws {
    try await until { await host.view(of: app.id)?.callbacks == [] }
  }

  private func broken(_ host: AppHost, _ app: HostedApp) async -> Int {
    await host.view(of: app.id)?.brokenRules[.noDrawingInBackground] ?? 0
  }

  private func isToldOff(_ events: AsyncStream<AppHost.Event>) async {
    for await event in events where event.action == .diagnose(.rule(.noDrawingInBackground)) { return }
    Issue.record("drawing in background was not noticed")
  }

  // R-GFX-03, R-GFX-01, R-RULE-02
  @Test(.timeLimit(.minutes(1))) func drawingInBackgroundLeavesThePixelsAloneAndIsNoticed() async throws {
    let (host, app, buffer, mayEnter) = try await launch()
    let raw = buffer.pixels.assumingMemoryBound(to: UInt8.self)
    for index in 0..<buffer.count { raw[index] = 1 }
    mayEnter.add()
    try await host.leave(app.id)
    try await hasEntered(host, app)
    for index in 0..<buffer.count { raw[index] = 2 }
    #expect(buffer.shown.load(as: UInt8.self) == 1)
    let events = await host.observe()
    try await host.bringForward(app.id)
    #expect((0..<buffer.count).allSatisfy { raw[$0] == 1 })
    raw[0] = 3
    #expect(buffer.shown.load(as: UInt8.self) == 3)
    await isToldOff(events)
    #expect(await broken(host, app) == 1)
    await #expect(throws: HostError.self) { try await app.makeDrawingBuffer(bytes: 0) }
    try await host.terminate(app.id)
  }

  // R-RULE-02
  @Test(.timeLimit(.minutes(1))) func whoStopsInTimeAndWhoOnlyLooksBreaksNoRule() async throws {
    let (host, app, buffer, mayEnter) = try await launch()
    let raw = buffer.pixels.assumingMemoryBound(to: UInt8.self)
    try await host.leave(app.id)
    raw[0] = 1  // it has not been asked to stop yet
    let early = try await app.makeDrawingBuffer(bytes: 1)
    early.pixels.storeBytes(of: 1, as: UInt8.self)
    try await host.bringForward(app.id)
    try await host.leave(app.id)
    raw[0] = 1
    mayEnter.add()
    try await hasEntered(host, app)
    #expect((0..<buffer.count).allSatisfy { raw[$0] == 0 })
    for _ in 0..<2 {
      try await host.bringForward(app.id)
      await wait(host, app, for: .active)
      raw[0] = 2
      #expect(buffer.shown.load(as: UInt8.self) == 2)
      try await host.leave(app.id)
      try await hasEntered(host, app)
    }
    #expect(await broken(host, app) == 0)
    // A buffer that is made in background is watched at once, and the end of the app is seen too.
    let another = try await app.makeDrawingBuffer(bytes: 1)
    #expect(another.pixels.load(as: UInt8.self) == 0)
    another.pixels.storeBytes(of: 0, as: UInt8.self)
    let events = await host.observe()
    try await host.terminate(app.id)
    await isToldOff(events)
    #expect(await broken(host, app) == 1)
  }

  /// As when the kernel has no memory for a mapping: what it does then is said.
  // R-GFX-03
  @Test(.timeLimit(.minutes(1))) func pagesThatCannotBeReplacedAreReported() async throws {
    let (host, app, _, mayEnter) = try await launch()
    mayEnter.add()
    let refusals = Counter()
    let buffer = try DrawingBuffer(bytes: 1) { _, _, _, _ in
      refusals.add()
      return ENOMEM
    }
    try await host.adopt(buffer, app)
    let events = await host.observe()
    try await host.leave(app.id)
    let said = AppDiagnosis.drawingPagesStay("Cannot allocate memory")
    for await event in events where event.action == .diagnose(said) { break }
    #expect(said.description == "the pages of a drawing buffer stay: Cannot allocate memory")
    try await hasEntered(host, app)
    // The return finds them as they are to be.
    let tries = refusals.value
    try await host.bringForward(app.id)
    #expect(refusals.value == tries)
    try await host.terminate(app.id)
  }

  // R-RULE-02
  @Test(.timeLimit(.minutes(1))) func whatIsDrawnInFrontBreaksNoRuleAtItsEnd() async throws {
    let (host, app, buffer, _) = try await launch()
    buffer.pixels.storeBytes(of: 1, as: UInt8.self)
    try await host.terminate(app.id)
    await wait(host, app, for: .notRunning)
    #expect(await broken(host, app) == 0)
  }

  // R-RULE-02, R-GFX-03
  @Test(.timeLimit(.minutes(1))) func drawingBlackIsNoticedAtSuspension() async throws {
    let (host, app, buffer, mayEnter) = try await launch(suspendsOnReturn: true)
    let raw = buffer.pixels.assumingMemoryBound(to: UInt8.self)
    mayEnter.add()
    let task = try await app.beginTask()
    try await host.leave(app.id)
    try await hasEntered(host, app)
    raw[buffer.count - 1] = 0  // as the page was
    let events = await host.observe()
    try await app.endTask(task)
    await isToldOff(events)
    await wait(host, app, for: .suspended)
    #expect(await broken(host, app) == 1)
    // What runs at once on its return draws in front.
    for value in 1...20 as ClosedRange<UInt8> {
      let job = try app.task { buffer.pixels.storeBytes(of: value, as: UInt8.self) }
      try await host.bringForward(app.id)
      await job.value
      #expect(buffer.shown.load(as: UInt8.self) == value)
      await wait(host, app, for: .active)
      try await leaveAndWait(host, app)
    }
    #expect(await broken(host, app) == 1)
    try await host.terminate(app.id)
  }
}
