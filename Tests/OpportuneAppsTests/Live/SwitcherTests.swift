import Foundation
import Opportune
import TestSupport
import Testing

@Suite(.bounded) struct SwitcherTests {
  private struct Empty: AppDelegate {
    func snapshot() -> [UInt8]? { [1, 2, 3] }
  }

  private func path() -> String {
    FileManager.default.temporaryDirectory.appendingPathComponent("switch-\(UUID().uuidString.prefix(8))")
      .path
  }

  /// Off the pool of the language: it blocks.
  private func ask(_ request: SwitcherRequest, _ place: String) async throws -> [SwitcherEntry] {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try request.send(to: place) }) }
    }
  }

  // R-LIFE-24
  @Test(.timeLimit(.minutes(1))) func appsAreListedBroughtForwardAndTerminatedInAnyState() async throws {
    let host = try patientHost()
    let place = path()
    let socket = try host.openPushSocket(at: place)
    #expect(try await ask(SwitcherRequest(.list), place).isEmpty)
    var ids: [AppID] = []
    for name in ["first", "second", "third"] {
      ids.append(await host.register(Manifest(identifier: name)) { _ in Empty() })
    }
    // Not running: it is launched.
    for name in ["first", "second", "third"] { _ = try await ask(SwitcherRequest(.bring, app: name), place) }
    await wait(host, ids[0], for: .suspended)
    await wait(host, ids[1], for: .suspended)
    await wait(host, ids[2], for: .active)
    let suspended = SwitcherEntry(app: "second", state: "suspended", tasks: 0, snapshot: 3)
    let listed = try await ask(SwitcherRequest(.list), place)
    #expect(listed.map(\.app) == ["third", "second", "first"])
    #expect(listed.contains(suspended) && listed.first?.snapshot == nil)
    // Suspended: it comes forward, and is in front of the list.
    #expect(
      try await ask(SwitcherRequest(.bring, app: "first"), place).map(\.app) == ["first", "third", "second"])
    // In front, in background on the way to suspension, suspended.
    for name in ["first", "third", "second"] {
      #expect(try await ask(SwitcherRequest(.terminate, app: name), place).allSatisfy { $0.app != name })
    }
    for id in ids { await wait(host, id, for: .notRunning) }
    #expect(try await ask(SwitcherRequest(.list), place).isEmpty)
    _ = socket
  }

  // R-LIFE-24
  @Test(.timeLimit(.minutes(1))) func whatCannotBeDoneIsSaid() async throws {
    let host = try AppHost()
    let place = path()
    let socket = try host.openPushSocket(at: place)
    _ = await host.register(Manifest(identifier: "idle")) { _ in Empty() }
    let cases: [(SwitcherRequest, String)] = [
      (SwitcherRequest(.bring, app: "none"), "no app 'none' is registered"),
      (SwitcherRequest(.terminate, app: "idle"), "app 'idle' does not run"),
      (SwitcherRequest(.terminate), "terminate needs an app"),
    ]
    for (request, reason) in cases {
      await #expect(throws: PushError(.refused(reason))) { try await ask(request, place) }
    }
    await #expect(throws: PushError.self) { try await ask(SwitcherRequest(.list), "/nonexistent/socket") }
    _ = socket
  }

  // R-LIFE-24
  @Test(.timeLimit(.minutes(1))) func whoMayPushMayNotUseTheSwitcher() async throws {
    let place = path()
    let socket = try PushSocket(path: place, controllers: [geteuid() &+ 1]) { _ in
      nil
    } control: { _ in
      SwitcherAnswer([])
    }
    await #expect(throws: PushError(.refused("this user may not use the switcher"))) {
      try await ask(SwitcherRequest(.list), place)
    }
    let pushOnly = try PushSocket(path: path()) { _ in nil }
    await #expect(throws: PushError(.refused("no switcher is served here"))) {
      try await ask(SwitcherRequest(.list), pushOnly.path)
    }
    _ = socket
  }
}
