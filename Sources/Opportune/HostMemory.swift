import OpportuneApps
import OpportuneIO
import OpportuneMemory
import OpportuneScheduler
import Synchronization

/// The memory management of a host's apps: it turns pressure into lifecycle events, and hibernates or
/// terminates the apps that are chosen for removal. (R-MEM-01, R-MEM-05, R-MEM-07, R-LIFE-07)
///
/// ```swift
/// let io = try IOBroker()
/// let store = try HibernationStore(path: path, bytes: 1 << 30)
/// let memory = try HostMemory(scheduler: scheduler, configuration: configuration, store: store, io: io)
/// let host = try AppHost(scheduler: scheduler, memory: memory)
/// try await memory.serve(host)
/// let notes = await host.register(Manifest(identifier: "notes"), memory: memory) { app, memory in
///   Notes(memory)
/// }
/// ```
///
/// The store is written in the background band, and read in the foreground band concurrently: an app that is
/// reanimated waits for no hibernation. With an I/O broker its requests have the classes of these bands as
/// well.
///
/// `@unchecked Sendable`: its state is accessed on the host's strand only, where the host calls its brokers.
public final class HostMemory: ResourceBroker, @unchecked Sendable {
  /// The broker, for ledgers and pressure levels.
  public let broker: MemoryBroker
  let hibernation: Hibernation
  private let relay: Relay
  private let report: @Sendable (MemoryEvent) -> Void
  private let background: App
  fileprivate let foreground: App
  private let idleLimit: Duration?
  // The strand's.
  private var apps: [AppID: KeptApp] = [:]
  private var ids: [UInt32: AppID] = [:]
  private var heard = PressureLevel.normal

  /// Makes memory management with a hibernation store.
  ///
  /// - Parameters:
  ///   - scheduler: the host's.
  ///   - store: for this program only. Its contents from an earlier run are removed.
  ///   - io: performs the store's reads in the foreground class, and its writes in the background class. Pass
  ///     the broker of the apps' own I/O, so that foreground requests go first; a hibernation then takes 1.1
  ///     to 1.6 times as long. `nil`: system calls without a class, so hibernation competes for the disk with
  ///     the foreground app's reads.
  ///   - report: called for each event, on the host's strand: return soon.
  /// - Throws: `MemoryError`, `SchedulerError`, `IOError`.
  public convenience init(
    scheduler: Scheduler, configuration: MemoryConfiguration = MemoryConfiguration(),
    store: sending HibernationStore, io: IOBroker?,
    report: @escaping @Sendable (MemoryEvent) -> Void = { _ in }
  ) throws {
    try self.init(scheduler, configuration, kept: store, io, report)
  }

  /// Makes memory management without a store: apps that would be hibernated are terminated.
  ///
  /// Parameters and errors are those of ``init(scheduler:configuration:store:io:report:)``.
  public convenience init(
    scheduler: Scheduler, configuration: MemoryConfiguration = MemoryConfiguration(),
    report: @escaping @Sendable (MemoryEvent) -> Void = { _ in }
  ) throws {
    try self.init(scheduler, configuration, kept: nil, nil, report)
  }

  private init(
    _ scheduler: Scheduler, _ configuration: MemoryConfiguration, kept store: sending HibernationStore?,
    _ io: IOBroker?, _ report: @escaping @Sendable (MemoryEvent) -> Void
  ) throws {
    let relay = Relay()
    broker = try MemoryBroker(configuration: configuration, remove: { relay.pass($0) })
    background = try scheduler.makeApp(named: "hibernation", band: .background)
    foreground = try scheduler.makeApp(named: "reanimation", band: .foreground)
    var keeper: StoreKeeper?
    if let store {
      if let io {
        store.carry(
          by: BrokeredAccess(writer: try io.makeIO(for: background), reader: try io.makeIO(for: foreground)))
      }
      keeper = StoreKeeper(store, try background.makeStrand(named: "hibernation"))
    }
    hibernation = Hibernation(
      keeper, TimedCalls(scheduler: scheduler, place: foreground), foreground: foreground,
      background: background, relay, report)
    idleLimit = configuration.removal.idleLimit
    self.relay = relay
    self.report = report
  }

  /// Begins to serve a host: empties the store, follows memory pressure, and carries out removals, including
  /// those that were requested before. Call it once, with the host that has this memory. It ends with either
  /// of them.
  ///
  /// - Throws: `StoreError` where the store cannot be written, `MemoryError` where the kernel refuses a
  ///   thread.
  public func serve(_ host: AppHost) async throws {
    try await hibernation.clear()
    relay.connect(host, self)
    for await removal in relay.early { await carryOut(removal, on: host) }
    let levels = try broker.levels()
    Task(executorPreference: foreground.executor) { [relay] in
      for await level in levels {
        guard let (host, memory) = relay.ends else { return }
        await memory.hear(level, on: host)
      }
    }
  }

  /// Registers the memory of an app that the host knows; called on the host's strand.
  @discardableResult
  fileprivate func keep(_ memory: AppMemory, of app: AppID) -> KeptApp {
    let kept = KeptApp(app, memory)
    apps[app] = kept
    ids[memory.number] = app
    return kept
  }

  // MARK: Called by the host

  package func begins(_ app: HostedApp) {
    let kept =
      apps[app.id] ?? keep(broker.makeMemory(named: app.manifest.identifier, standing: .gone), of: app.id)
    kept.memory.setStanding(.inactive)
  }

  package func has(_ delegate: any AppDelegate, _ app: HostedApp) { apps[app.id]?.delegate = delegate }

  package func stands(_ app: AppID, _ snapshot: AppSnapshot) {
    guard let kept = apps[app] else { return }
    switch snapshot.state {
    case .stopping, .suspended, .hibernated: break
    case .active, .inactive, .background, .terminated, .notRunning:
      (kept.isOptional, kept.stays, kept.isSpared) = (false, false, false)
    }
    kept.memory.setStanding(kept.stays ? .suspended : AppStanding(snapshot))
    let hibernates = kept.hibernatesWhenSuspended
    if snapshot.state != .stopping { kept.hibernatesWhenSuspended = false }
    switch snapshot.state {
    case .suspended:
      if hibernates { later { try? $1.post(.app(app, .hibernate)) } }
      guard let idleLimit else { return }
      Task(executorPreference: background.executor) { [broker, clock = background.clock] in
        try? await clock.sleep(for: idleLimit)
        broker.removeOverdue()
      }
    case .notRunning:
      kept.memory.takeBack()  // including what its last slices had in use
      kept.memory.finishReturning()
    case .active, .inactive, .background, .stopping, .hibernated, .terminated: break
    }
  }

  package func takeBack(_ app: AppID) {
    guard let kept = apps[app] else { return }
    hibernation.drop(kept)
    kept.delegate = nil
    kept.image = nil
    kept.memory.takeBack()
  }

  package func save(_ app: AppID) {
    if let kept = apps[app] { hibernation.save(kept) }
  }

  package func restore(_ app: AppID) -> Task<Bool, Never>? { apps[app].flatMap { hibernation.restore($0) } }

  // MARK: Images for the switcher (R-LIFE-20)

  package func keepImage(_ image: [UInt8]?, of app: AppID) -> Bool {
    guard let kept = apps[app] else { return false }
    kept.image = image.flatMap { try? KeptImage($0, of: kept.memory) }
    return image == nil || kept.image != nil
  }

  package func image(of app: AppID) -> [UInt8]? { apps[app]?.image?.bytes }

  /// Of apps that can take theirs again at their next suspension: kept here, or by the host.
  private func purgeImagesInMemory(on host: isolated AppHost) {
    for (app, kept) in apps where host.state(of: app)?.isInMemory == true { kept.image?.purge() }
    host.purgeOwnSnapshots(in: \.isInMemory)
  }

  package func purgeImages() { for kept in apps.values { kept.image?.purge() } }

  // MARK: Called by the broker

  /// Tells the apps that can act on it. When pressure rises, drops images that can be taken again. At the
  /// critical level, drops those of apps that are away as well. (R-MEM-01, R-LIFE-20)
  func hear(_ level: PressureLevel, on host: isolated AppHost) {
    report(.level(level))
    let isRising = level > heard
    heard = level
    guard level > .normal else { return }
    if isRising {
      if level == .critical { host.purgeSnapshots() } else { purgeImagesInMemory(on: host) }
    }
    for app in apps.keys.sorted() where host.state(of: app)?.mayExecute == true {
      try? host.post(.app(app, .memoryWarning))
    }
  }

  func carryOut(_ removal: Removal, on host: isolated AppHost) {
    guard let app = ids[removal.app], let kept = apps[app], let state = host.state(of: app) else { return }
    let canHibernate = hibernation.canHibernate(kept)
    // The app was chosen a moment ago. Its standing may have risen since, or it may have been launched again.
    let isAsChosen = removal.rises.map { $0 == kept.memory.rises } ?? !kept.memory.standing.isForeground
    let isThere = state == .suspended || state == .stopping || kept.stays
    guard state != .active, isAsChosen, removal.method == .terminate || isThere,
      !kept.stays || !removal.isOptional
    else { return kept.memory.setStanding(kept.memory.standing) }
    guard canHibernate || removal.method == .terminate || !removal.isOptional else {
      // Once for each suspension: it is asked for again as others become idle.
      if !kept.isSpared {
        report(.notStored(app, name: kept.memory.name, hibernation.whyNotHibernated(kept)))
      }
      kept.isSpared = true
      return kept.memory.setStanding(kept.memory.standing)
    }
    report(.removal(app, removal))
    guard removal.method == .hibernate else {
      try? host.post(.app(app, .terminate))
      return
    }
    guard canHibernate else {
      report(.notStored(app, name: kept.memory.name, hibernation.whyNotHibernated(kept)))
      try? host.post(.app(app, .terminate))
      return
    }
    guard !kept.stays else { return hibernation.saveAnew(kept) }
    kept.isOptional = removal.isOptional
    if state == .suspended {
      try? host.post(.app(app, .hibernate))
    } else {
      kept.hibernatesWhenSuspended = true
    }
  }

  /// After the effects that are being carried out.
  private func later(_ body: @escaping @Sendable (HostMemory, isolated AppHost) -> Void) {
    Task(executorPreference: foreground.executor) { [relay] in
      guard let (host, memory) = relay.ends else { return }
      await body(memory, host)
    }
  }
}

/// From the broker's threads and from tasks to the host and its memory. It keeps neither: the three name each
/// other, since the host calls its memory, the memory posts to its host, and both end when the program lets
/// go of them.
final class Relay: Sendable {
  final class Ends: Sendable {
    private struct Weak: @unchecked Sendable {  // written once, before it is shared
      weak var host: AppHost?
      weak var memory: HostMemory?
    }
    private let weak: Weak
    init(_ host: AppHost, _ memory: HostMemory) { weak = Weak(host: host, memory: memory) }
    var both: (AppHost, HostMemory)? {
      guard let host = weak.host, let memory = weak.memory else { return nil }
      return (host, memory)
    }
  }
  private let kept = AtomicLazyReference<Ends>()
  /// Removals that were requested before the host was set. The stream ends then.
  let early: AsyncStream<Removal>
  private let earlier: AsyncStream<Removal>.Continuation

  init() { (early, earlier) = AsyncStream.makeStream() }

  func connect(_ host: AppHost, _ memory: HostMemory) {
    _ = kept.storeIfNil(Ends(host, memory))
    earlier.finish()
  }

  var ends: (AppHost, HostMemory)? { kept.load()?.both }

  func pass(_ removal: Removal) {
    // Stored, unless the host was set meanwhile: each app is requested once.
    if kept.load() == nil, case .enqueued = earlier.yield(removal) { return }
    guard let (host, memory) = ends else { return }
    Task(executorPreference: memory.foreground.executor) { await memory.carryOut(removal, on: host) }
  }
}

extension AppHost {
  /// Registers an app whose memory is managed. Each launch makes a delegate, which receives the app's memory.
  public func register(
    _ manifest: Manifest, settings: UserSettings = UserSettings(), memory: HostMemory,
    delegate: @escaping @Sendable (HostedApp, AppMemory) -> any AppDelegate
  ) -> AppID {
    let own = memory.broker.makeMemory(named: manifest.identifier, standing: .gone)
    let id = register(manifest, settings: settings) { app in delegate(app, own) }
    memory.keep(own, of: id)
    return id
  }
}

extension AppStanding {
  /// The standing of an app in a lifecycle state. (R-MEM-11, R-MEM-12)
  package init(_ snapshot: AppSnapshot) {
    self =
      switch snapshot.state {
      case .active: .active
      case .inactive: .inactive
      case .background where snapshot.audio != nil: .audio
      case .background where snapshot.isTracking: .tracking
      case .background: .background
      case .stopping, .suspended: .suspended
      case .hibernated, .terminated, .notRunning: .gone
      }
  }
}
