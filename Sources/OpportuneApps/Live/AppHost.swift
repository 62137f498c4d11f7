import OpportuneScheduler

/// The live host: apps of this process, by the same ``AppSystem`` that virtual time runs, on the machine's clock.
///
/// It is an actor on a strand of its own in the foreground band, so that no background work delays a switch. Effects are
/// carried out in order; callbacks run on the app's executor, one after the other.
///
/// ```swift
/// let host = try AppHost()
/// let notes = try await host.launch(Manifest(identifier: "notes")) { _ in Notes() }
/// try notes.submit { index() }
/// try await host.leave(notes.id)   // didEnterBackground, five seconds of grace, suspended
/// ```
public actor AppHost {
  public typealias MakeDelegate = @Sendable (HostedApp) -> any AppDelegate

  public nonisolated let scheduler: Scheduler
  public nonisolated let policy: AppsPolicy
  private let control: App
  private let strand: Strand
  private let brokers: [any ResourceBroker]
  private let start: AppClock.Instant
  var system: AppSystem
  private var residents: [AppID: Resident] = [:]
  private var makers: [AppID: MakeDelegate] = [:]
  private var lives: UInt64 = 0
  private var snapshots: [AppID: [UInt8]] = [:]
  private var observers: [UInt64: AsyncStream<VirtualHost.Entry>.Continuation] = [:]
  private var nextObserver: UInt64 = 0
  private var timer: (moment: Moment, task: Task<Void, Never>)?
  private var expirations: [TaskID: @Sendable () -> Void] = [:]

  /// An app that has a life.
  private final class Resident {
    let app: HostedApp
    let delegate: any AppDelegate
    var reason = LaunchReason.user
    var callbacks: [Callback] = []
    var isCalling = false
    var buffers: [DrawingBuffer] = []
    var isEnding = false
    init(_ app: HostedApp, _ delegate: any AppDelegate) {
      self.app = app
      self.delegate = delegate
    }
  }

  public nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  /// - Parameters:
  ///   - scheduler: made with defaults if none is given.
  ///   - brokers: told what each app may use.
  /// - Throws: ``HostError``: `policy`, `scheduler`.
  public init(
    scheduler: Scheduler? = nil, policy: AppsPolicy = .standard, brokers: [any ResourceBroker] = []
  ) throws(HostError) {
    do {
      system = try AppSystem(policy: policy)
    } catch {
      throw HostError.policy(error)
    }
    do {
      let scheduler = if let scheduler { scheduler } else { try Scheduler() }
      let control = try scheduler.makeApp(named: "lifecycle", band: .foreground)
      strand = try control.thread(named: "lifecycle", priority: .high)
      self.scheduler = scheduler
      self.control = control
    } catch {
      throw HostError.scheduler(error)
    }
    self.policy = policy
    self.brokers = brokers
    start = control.clock.now
  }

  // MARK: The launcher (R-SYS-01)

  /// Makes an app known. Each launch makes a delegate for that life.
  public func register(_ manifest: Manifest, settings: UserSettings = UserSettings(), delegate: @escaping MakeDelegate)
    -> AppID
  {
    let id = system.register(manifest, settings: settings)
    makers[id] = delegate
    return id
  }

  /// Registers an app and launches it to the foreground.
  ///
  /// - Throws: ``HostError``.
  public func launch(_ manifest: Manifest, delegate: @escaping MakeDelegate) throws(HostError) -> HostedApp {
    try launch(register(manifest, delegate: delegate))
  }

  /// Launches a registered app to the foreground, or brings it there.
  ///
  /// - Throws: ``HostError``.
  @discardableResult
  public func launch(_ id: AppID) throws(HostError) -> HostedApp {
    try post(.app(id, .launch))
    if system.state(of: id)?.isForeground != true { try post(.app(id, .bringForward)) }
    guard let resident = residents[id] else { throw HostError.terminated("\(id)") }
    return resident.app
  }

  public func bringForward(_ id: AppID) throws(HostError) { try post(.app(id, .bringForward)) }
  public func leave(_ id: AppID) throws(HostError) { try post(.app(id, .leave)) }
  public func terminate(_ id: AppID) throws(HostError) { try post(.app(id, .terminate)) }

  /// Any event; what the other calls come down to.
  ///
  /// - Throws: ``HostError/apps(_:)``; the event changed nothing then.
  public func post(_ event: SystemEvent) throws(HostError) {
    let effects: [Effect]
    do {
      effects = try system.handle(event, at: clock)
    } catch {
      carryOut(system.takeEffects())
      rearm()
      throw HostError.apps(error)
    }
    carryOut(effects)
    rearm()
  }

  func post(_ event: AppEvent, _ app: HostedApp) throws(HostError) {
    guard residents[app.id]?.app === app else { throw HostError.terminated(app.manifest.identifier) }
    try post(.app(app.id, event))
  }

  // MARK: What can be read

  public func state(of id: AppID) -> LifecycleState? { system.state(of: id) }
  public func view(of id: AppID) -> AppSystem.AppView? { system.view(of: id) }
  public func timeRemaining(of id: AppID) -> Duration? { system.timeRemaining(of: id) }

  /// The life that an app has now.
  public func app(_ id: AppID) -> HostedApp? { residents[id]?.app }

  /// The apps of the switcher, the last used first. (R-LIFE-24)
  public func switcher() -> [AppSystem.AppView] { system.switcher() }

  /// An app's image of its last suspension, unless it was purged. (R-LIFE-20)
  public func snapshot(of id: AppID) -> [UInt8]? { snapshots[id] }

  /// Images can be purged at any time; memory is short.
  public func purgeSnapshots() { snapshots = [:] }

  /// Everything that happens from now on. Any number of observers, each sees all of it, in order. (R-LIFE-18)
  public func observe() -> AsyncStream<VirtualHost.Entry> {
    let (stream, continuation) = AsyncStream.makeStream(of: VirtualHost.Entry.self, bufferingPolicy: .unbounded)
    let number = nextObserver
    nextObserver += 1
    observers[number] = continuation
    continuation.onTermination = { _ in Task { await self.forgetObserver(number) } }
    return stream
  }

  private func forgetObserver(_ number: UInt64) { observers[number] = nil }

  // MARK: Time

  private var clock: Moment { max(system.now, Moment.zero + start.duration(to: control.clock.now)) }

  /// One timer, for the nearest deadline; none while there is none.
  private func rearm() {
    let next = system.nextDeadline
    if let timer, let next, timer.moment <= next { return }  // it looks again when it fires
    timer?.task.cancel()
    timer = nil
    guard let next else { return }
    let clock = control.clock
    let deadline = start.advanced(by: next - .zero)
    let task = Task {
      guard (try? await clock.sleep(until: deadline, tolerance: .milliseconds(1))) != nil else { return }
      self.timerFired(next)
    }
    timer = (next, task)
  }

  private func timerFired(_ moment: Moment) {
    guard timer?.moment == moment else { return }
    timer = nil
    // The clock never goes back: it is the larger of the two.
    if let effects = try? system.advance(to: clock) { carryOut(effects) }
    rearm()
  }

  // MARK: Effects

  private func carryOut(_ effects: [Effect]) {
    for effect in effects {
      let entry = VirtualHost.Entry(moment: system.now, app: effect.app, action: effect.action)
      for observer in observers.values { observer.yield(entry) }
      carryOut(effect.action, effect.app)
    }
  }

  private func carryOut(_ action: AppEffect, _ id: AppID) {
    switch action {
    case .lifecycle(let effect): carryOut(effect, id)
    case .launched(let reason): residents[id]?.reason = reason
    case .restrict(let restrictions): restrict(id, restrictions)
    case .expire(let task):
      if let expired = expirations[task] {
        enqueue(id) { _ in
          expired()
        } then: { _ in
        }
      }
    case .taskEnded(let task): expirations[task] = nil
    case .pauseAudio:
      enqueue(id) {
        await $0.audioShould(play: false)
      } then: { _ in
      }
    case .resumeAudio:
      enqueue(id) {
        await $0.audioShould(play: true)
      } then: { _ in
      }
    case .deliver(let message): notify(id, .message(message))
    case .coalesced(let changes): notify(id, .changes(changes))
    case .data(let bytes): notify(id, .data(bytes: bytes))
    case .heartbeat: notify(id, .heartbeat)
    case .locationEvent: notify(id, .location)
    case .completion: notify(id, .completion)
    case .fetch:
      enqueue(id) {
        await $0.fetch()
      } then: {
        .fetched($0)
      }
    case .moved, .ignored, .taskBegan, .taskRefused, .notify, .ask, .granted, .denied, .revoked, .lockGranted,
      .lockRevoked, .diagnose:
      if case .diagnose(.callbackOverrun) = action, let resident = residents[id], resident.isEnding { finish(resident) }
    }
  }

  private func carryOut(_ effect: LifecycleEffect, _ id: AppID) {
    switch effect {
    case .start: start(id)
    case .deliver(let callback):
      guard let resident = residents[id] else { return }
      resident.callbacks.append(callback)
      callNext(resident)
    case .stopExecution: stop(id)
    case .resumeExecution:
      for broker in brokers { broker.release(id) }
      residents[id]?.app.app.resume()
    case .takeSnapshot: snapshots[id] = residents[id]?.delegate.snapshot()
    case .saveState: for broker in brokers { broker.save(id) }
    case .restoreState: for broker in brokers { broker.restore(id) }
    case .deleteState: snapshots[id] = nil
    case .warnOfMemory:
      enqueue(id) {
        await $0.didReceiveMemoryWarning()
      } then: { _ in
      }
    case .takeBack: takeBack(id)
    }
  }

  private func start(_ id: AppID) {
    guard let make = makers[id], let manifest = system.view(of: id)?.manifest else { return }
    if let old = residents[id] { finish(old) }
    lives += 1
    // Without a place in the scheduler the app cannot run: its callbacks overrun, and it ends.
    guard let place = try? scheduler.makeApp(named: manifest.identifier, band: .foreground) else { return }
    let app = HostedApp(id: id, manifest: manifest, app: place, host: self, life: lives)
    residents[id] = Resident(app, make(app))
  }

  private func callNext(_ resident: Resident) {
    guard !resident.isCalling, let callback = resident.callbacks.first else { return }
    resident.isCalling = true
    let delegate = resident.delegate
    let reason = resident.reason
    let app = resident.app
    // Refused only at the end, when no callback is due any more.
    _ = try? app.task(name: callback.rawValue, priority: .high) {
      await delegate.handle(callback, reason)
      await self.returned(callback, app)
    }
  }

  private func returned(_ callback: Callback, _ app: HostedApp) {
    guard let resident = residents[app.id], resident.app === app, resident.callbacks.first == callback else { return }
    resident.callbacks.removeFirst()
    resident.isCalling = false
    if !resident.isEnding || callback == .willTerminate || !resident.callbacks.isEmpty {
      try? post(.app(app.id, .returned(callback)))
    }
    callNext(resident)
    if resident.isEnding, resident.callbacks.isEmpty { finish(resident) }
  }

  private func notify(_ id: AppID, _ notice: AppNotice) {
    enqueue(id) {
      await $0.didReceive(notice)
    } then: { _ in
      notice == .heartbeat ? .heartbeatSent : .handled
    }
  }

  /// Runs something of a delegate on its app's executor, and says what came of it.
  private func enqueue<Result: Sendable>(
    _ id: AppID, _ body: @escaping @Sendable (any AppDelegate) async -> Result,
    then answer: @escaping @Sendable (Result) -> AppEvent?
  ) {
    guard let resident = residents[id], !resident.isEnding else { return }
    let (app, delegate) = (resident.app, resident.delegate)
    _ = try? app.task(priority: .high) {
      let result = await body(delegate)
      if let event = answer(result) { try? await self.post(event, app) }
    }
  }

  private func enqueue(
    _ id: AppID, _ body: @escaping @Sendable (any AppDelegate) async -> Void,
    then none: @escaping @Sendable (()) -> Void
  ) {
    enqueue(id, body, then: { (_: ()) -> AppEvent? in nil })
  }

  private func restrict(_ id: AppID, _ restrictions: Restrictions) {
    for broker in brokers { broker.restrict(id, to: restrictions) }
    guard let resident = residents[id], !resident.isEnding else { return }
    for buffer in resident.buffers { buffer.setAccepts(restrictions.mayDraw) }
    // Neither band needs a lane that could be missing.
    switch restrictions.cpu {
    case .foreground: try? resident.app.app.setBand(.foreground)
    case .background: try? resident.app.app.setBand(.background)
    case .none: break
    }
  }

  /// Nothing starts from here on; when the last slice has ended, the system hears of it. (R-FTS-06)
  private func stop(_ id: AppID) {
    guard let resident = residents[id] else { return }
    let app = resident.app
    app.app.suspend()
    for broker in brokers { broker.hold(id) }
    if app.app.activity == .suspended {
      // Not at once: the effects that come with this one are carried out first.
      Task { self.stopped(app) }
    } else {
      Task {
        await app.app.untilSuspended()
        self.stopped(app)
      }
    }
  }

  private func stopped(_ app: HostedApp) {
    guard residents[app.id]?.app === app, app.app.activity == .suspended else { return }
    guard system.state(of: app.id) == .stopping else { return }
    try? post(.app(app.id, .stopped))
  }

  // MARK: The end of an app

  private func takeBack(_ id: AppID) {
    for broker in brokers { broker.takeBack(id) }
    guard let resident = residents[id] else { return }
    resident.isEnding = true
    let isDying = system.state(of: id) == .terminated
    let overran = isDying && (system.view(of: id)?.callbacks.isEmpty ?? true)
    if overran || resident.callbacks.isEmpty { finish(resident) }
  }

  /// Cancels what is left; whatever does not end runs on in background, off the foreground's cores.
  private func finish(_ resident: Resident) {
    let app = resident.app
    guard residents[app.id]?.app === app else { return }
    resident.callbacks = []
    for buffer in resident.buffers { buffer.setAccepts(false) }
    try? app.app.setBand(.background)
    let isEmpty = app.end()
    app.app.resume()  // so that what is queued can be told that it is cancelled
    residents[app.id] = nil
    if isEmpty {
      reap(app.id)
    } else {
      ending[app.id, default: []].append(app)
      let clock = control.clock
      let limit = policy.sliceAllowance
      Task {
        try? await clock.sleep(for: limit)
        self.reportUnending(app)
      }
    }
  }

  private var ending: [AppID: [HostedApp]] = [:]

  func isEmpty(_ id: AppID, _ life: UInt64) {
    ending[id]?.removeAll { $0.life == life }
    if ending[id]?.isEmpty == true {
      ending[id] = nil
      reap(id)
    }
  }

  private func reap(_ id: AppID) {
    guard system.state(of: id) == .terminated, residents[id] == nil else { return }
    // After the effects that are being carried out.
    Task {
      if self.system.state(of: id) == .terminated, self.residents[id] == nil { try? self.post(.app(id, .reaped)) }
    }
  }

  private func reportUnending(_ app: HostedApp) {
    guard ending[app.id]?.contains(where: { $0 === app }) == true else { return }
    let entry = VirtualHost.Entry(moment: system.now, app: app.id, action: .diagnose(.unendingSlice))
    for observer in observers.values { observer.yield(entry) }
  }

  // MARK: Tasks and buffers

  func beginTask(
    _ kind: TaskKind, _ app: HostedApp, _ expired: @escaping @Sendable () -> Void
  ) throws(HostError) -> TaskID {
    guard residents[app.id]?.app === app else { throw HostError.terminated(app.manifest.identifier) }
    let effects: [Effect]
    do {
      effects = try system.handle(.app(app.id, .beginTask(kind)), at: clock)
    } catch {
      throw HostError.apps(error)
    }
    var result: TaskID?
    var refusal = TaskRefusal.notSupported
    for effect in effects where effect.app == app.id {
      if case .taskBegan(let task) = effect.action { result = task }
      if case .taskRefused(let reason) = effect.action { refusal = reason }
    }
    if let result { expirations[result] = expired }
    carryOut(effects)
    rearm()
    guard let result else { throw HostError.refused(refusal) }
    return result
  }

  func adopt(_ buffer: DrawingBuffer, _ app: HostedApp) throws(HostError) {
    guard let resident = residents[app.id], resident.app === app else {
      throw HostError.terminated(app.manifest.identifier)
    }
    resident.buffers.append(buffer)
    buffer.setAccepts(system.view(of: app.id)?.restrictions.mayDraw ?? false)
  }
}
