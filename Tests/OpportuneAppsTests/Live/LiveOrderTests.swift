import Dispatch
import Opportune
import TestSupport
import Testing

/// The order of notices to a live app and of the callbacks before them.
@Suite(.bounded) struct LiveOrderTests {
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
    #expect(
      await slow.heard == ["launch begins", "launch ends", "background begins", "background ends", "notice"])
    try await host.post(.app(id, .changed(kind: "orientation", to: "landscape")))
    try await host.bringForward(id)
    await wait(host, id, for: .active)
    try await until { await slow.heard.count >= 8 }
    #expect(await slow.heard.suffix(3) == ["return begins", "return ends", "notice"])
    try await host.terminate(id)
  }

  private struct Says: AppDelegate {
    let journal: AtomicBox<[String]>
    func didFinishLaunching(_ reason: LaunchReason) async { journal.change { $0.append("launch") } }
    func didBecomeActive() async { journal.change { $0.append("active") } }
    func didReceive(_ notice: AppNotice) async { journal.change { $0.append("notice") } }
  }

  /// Whatever happens to the other app until it is there, callbacks and moves and all.
  // R-LIFE-08, R-FTS-01, R-FTS-09
  @Test(.timeLimit(.minutes(1))) func aDelegateThatTakesLongToMakeHoldsUpNoOtherApp() async throws {
    let host = try patientHost()
    let other = AtomicBox<[String]>([])
    let first = try await launchAndWait(host, Manifest(identifier: "first")) { _ in Says(journal: other) }
    let (journal, gate) = (AtomicBox<[String]>([]), DispatchSemaphore(value: 0))
    let slow = try await host.launch(Manifest(identifier: "slow")) { _ in
      _ = gate.wait(timeout: .now() + 20)  // where the others do wait for it, the test ends all the same
      return Says(journal: journal)
    }
    try await host.post(.app(slow.id, .message(Message("mail"))))
    await wait(host, first, for: .suspended)
    try await host.bringForward(first.id)
    await wait(host, first, for: .active)
    try await until { other.value == ["launch", "active", "active"] }
    #expect(journal.value.isEmpty)
    #expect(await host.state(of: slow.id) == .background, "it has not returned from its callbacks")
    gate.signal()
    await wait(host, slow, for: .suspended)
    #expect(journal.value == ["launch", "notice"], "what came meanwhile comes after its delegate")
  }

  /// Its time counts as that of its first callback, by which it is named; nobody hears of it after that.
  // R-LIFE-08, R-FTS-03
  @Test(.timeLimit(.minutes(1))) func aDelegateThatComesAfterItsLifeIsOfNoConcern() async throws {
    let host = try patientHost {
      $0.callbackLimit = .milliseconds(10)
      $0.callbackOverrun = .terminate
    }
    let (journal, gate) = (AtomicBox<[String]>([]), DispatchSemaphore(value: 0))
    let log = await host.observe()
    let slow = try await host.launch(Manifest(identifier: "slow")) { _ in
      _ = gate.wait(timeout: .now() + 20)  // where the others do wait for it, the test ends all the same
      return Says(journal: journal)
    }
    for await entry in log {
      guard case .diagnose(let diagnosis) = entry.action else { continue }
      #expect(entry.app == slow.id && diagnosis == .callbackOverrun(.didFinishLaunching))
      break
    }
    gate.signal()
    await wait(host, slow, for: .notRunning)
    #expect(journal.value.isEmpty)
  }

  /// Handles a slow message until it may end.
  private struct Handles: AppDelegate {
    let quick = Counter()
    let mayEnd = Counter()
    func didReceive(_ notice: AppNotice) async {
      guard case .message(let message) = notice else { return }
      if message.kind == "quick" { quick.add() }
      while message.kind == "slow", mayEnd.value == 0, !Task.isCancelled { await Task.yield() }
    }
  }

  // R-MSG-07, R-MSG-08
  @Test(.timeLimit(.minutes(1))) func itIsKeptUntilAllThatCameIsHandled() async throws {
    let (host, handles) = (try patientHost(), Handles())
    let app = try await launchAndWait(host, Manifest(identifier: "handles")) { _ in handles }
    try await leaveAndWait(host, app)
    try await host.post(.app(app.id, .message(Message("slow"))))
    for _ in 0..<10 { try await host.post(.app(app.id, .message(Message("quick")))) }
    try await until { handles.quick.value >= 10 }
    // The answers to these have come by then.
    for _ in 0..<100 { try await app.task {}.value }
    #expect(await host.state(of: app.id) == .background)
    handles.mayEnd.add()
    await wait(host, app, for: .suspended)
    try await host.terminate(app.id)
  }

  private struct Told: AppDelegate {
    let notices: AsyncStream<AppNotice>.Continuation
    func didReceive(_ notice: AppNotice) async { notices.yield(notice) }
  }

  // R-HW-01
  @Test(.timeLimit(.minutes(1))) func anAppIsToldWhatItHasLost() async throws {
    let host = try patientHost { $0.suspendsOnReturn = false }
    let (notices, told) = AsyncStream.makeStream(of: AppNotice.self)
    let app = try await launchAndWait(host, Manifest(identifier: "camera")) { _ in Told(notices: told) }
    #expect(try await app.request(.camera))
    var next = notices.makeAsyncIterator()
    try await host.leave(app.id)
    #expect(await next.next() == .revoked(.camera))
    // Its time goes on: there is nothing to handle.
    #expect(await host.state(of: app.id) == .background)
    try await host.terminate(app.id)
  }

  // R-LOCK-02
  @Test(.timeLimit(.minutes(1))) func anAppIsToldOfLocksThatAreTakenAway() async throws {
    let host = try patientHost {
      $0.restrictions.heldAtSuspension = .revokeAll
      $0.suspendsOnReturn = false
    }
    let (notices, told) = AsyncStream.makeStream(of: AppNotice.self)
    let app = try await launchAndWait(host, Manifest(identifier: "calendar")) { _ in Told(notices: told) }
    try await app.post(.lock(.calendar))
    var next = notices.makeAsyncIterator()
    try await host.leave(app.id)
    #expect(await next.next() == .lockRevoked(.calendar))
    try await host.terminate(app.id)
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
    let app = try await launchAndWait(host, Manifest(identifier: "waits")) { _ in Waits(expired: expired) }
    let ended = Counter()
    let task = try await app.beginTask {
      expired.add()
      ended.add()
    }
    try await host.leave(app.id)
    try await until { ended.value > 0 }
    try await app.endTask(task)
    await wait(host, app, for: .suspended)
    try await host.terminate(app.id)
  }
}
