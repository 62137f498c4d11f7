import Foundation
import Opportune
import TestSupport
import Testing

/// Lifecycles of live apps in time that a test moves by hand.
@Suite(.bounded) struct VirtualTimeTests {
  /// Says what it was called for, and may be held up in one of its calls.
  private actor Probe: AppDelegate {
    private(set) var calls: [String] = []
    private let held: Awaited?

    init(heldIn gate: Awaited? = nil) { held = gate }

    func didFinishLaunching(_ reason: LaunchReason) { calls.append("launched by \(reason)") }
    func willEnterForeground() { calls.append("returns") }
    func didBecomeActive() { calls.append("active") }
    func willResignActive() { calls.append("resigns") }
    func didEnterBackground() async {
      calls.append("saves")
      _ = await held?.wait()
    }
    func willTerminate() { calls.append("ends") }
    func didReceive(_ notice: AppNotice) async {
      // Returns in several steps, none of which the host sees.
      for _ in 0..<100 { await Task.yield() }
      if case .message(let message) = notice { calls.append("got \(message.kind)") }
    }
    func fetch() -> FetchResult {
      calls.append("fetches")
      return .newData
    }
    func didReceiveMemoryWarning() async {
      for _ in 0..<100 { await Task.yield() }
      calls.append("warned")
    }
  }

  private func host(_ change: (inout AppsPolicy) -> Void = { _ in }) throws -> AppHost {
    var policy = AppsPolicy()
    change(&policy)
    return try AppHost.inVirtualTime(policy: policy)
  }

  @Test func graceEndsWhenTimeIsMovedAndNotBefore() async throws {
    let host = try host()
    let probe = Probe()
    let events = await host.observe()
    let app = try await host.launch(Manifest(identifier: "notes")) { _ in probe }
    try await host.advance(by: .zero)
    try await host.leave(app.id)
    try await host.advance(by: .milliseconds(4999))
    let calls = await probe.calls
    #expect(calls == ["launched by user", "active", "resigns", "saves"])
    #expect(await host.state(of: app.id) == .background)
    #expect(await host.timeRemaining(of: app.id) == .milliseconds(1))
    try await host.advance(by: .milliseconds(1))
    #expect(await host.state(of: app.id) == .suspended)
    #expect(app.app.activity == .suspended)
    for await event in events {
      guard case .moved(_, .suspended, _) = event.action else { continue }
      #expect(event.moment == .seconds(5))
      break
    }
    try await host.bringForward(app.id)
    try await host.advance(by: .zero)
    #expect(await probe.calls.suffix(2) == ["returns", "active"])
    try await host.terminate(app.id)
    try await host.advance(by: .zero)
    #expect(await probe.calls.last == "ends")
    #expect(await host.state(of: app.id) == .notRunning)
    #expect(await host.app(app.id) == nil)
  }

  @Test func advancingWaitsForWarningsAndMessages() async throws {
    let host = try host()
    let probe = Probe()
    let app = try await host.launch(Manifest(identifier: "notes")) { _ in probe }
    try await host.post(.app(app.id, .memoryWarning))
    try await host.advance(by: .zero)
    #expect(await probe.calls.last == "warned")
    try await host.post(.app(app.id, .message(Message("invitation"))))
    try await host.advance(by: .zero)
    #expect(await probe.calls.last == "got invitation")
  }

  @Test func aTaskOfHoursEndsWhenItsTimeIsUp() async throws {
    let host = try host()
    let app = try await host.launch(Manifest(identifier: "upload")) { _ in Probe() }
    let isCancelled = Awaited()
    let isUnderWay = Awaited()
    let upload = try app.task {
      try? await app.withBackgroundTask(.upload) {
        isUnderWay.tell()
        _ = try? await Task.sleep(for: .seconds(36_000))  // ended by its cancellation
        isCancelled.tell()
      }
    }
    #expect(await isUnderWay.wait())
    try await host.leave(app.id)
    try await host.advance(by: .seconds(179))
    #expect(await host.state(of: app.id) == .background)
    try await host.advance(by: .seconds(36_000))
    // Not terminated: time did not go on before the task had ended.
    #expect(await host.state(of: app.id) == .suspended)
    #expect(await isCancelled.wait())
    try await host.bringForward(app.id)
    _ = await upload.value
  }

  @Test func fetchesOfADayComeAtTheirMoments() async throws {
    let host = try host {
      $0.fetch.shortest = .seconds(3600)
      $0.fetch.longest = .seconds(3600)
    }
    let probe = Probe()
    let events = await host.observe()
    let app = try await host.launch(Manifest(identifier: "news", backgroundModes: [.fetch])) { _ in probe }
    try await host.leave(app.id)
    try await host.advance(by: .seconds(86_400))
    #expect(await host.state(of: app.id) == .suspended)
    let fetches = await probe.calls.count { $0 == "fetches" }
    #expect((22...24).contains(fetches))
    try await host.terminate(app.id)
    var moments: [Moment] = []
    for await event in events {
      if case .fetch = event.action { moments.append(event.moment) }
      if case .moved(_, .terminated, _) = event.action { break }
    }
    #expect(moments.count == fetches)
    for (one, next) in zip(moments, moments.dropFirst()) { #expect(next - one == .seconds(3600)) }
  }

  /// An app whose callback has begun and waits for the gate.
  private func heldUp() async throws -> (AppHost, HostedApp, Awaited) {
    let host = try host()
    let gate = Awaited()
    let probe = Probe(heldIn: gate)
    let app = try await host.launch(Manifest(identifier: "slow")) { _ in probe }
    try await host.leave(app.id)
    // Its time counts from there.
    try await eventually("the callback begins") { await probe.calls.contains("saves") }
    return (host, app, gate)
  }

  @Test func aCallbackThatTheTestHoldsUpBecomesLate() async throws {
    let (host, app, gate) = try await heldUp()
    try await host.advance(by: .seconds(4), waitingForApps: false)
    #expect(await host.state(of: app.id) == .background)
    try await host.advance(by: .seconds(3), waitingForApps: false)
    #expect(await host.state(of: app.id) == .terminated)
    // It was reported not to end, so this does not wait for it.
    let other = try await host.launch(Manifest(identifier: "other")) { _ in Probe() }
    try await host.leave(other.id)
    try await host.advance(by: .seconds(5))
    #expect(await host.state(of: other.id) == .suspended)
    gate.tell()
    try await host.advance(by: .zero)
  }

  @Test func notificationsFireByTheDateOfVirtualTime() async throws {
    let host = try host()
    let probe = Probe()
    let app = try await host.launch(Manifest(identifier: "mail")) { _ in probe }
    try await app.post(.schedule(LocalNotification(fireDate: .instant(90_000), body: "Write to Ada")))
    try await host.advance(by: .seconds(89_999))
    #expect(await !probe.calls.contains("got notification"))
    try await host.advance(by: .seconds(1))
    #expect(await probe.calls.contains("got notification"))
  }

  @Test func cpuTimeCountsBetweenMoments() async throws {
    let host = try host { $0.tasks.cpuTime = .milliseconds(50) }
    let app = try await host.launch(Manifest(identifier: "indexer")) { _ in Probe() }
    let expired = Awaited()
    let task = try await app.beginTask { expired.tell() }
    try await host.leave(app.id)
    try await host.advance(by: .seconds(10))
    #expect(await host.state(of: app.id) == .background)
    await app.app.task { compute(for: 60_000_000) }.value
    try await host.advance(by: .zero)
    #expect(await expired.wait())
    try await app.endTask(task)
    try await host.advance(by: .seconds(5))
    #expect(await host.state(of: app.id) == .suspended)
  }

  @Test func onlyVirtualTimeCanBeAdvanced() async throws {
    let live = try AppHost()
    await #expect(throws: HostError(.time)) { try await live.advance(by: .seconds(1)) }
    let host = try host()
    await #expect(throws: HostError.self) { try await host.advance(by: .seconds(-1)) }
    try await host.advance(by: .zero)
  }

  @Test func cancellationEndsTheWait() async throws {
    let (host, app, gate) = try await heldUp()
    let advancing = Task { try await host.advance(by: .seconds(60)) }
    advancing.cancel()
    try await advancing.value
    #expect(await host.state(of: app.id) == .background)
    gate.tell()
    try await host.advance(by: .seconds(5))
    #expect(await host.state(of: app.id) == .suspended)
  }
}

/// Uses so many nanoseconds of CPU time, on whatever machine.
private func compute(for nanoseconds: UInt64) {
  let end = cpuTimeHere() + nanoseconds
  while cpuTimeHere() < end {}
}

private func cpuTimeHere() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
