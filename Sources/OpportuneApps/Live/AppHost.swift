import OpportuneScheduler

/// The live host: apps of this process on the machine's clock, by the same rules that `opportune replay`
/// runs.
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
/// Keep it for as long as its apps: apps, timers and observers do not retain it. With its last reference the
/// lives of its apps end like that of a suspended app, without a callback: tasks and queued closures are
/// cancelled, and brokers release the apps' resources. From then on calls of the apps throw ``HostError``
/// with the code `terminated`, and observers' streams end.
///
/// In a test, ``inVirtualTime(scheduler:policy:)`` makes one whose time goes on by
/// ``advance(by:waitingForApps:)`` alone.
public actor AppHost {
  /// Makes the delegate of a life, on the app's own executor, before its callbacks. Its time counts as that
  /// of ``AppDelegate/didFinishLaunching(_:)``, and delays no other app.
  public typealias MakeDelegate = @Sendable (HostedApp) -> any AppDelegate

  /// The scheduler of its apps.
  public nonisolated let scheduler: Scheduler
  /// The lifecycle policy of its apps.
  public nonisolated let policy: AppsPolicy
  let control: App
  private let strand: Strand
  let brokers: [any ResourceBroker]
  private let start: AppClock.Instant
  var system: AppSystem
  var residents: [AppID: Resident] = [:]
  var makers: [AppID: MakeDelegate] = [:]
  var lives: UInt64 = 0
  /// The images that no broker stores.
  var snapshots: [AppID: [UInt8]] = [:]
  /// The state of each app that was last passed to the brokers.
  var latestSnapshots: [AppID: AppSnapshot] = [:]
  var observers: [UInt64: AsyncStream<AppHost.Event>.Continuation] = [:]
  private var nextObserver: UInt64 = 0
  private var timer: (moment: Moment, task: Task<Void, Never>)?
  var wallClock: WallClockWatch?
  /// Whether the program posts the wall-clock time itself.
  private(set) var isToldTheTime: Bool
  /// What is on its way in virtual time; `nil`: the time is the machine's.
  var virtual: VirtualTime?
  /// Ended lives of which some code still runs.
  var ending: [AppID: [HostedApp]] = [:]
  var expirations: [TaskID: Expiration] = [:]

  /// An app with a current life.
  // Sendable: accessed on the host's strand only, the last time after the host's end.
  final class Resident: @unchecked Sendable {
    let app: HostedApp
    /// `nil` until it is made.
    var delegate: (any AppDelegate)?
    var reason = LaunchReason.user
    var callbacks: [Callback] = []
    var isCalling = false
    /// Calls that start after the first `after` callbacks have returned.
    var waiting: [(after: Int, start: (any AppDelegate) -> Void)] = []
    /// The number of notices that are being handled.
    var notices = 0
    var buffers: [DrawingBuffer] = []
    var isEnding = false
    /// The number of other calls of the delegate, and of handlers of expirations, that have not returned.
    var calls = 0
    /// Expired tasks that end by themselves, since their body was cancelled.
    var expiring: Set<TaskID> = []
    /// Whether one of its calls was found to be too long.
    var isLate = false
    var audio: AudioPump?
    let work = WorkMeter()
    /// The number of restorations from the store that have not ended.
    var restorations = 0
    var resumesWhenRestored = false
    /// The scheduler app in which the image is being made, if it is.
    var snapshotExecutor: App?
    var image: [UInt8]?
    init(_ app: HostedApp) { self.app = app }

    /// The app's scheduler apps.
    var places: [App] { audio.map { [app.app, $0.place] } ?? [app.app] }
  }

  public nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  /// Makes a host.
  ///
  /// - Parameters:
  ///   - scheduler: `nil` makes one with defaults.
  ///   - policy: validated first.
  /// - Throws: ``HostError``: `policy`, `scheduler`.
  public init(scheduler: Scheduler? = nil, policy: AppsPolicy = .standard) throws(HostError) {
    try self.init(scheduler: scheduler, policy: policy, brokers: [])
  }

  /// - Parameters:
  ///   - brokers: receive what each app may use.
  ///   - isVirtual: whether the time goes on by ``advance(by:waitingForApps:)`` alone.
  package init(
    scheduler: Scheduler? = nil, policy: AppsPolicy = .standard, brokers: [any ResourceBroker],
    isVirtual: Bool = false
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
    virtual = isVirtual ? VirtualTime() : nil
    isToldTheTime = isVirtual  // its date goes with its time
    start = control.clock.now
  }

  // Not `isolated`: an optimised module with this could not be imported (Swift 6.3, "circular reference").
  deinit {
    timer?.task.cancel()
    let (left, observers, brokers, scheduler) = (residents, observers, brokers, scheduler)
    let end: @Sendable () -> Void = {
      for resident in left.values {
        resident.work.looks?.cancel()
        _ = resident.end(brokers)
      }
      for observer in observers.values { observer.finish() }
      withExtendedLifetime(scheduler) {}  // its release would end the strand
    }
    // On the strand, as brokers require, unless the strand has ended.
    do { try strand.submit(onCancel: end, end) } catch { end() }
  }

  // MARK: The launcher (R-SYS-01)

  /// Registers an app. Each launch makes a delegate for that life.
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

  /// Launches a registered app to the foreground, or brings it there; it then receives the user's input.
  ///
  /// - Throws: ``HostError``.
  @discardableResult
  public func launch(_ id: AppID) throws(HostError) -> HostedApp {
    try post(.app(id, .launch))
    // Among several foreground apps it may be there already.
    if system.frontmost != id { try post(.app(id, .bringForward)) }
    guard let resident = residents[id] else { throw HostError(.terminated("\(id)")) }
    return resident.app
  }

  /// Brings an app to the foreground; launches it if it does not run.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func bringForward(_ id: AppID) throws(HostError) { try post(.app(id, .bringForward)) }

  /// Moves an app out of the foreground: the user has left it.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func leave(_ id: AppID) throws(HostError) { try post(.app(id, .leave)) }

  /// Terminates an app.
  ///
  /// - Throws: ``HostError``; nothing was changed.
  public func terminate(_ id: AppID) throws(HostError) { try post(.app(id, .terminate)) }

  /// Posts any event; all other calls are implemented by it.
  ///
  /// Local notifications fire by the machine's wall clock, unless a program posts
  /// ``SystemEvent/wallClock(_:)``: then by the time in those events.
  ///
  /// - Throws: ``HostError``: `apps`; the event changed nothing then.
  public func post(_ event: SystemEvent) throws(HostError) {
    if case .app(_, .does(.schedule)) = event { followWallClock() }
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

  func post(_ action: AppAction, _ app: HostedApp) throws(HostError) { try post(.does(action), app) }

  // MARK: State

  /// The app's state; `nil` if it is not registered.
  public func state(of id: AppID) -> LifecycleState? { system.state(of: id) }
  /// A snapshot of an app; `nil` if it is not registered.
  public func view(of id: AppID) -> AppView? { system.view(of: id) }
  /// How long an app may still run in the background; `nil` if there is no limit or it is not registered.
  public func timeRemaining(of id: AppID) -> Duration? { system.timeRemaining(of: id) }

  /// The app's current life.
  public func app(_ id: AppID) -> HostedApp? { residents[id]?.app }

  /// The apps of the switcher, the most recently used first. (R-LIFE-24)
  public func switcher() -> [AppView] { system.switcher() }

  /// The app's image of its last suspension, unless it was purged. (R-LIFE-20)
  public func snapshot(of id: AppID) -> [UInt8]? {
    snapshots[id] ?? brokers.lazy.compactMap { $0.image(of: id) }.first
  }

  /// Purges all images, because memory is short. Images may be purged at any time.
  public func purgeSnapshots() {
    snapshots = [:]
    for broker in brokers { broker.purgeImages() }
  }

  /// Purges images that no broker stores, of apps in some states.
  package func purgeOwnSnapshots(in isOne: (LifecycleState) -> Bool) {
    snapshots = snapshots.filter { state(of: $0.key).map(isOne) != true }
  }

  /// All events from now on. Any number of observers is possible; each receives all events, in order.
  /// (R-LIFE-18)
  ///
  /// The host never waits for an observer. Events that it has not consumed are buffered, about a hundred
  /// bytes each.
  ///
  /// - Parameter limit: how many events are buffered, at least one; `nil` is any number. When one more comes,
  ///   the stream ends after the buffered events, so that no loss goes unnoticed. A new observer then reads
  ///   the current state for what it has missed.
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

  var clock: Moment {
    virtual != nil ? system.now : max(system.now, Moment.zero + start.duration(to: control.clock.now))
  }

  /// Sets the one timer for the nearest deadline; removes it if there is none.
  func rearm() {
    if virtual != nil { return wakeIfSettled() }
    let next = system.nextDeadline
    if let timer, let next, timer.moment <= next { return }  // it is set again when it fires
    timer?.task.cancel()
    timer = nil
    guard let next else { return }
    timer = (next, later(at: start.advanced(by: next - .zero)) { $0.timerFired(next) })
  }

  private func timerFired(_ moment: Moment) {
    guard timer?.moment == moment else { return }
    timer = nil
    // A sleep that ends early was ended by the scheduler's shutdown, and each further one would be too.
    guard clock >= moment else { return }
    // The clock never goes back: this is the larger of the two times.
    if let effects = try? system.advance(to: clock) { carryOut(effects) }
    rearm()
  }
}
