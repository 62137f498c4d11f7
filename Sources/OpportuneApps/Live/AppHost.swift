import OpportuneScheduler

/// The live host: apps of this process, by the same rules that `opportune replay` runs, on the machine's
/// clock.
///
/// It is an actor on a strand of its own in the foreground band, so that no background work delays a switch.
/// Effects are carried out in order; callbacks run on the app's executor, one after the other.
///
/// ```swift
/// let host = try AppHost()
/// let notes = try await host.launch(Manifest(identifier: "notes")) { _ in Notes() }
/// try notes.submit { index() }
/// try await host.leave(notes.id)   // didEnterBackground, five seconds of grace, suspended
/// ```
///
/// Keep it for as long as its apps: they do not keep it, nor do its timers or who observes it. With the last
/// reference to it the lives of its apps end as that of a suspended app does, without a callback: tasks are
/// cancelled, what is queued is told so, brokers take back, what the apps ask from then on throws
/// ``HostError`` with the code `terminated`, observers' streams end.
public actor AppHost {
  /// Makes the delegate of a life, on the app's own executor, before its callbacks: what it takes counts as
  /// that of ``AppDelegate/didFinishLaunching(_:)``, and nobody else waits for it.
  public typealias MakeDelegate = @Sendable (HostedApp) -> any AppDelegate

  /// Where its apps run.
  public nonisolated let scheduler: Scheduler
  /// What it grants them.
  public nonisolated let policy: AppsPolicy
  let control: App
  private let strand: Strand
  let brokers: [any ResourceBroker]
  private let start: AppClock.Instant
  var system: AppSystem
  var residents: [AppID: Resident] = [:]
  var makers: [AppID: MakeDelegate] = [:]
  var lives: UInt64 = 0
  /// Those that no broker keeps.
  var snapshots: [AppID: [UInt8]] = [:]
  /// As the brokers know them.
  var presences: [AppID: AppSnapshot] = [:]
  var observers: [UInt64: AsyncStream<AppHost.Event>.Continuation] = [:]
  private var nextObserver: UInt64 = 0
  private var timer: (moment: Moment, task: Task<Void, Never>)?
  var wallClock: WallClockWatch?
  /// The program has posted what time it is.
  private(set) var isToldTheTime = false
  /// Lives that are over and in which something runs still.
  var ending: [AppID: [HostedApp]] = [:]
  var expirations: [TaskID: @Sendable () -> Void] = [:]

  /// An app that has a life.
  // Sendable: touched on the host's strand only, the last time after the host.
  final class Resident: @unchecked Sendable {
    let app: HostedApp
    /// `nil` until it is made.
    var delegate: (any AppDelegate)?
    var reason = LaunchReason.user
    var callbacks: [Callback] = []
    var isCalling = false
    /// What comes after so many of the callbacks.
    var waiting: [(after: Int, start: (any AppDelegate) -> Void)] = []
    /// That are being handled.
    var notices = 0
    var buffers: [DrawingBuffer] = []
    var isEnding = false
    var audio: AudioPump?
    let work = WorkMeter()
    /// What comes back from the store, and is not there yet.
    var restorations = 0
    var resumesWhenRestored = false
    /// Where its image is made, while it is.
    var snapshotExecutor: App?
    var image: [UInt8]?
    init(_ app: HostedApp) { self.app = app }

    /// Its places in the scheduler.
    var places: [App] { audio.map { [app.app, $0.place] } ?? [app.app] }
  }

  public nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  /// - Parameters:
  ///   - scheduler: made with defaults if none is given.
  ///   - policy: checked first.
  /// - Throws: ``HostError``: `policy`, `scheduler`.
  public init(scheduler: Scheduler? = nil, policy: AppsPolicy = .standard) throws(HostError) {
    try self.init(scheduler: scheduler, policy: policy, brokers: [])
  }

  /// - Parameter brokers: told what each app may use.
  package init(
    scheduler: Scheduler? = nil, policy: AppsPolicy = .standard, brokers: [any ResourceBroker]
  ) throws(HostError) {
    do {
      system = try AppSystem(policy: policy)
    } catch {
      throw HostError(.policy(error))
    }
    do {
      let scheduler = if let scheduler { scheduler } else { try Scheduler() }
      let control = try scheduler.makeApp(named: "lifecycle", band: .foreground)
      strand = try control.makeStrand(named: "lifecycle", priority: .high)
      self.scheduler = scheduler
      self.control = control
    } catch {
      throw HostError(.scheduler(error))
    }
    self.policy = policy
    self.brokers = brokers
    start = control.clock.now
  }

  // Not `isolated`: no optimised module could import this one then (Swift 6.3, "circular reference").
  deinit {
    timer?.task.cancel()
    let (left, observers, brokers, scheduler) = (residents, observers, brokers, scheduler)
    let end: @Sendable () -> Void = {
      for resident in left.values {
        resident.work.looks?.cancel()
        _ = resident.end(brokers)
      }
      for observer in observers.values { observer.finish() }
      withExtendedLifetime(scheduler) {}  // with its last reference the strand would end before
    }
    // On the strand, as brokers are promised, unless it has ended.
    do { try strand.submit(onCancel: end, end) } catch { end() }
  }

  // MARK: The launcher (R-SYS-01)

  /// Makes an app known. Each launch makes a delegate for that life.
  public func register(
    _ manifest: Manifest, settings: UserSettings = UserSettings(), delegate: @escaping MakeDelegate
  )
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

  /// Launches a registered app to the foreground, or brings it there, where it has the user's input.
  ///
  /// - Throws: ``HostError``.
  @discardableResult
  public func launch(_ id: AppID) throws(HostError) -> HostedApp {
    try post(.app(id, .launch))
    // Beside others it was in front already.
    if system.frontmost != id { try post(.app(id, .bringForward)) }
    guard let resident = residents[id] else { throw HostError(.terminated("\(id)")) }
    return resident.app
  }

  /// Brings an app to the front; launches it where it does not run.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func bringForward(_ id: AppID) throws(HostError) { try post(.app(id, .bringForward)) }
  /// Takes an app from the front: the user went elsewhere.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func leave(_ id: AppID) throws(HostError) { try post(.app(id, .leave)) }
  /// Ends an app.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func terminate(_ id: AppID) throws(HostError) { try post(.app(id, .terminate)) }

  /// Any event; what the other calls come down to.
  ///
  /// Local notifications fire by the machine's wall clock, unless a program posts
  /// ``SystemEvent/wallClock(_:)``: then by what it says.
  ///
  /// - Throws: ``HostError``: `apps`; the event changed nothing then.
  public func post(_ event: SystemEvent) throws(HostError) {
    if case .app(_, .schedule) = event { followWallClock() }
    let effects: [Effect]
    do {
      effects = try system.handle(event, at: clock)
    } catch {
      carryOut(system.takeEffects())
      rearm()
      throw HostError(.apps(error))
    }
    if case .wallClock = event { isToldTheTime = true }
    carryOut(effects)
    if case .app(let id, _) = event { followAudio(id) }
    // Tracking begins and ends without an effect.
    if case .app(let id, _) = event, !brokers.isEmpty { tellSnapshot(of: id) }
    rearm()
  }

  func post(_ event: AppEvent, _ app: HostedApp) throws(HostError) {
    guard residents[app.id]?.app === app else { throw HostError(.terminated(app.manifest.identifier)) }
    try post(.app(app.id, event))
  }

  // MARK: What can be read

  /// Where an app is; `nil`: it is not registered.
  public func state(of id: AppID) -> LifecycleState? { system.state(of: id) }
  /// All that can be read of an app; `nil`: it is not registered.
  public func view(of id: AppID) -> AppView? { system.view(of: id) }
  /// How long an app may still run in background; `nil`: nothing limits it, or it is not registered.
  public func timeRemaining(of id: AppID) -> Duration? { system.timeRemaining(of: id) }

  /// The life that an app has now.
  public func app(_ id: AppID) -> HostedApp? { residents[id]?.app }

  /// The apps of the switcher, the last used first. (R-LIFE-24)
  public func switcher() -> [AppView] { system.switcher() }

  /// An app's image of its last suspension, unless it was purged. (R-LIFE-20)
  public func snapshot(of id: AppID) -> [UInt8]? {
    snapshots[id] ?? brokers.lazy.compactMap { $0.image(of: id) }.first
  }

  /// Images can be purged at any time; memory is short.
  public func purgeSnapshots() {
    snapshots = [:]
    for broker in brokers { broker.purgeImages() }
  }

  /// Those that no broker keeps, of apps in some states.
  package func purgeOwnSnapshots(in isOne: (LifecycleState) -> Bool) {
    snapshots = snapshots.filter { state(of: $0.key).map(isOne) != true }
  }

  /// Everything that happens from now on. Any number of observers, each sees all of it, in order. (R-LIFE-18)
  ///
  /// Nobody waits for an observer: what one has not taken yet is kept for it, some hundred bytes an event.
  ///
  /// - Parameter limit: how many events may wait for it, at least one; `nil`: any number. Where one more
  ///   comes its stream ends after those that wait, so that nothing is missed in silence. Who observes anew
  ///   then asks for what it missed.
  public func observe(keeping limit: Int? = nil) -> AsyncStream<AppHost.Event> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: AppHost.Event.self, bufferingPolicy: limit.map { .bufferingOldest(max(1, $0)) } ?? .unbounded)
    let number = nextObserver
    nextObserver += 1
    observers[number] = continuation
    continuation.onTermination = { [weak self] _ in
      guard let self else { return }
      Task { await self.forgetObserver(number) }
    }
    return stream
  }

  private func forgetObserver(_ number: UInt64) { observers[number] = nil }

  func tellObservers(_ entry: AppHost.Event) {
    for (number, observer) in observers {
      guard case .dropped = observer.yield(entry) else { continue }
      observers[number] = nil
      observer.finish()
    }
  }

  // MARK: Time

  var clock: Moment { max(system.now, Moment.zero + start.duration(to: control.clock.now)) }

  /// One timer, for the nearest deadline; none while there is none.
  func rearm() {
    let next = system.nextDeadline
    if let timer, let next, timer.moment <= next { return }  // it looks again when it fires
    timer?.task.cancel()
    timer = nil
    guard let next else { return }
    timer = (next, later(at: start.advanced(by: next - .zero)) { $0.timerFired(next) })
  }

  private func timerFired(_ moment: Moment) {
    guard timer?.moment == moment else { return }
    timer = nil
    // Before its time a sleep ends with the scheduler, and so would each that followed it.
    guard clock >= moment else { return }
    // The clock never goes back: it is the larger of the two.
    if let effects = try? system.advance(to: clock) { carryOut(effects) }
    rearm()
  }
}
