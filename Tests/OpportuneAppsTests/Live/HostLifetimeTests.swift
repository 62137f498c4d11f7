import Opportune
import TestSupport
import Testing

/// A host ends with its last reference, whatever its apps are doing, and they with it.
@Suite(.bounded) struct HostLifetimeTests {
  /// Where its app is when a host is left.
  enum Place: CaseIterable { case inFront, entersBackground, behind, plays, suspended, unending }

  /// Never returns by itself.
  private struct Hangs: AppDelegate {
    func didEnterBackground() async { await untilCancelled() }
  }

  /// What is left of a host: its app, and who observes it.
  private struct Left {
    weak var host: AppHost?
    let app: HostedApp
    let events: AsyncStream<AppHost.Event>
    /// Ends when it is cancelled.
    let work: AppTask<Void, any Error>
    let cancelled: Counter
    let mayEnd: Counter
  }

  private func leave(_ place: Place) async throws -> Left {
    let host = try patientHost {
      // Timers and looks at the CPU time go on while its app is in background.
      $0.tasks.cpuTime = .seconds(3600)
      $0.suspendsOnReturn = place == .suspended
    }
    let manifest = Manifest(identifier: "left", backgroundModes: [.audio])
    let app = try await host.launch(manifest) { _ -> any AppDelegate in
      place == .entersBackground ? Hangs() : Silent()
    }
    await wait(host, app, for: .active)
    let (cancelled, mayEnd, isSpinning) = (Counter(), Counter(), Counter())
    let work = try app.task {
      await untilCancelled()
      try Task.checkCancellation()
    }
    switch place {
    case .inFront: break
    case .entersBackground: try await host.leave(app.id)
    case .behind:
      _ = try await app.beginTask()
      try await host.leave(app.id)
    case .plays:
      _ = try await app.startAudio(every: .milliseconds(1)) { _ in }
      try await host.leave(app.id)
    case .suspended:
      try await leaveAndWait(host, app)
      for _ in 0..<100 { try app.submit(onCancel: { cancelled.add() }, { Issue.record("it ran") }) }
    case .unending:
      try app.submit {
        isSpinning.add()
        mayEnd.spin(to: 1)
      }
      try await until { isSpinning.value > 0 }
      try await host.terminate(app.id)
    }
    return Left(
      host: host, app: app, events: await host.observe(), work: work, cancelled: cancelled, mayEnd: mayEnd)
  }

  // R-LIFE-08, R-CARD-07
  @Test(.timeLimit(.minutes(1)), arguments: Place.allCases)
  func aHostThatIsLeftEndsAndItsAppsWithIt(_ place: Place) async throws {
    let left = try await leave(place)
    try await until { left.host == nil }
    for await _ in left.events {}
    let app = left.app
    let calls: [@Sendable (HostedApp) async throws -> Void] = [
      { try $0.submit {} }, { _ = try $0.task {} }, { _ = try await $0.beginTask() },
      { try await $0.post(.handled) },
      { _ = try await $0.startAudio { _ in } }, { _ = try await $0.makeDrawingBuffer(bytes: 1) },
      { _ = try await $0.request(.camera) },
    ]
    for call in calls {
      await #expect {
        try await call(app)
      } throws: {
        ($0 as? HostError)?.code == .terminated("left")
      }
    }
    #expect(await app.state() == .notRunning)
    #expect(await app.backgroundTimeRemaining() == .zero)
    #expect(await !app.isMultitaskingSupported())
    await #expect(throws: CancellationError.self) { try await left.work.value }
    try await until { left.cancelled.value >= (place == .suspended ? 100 : 0) }
    left.mayEnd.add()
  }

  // R-CARD-07
  @Test(.timeLimit(.minutes(1))) func aHostGoesInSpiteOfItsBrokersSocketsAndMonitors() async throws {
    weak var host: AppHost?
    weak var memory: HostMemory?
    func make() async throws -> (PowerMonitor, IOBroker) {
      let scheduler = try Scheduler()
      let kept = try HostMemory(scheduler: scheduler)
      let made = try patientHost(scheduler: scheduler, brokers: [kept])
      try await kept.serve(made)
      let broker = try made.makeIOBroker()
      let id = await made.register(Manifest(identifier: "app"), memory: kept) { _, _ in Silent() }
      let app = try await made.launch(id)
      _ = try broker.makeIO(for: app)
      try await app.post(.schedule(LocalNotification(fireDate: .instant(1e10), body: "far off")))
      await wait(made, app, for: .active)
      (host, memory) = (made, kept)
      return (made.followPower(), broker)
    }
    let (monitor, broker) = try await make()
    try await until { host == nil && memory == nil }
    await broker.shutdown()
    withExtendedLifetime(monitor) {}
  }
}
