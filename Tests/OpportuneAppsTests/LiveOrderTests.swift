import Opportune
import Testing

/// What comes for a live app, and the callbacks before it.
@Suite struct LiveOrderTests {
  /// Gives way in each callback, so that whatever does not wait for its end comes before that.
  private actor Slow: AppDelegate {
    private(set) var heard: [String] = []

    private func hear(_ callback: String) async {
      heard.append("\(callback) begins")
      for _ in 0..<1000 { await Task.yield() }
      heard.append("\(callback) ends")
    }

    func didFinishLaunching(_ reason: LaunchReason) async { await hear("launch") }
    func didEnterBackground() async { await hear("background") }
    func willEnterForeground() async { await hear("return") }
    func didReceive(_ notice: AppNotice) async { heard.append("notice") }
  }

  // R-MSG-04, R-COAL-01, R-LIFE-10, R-LIFE-12
  @Test(.timeLimit(.minutes(1))) func whatComesWithALaunchOrAReturnComesAfterItsCallbacks() async throws {
    let (host, slow) = (try patientHost(), Slow())
    let id = await host.register(Manifest(identifier: "slow")) { _ in slow }
    try await host.post(.app(id, .message(Message("mail"))))
    await wait(host, id, for: .suspended)
    #expect(await slow.heard == ["launch begins", "launch ends", "background begins", "background ends", "notice"])
    try await host.post(.app(id, .changed(kind: "orientation", to: "landscape")))
    try await host.bringForward(id)
    await wait(host, id, for: .active)
    while await slow.heard.count < 8 {
      try Task.checkCancellation()
      await Task.yield()
    }
    #expect(await slow.heard.suffix(3) == ["return begins", "return ends", "notice"])
    try await host.terminate(id)
  }

  /// Returns only once its task has expired.
  private struct Waits: AppDelegate {
    let expired: Counter
    func willResignActive() async {
      while expired.value == 0, !Task.isCancelled { await Task.yield() }
    }
  }

  // R-TASK-13
  @Test(.timeLimit(.minutes(1))) func anExpirationHandlerDoesNotWaitForACallback() async throws {
    let (host, expired) = (try patientHost { $0.tasks.wallClock = .milliseconds(10) }, Counter())
    let app = try await host.launch(Manifest(identifier: "waits")) { _ in Waits(expired: expired) }
    await wait(host, app, for: .active)
    let ended = Counter()
    let task = try await app.beginTask {
      expired.add()
      ended.add()
    }
    try await host.leave(app.id)
    while ended.value == 0 {
      try Task.checkCancellation()
      await Task.yield()
    }
    try await app.endTask(task)
    await wait(host, app, for: .suspended)
    try await host.terminate(app.id)
  }
}
