internal import COpportune
internal import COpportuneRuntime
import Dispatch
import Logging
import Synchronization

/// The scheduler itself: the run queue, the pools with their workers, the monitor.
///
/// `Scheduler` is the public handle. Apps, workers and the monitor retain the engine, so it lives until the
/// last of them has ended.
///
/// The engine and its monitor refer to each other: workers report to the monitor through the engine, and the
/// monitor starts workers with it. The monitor releases the engine once all workers have ended.
final class Engine: @unchecked Sendable {
  enum Phase: UInt8, AtomicRepresentable {
    case running
    /// New closures are refused; queued jobs still run.
    case draining
    /// Nothing can be queued any more.
    case closed
  }

  let configuration: SchedulerConfiguration
  let logger: Logger
  let core: OpaquePointer
  let pools: [PoolState]
  let accounts: DemotionAccounts
  let deviceShare = DeviceShare()
  let topology: Topology
  let privileges: KernelPrivileges
  let knowsJobLayout: Bool
  /// A placeholder app without jobs: the initial value of a worker's `opp_taken`.
  let nowhere: OpaquePointer
  let fallbackExecutor: UnownedTaskExecutor
  let monitor: Monitor
  /// nil where the foreground's class is the normal one.
  let realTime: RealTimeForeground?

  private let poolOfLevel: [PoolState?]
  private let poolPriority: [KernelPriority]
  private let ranks: [UInt8]
  private let numbers = Atomic<UInt64>(1)
  private let phase = Atomic<Phase>(.running)
  private let currentWidth: Atomic<Int>
  private let escapes = Atomic<UInt64>(0)
  /// How long foreground work waits for a suspended app before the scheduler logs a warning, in nanoseconds.
  let waitWarningDelay: UInt64
  let startThread: ThreadStarter
  private let readTopology: () -> Topology
  /// Reads the limits on the number of threads; see ``ThreadLimits``.
  let readThreadLimits: () -> ThreadLimits
  /// `opp_thread_meter_is_blocked()`; a test substitutes waits that only a kernel in trouble shows.
  let isBlocked: (OpaquePointer) -> Int32

  init(
    _ configuration: SchedulerConfiguration, _ logger: Logger,
    startThread: @escaping ThreadStarter = { opp_thread_start($0, $1, $2, $3) },
    readTopology: @escaping () -> Topology = { Topology() },
    readThreadLimits: @escaping () -> ThreadLimits = { ThreadLimits.read() },
    isBlocked: @escaping (OpaquePointer) -> Int32 = { opp_thread_meter_is_blocked($0) },
    privileges: KernelPrivileges = .probe(),
    waitWarningDelay: UInt64 = 1_000_000_000
  ) throws(SchedulerError) {
    self.configuration = configuration
    self.logger = logger
    self.startThread = startThread
    self.readTopology = readTopology
    self.readThreadLimits = readThreadLimits
    self.isBlocked = isBlocked
    self.waitWarningDelay = waitWarningDelay
    topology = readTopology()
    self.privileges = privileges
    knowsJobLayout = RuntimeProbe.knowsJobLayout
    fallbackExecutor = globalConcurrentExecutor.asUnownedTaskExecutor()
    let width = Self.width(configuration, topology)
    currentWidth = Atomic(width)

    let bands = configuration.bands
    accounts = try DemotionAccounts(configuration)
    monitor = try Monitor()
    realTime = RealTimeForeground(configuration.foregroundClass)
    if let realTime { monitor.classQuantum = realTime.policy.quantum }
    var pools: [PoolState] = []
    for pool in configuration.pools.sorted(by: { $0.rawValue > $1.rawValue }) {
      pools.append(try PoolState(pool: pool, width: width, configuration: configuration))
    }
    self.pools = pools
    poolOfLevel = (0..<Level.count).map { level in pools.first { $0.mask & 1 << UInt64(level) != 0 } }
    ranks = RankTable.make(bands)
    poolPriority = WorkerPool.allCases.map { Self.priority(of: $0, configuration, privileges) }

    var config = opp_core_config()
    // Each app has a second `opp_app` for jobs of default actors, see AppCore; one more is `nowhere`.
    config.max_apps = UInt32(min(2 * configuration.maximumApps + 1, Int(OPP_MAX_APPS)))
    withUnsafeMutableBytes(of: &config.level_of) { table in
      for band in Band.allCases {
        let levels = bands.levelTable(for: band)
        for rank in 0..<Level.count { table[Int(band.rawValue) * Level.count + rank] = levels[rank] }
      }
    }
    // The monitor outlives all users of the core.
    config.context = Unmanaged.passUnretained(monitor).toOpaque()
    config.on_ready = { context, level in Monitor.from(context)?.post(.ready(level: level)) }
    config.on_quiet = { context, _ in Monitor.from(context)?.post(.checkWaiters) }
    config.on_leave = { _, place in Worker.leaves(place) }
    var created: OpaquePointer?
    guard opp_core_create(&config, &created) == 0, let core = created,
      let nowhere = opp_app_create(core, 0, true)
    else { throw SchedulerError(.outOfMemory, "no memory for the run queue") }
    self.core = core
    self.nowhere = nowhere
    for pool in pools { monitor.serve(pool, core) }
    try monitor.start(self)
  }

  deinit {
    opp_core_destroy(core, { job, _ in JobEntry(job).abandon() }, nil)
  }

  // MARK: Width

  private static func width(_ configuration: SchedulerConfiguration, _ topology: Topology) -> Int {
    switch configuration.workers {
    case .automatic: topology.width
    case .fixed(let count): count
    }
  }

  /// The number of workers that run at once in each pool.
  var width: Int { currentWidth.load(ordering: .relaxed) }

  /// Reads anew which CPUs are usable: affinity, hotplug and quota change. The monitor's thread only.
  func readLimits() {
    guard case .automatic = configuration.workers else { return }
    let now = Self.width(configuration, readTopology())
    guard now != width else { return }
    log(.info, "usable CPUs changed", ["from": "\(width)", "to": "\(now)"])
    setWidth(now)
  }

  /// Sets the number of run tokens. At a smaller width, surplus workers park after their current job. At a
  /// larger one, workers are woken up to the new width if anything waits.
  func setWidth(_ new: Int) {
    currentWidth.store(new, ordering: .relaxed)
    for pool in pools { resize(pool) }
  }

  /// Called after a change of the width, or of the number of workers that the pool can have.
  func resize(_ pool: PoolState) {
    let old = Int(opp_pool_tokens(pool.raw))
    pool.setWidth(width, configuration)
    // At least one wake-up: the change may let more demoted jobs begin.
    for _ in 0..<max(1, Int(opp_pool_tokens(pool.raw)) - old) where opp_has_ready(core, pool.takeable) {
      wake(pool)
    }
  }

  /// Logs from the monitor's thread. The program's log handler must not run at the monitor's kernel priority,
  /// so it runs as a foreground job of an app of its own. libdispatch is only the fallback: where the kernel
  /// refuses it a thread, it blocks the caller for seconds.
  func log(_ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata) {
    let say: @Sendable () -> Void = { [logger] in logger.log(level: level, message, metadata: metadata) }
    do throws(SchedulerError) {
      try AppCore(engine: self, name: configuration.name, band: .foreground).submit(
        .medium, say, cancelled: say)
    } catch {
      DispatchQueue.global().async(execute: say)  // all apps' places are taken, or it is shut down
    }
  }

  // MARK: Phase

  // Inlined: a call would retain and release the engine, whose count is shared by all threads.
  @inline(__always) var isOpen: Bool { phase.load(ordering: .relaxed) != .closed }
  var isDraining: Bool { phase.load(ordering: .sequentiallyConsistent) == .draining }
  var isClosed: Bool { phase.load(ordering: .sequentiallyConsistent) == .closed }

  func checkAccepts() throws(SchedulerError) {
    if phase.load(ordering: .relaxed) != .running {
      throw SchedulerError(.shutDown, "scheduler \"\(configuration.name)\" is shut down, or shutting down")
    }
  }

  /// What a submission needs of the calling thread: its producer, and its worker if it is one.
  @inline(__always) func submitter(to app: OpaquePointer) throws(SchedulerError) -> (
    here: opp_here, producer: OpaquePointer, worker: Worker?
  ) {
    guard phase.load(ordering: .relaxed) == .running else { throw refusal(0) }
    let here = opp_thread_here(core, app)
    guard let producer = here.producer else { throw refusal(here.error) }
    return (here, producer, Worker.of(here.worker, engine: self))
  }

  /// Like `submitter(to:)`, for jobs of executors, which are accepted until the engine is closed. Returns nil
  /// where they cannot be queued.
  @inline(__always) func enqueuer(to app: OpaquePointer) -> (
    here: opp_here, producer: OpaquePointer, worker: Worker?
  )? {
    guard isOpen else { return nil }
    let here = opp_thread_here(core, app)
    guard let producer = here.producer else { return nil }
    return (here, producer, Worker.of(here.worker, engine: self))
  }

  @inline(never) private func refusal(_ error: Int32) -> SchedulerError {
    do throws(SchedulerError) { try checkAccepts() } catch { return error }
    return error == -OPP_ESHUTDOWN
      ? SchedulerError(
        .threadEnding, "the calling thread is ending; submit before its thread-local storage goes")
      : SchedulerError(.outOfMemory, "no memory to register the calling thread")
  }

  /// Moves from running to draining. Returns false if that was done before.
  func beginDraining() -> Bool {
    phase.compareExchange(expected: .running, desired: .draining, ordering: .sequentiallyConsistent).exchanged
  }

  func close() {
    phase.store(.closed, ordering: .sequentiallyConsistent)
    for pool in pools { opp_pool_close(pool.raw) }
    DescriptorReadiness(of: self)?.close()
    dropIfClosed()
  }

  /// Drains the queues if the engine is closed. seqCst: a thread that pushes an entry reads the phase
  /// afterwards. Either the drain by close() sees the entry, or the pushing thread sees `closed` and drains
  /// itself.
  func dropIfClosed() {
    if isClosed { opp_core_drain(core, { job, _ in JobEntry(job).abandon() }, nil) }
  }

  // MARK: Queueing

  func nextNumber() -> UInt64 { numbers.add(1, ordering: .relaxed).newValue }

  /// The calling thread's producer; nil where it has none.
  func producer(_ worker: Worker?) -> OpaquePointer? {
    if let worker { return worker.producer }
    var error: Int32 = 0
    return opp_thread_producer(core, 0, &error)
  }

  /// Sends a task's job that cannot be queued here to the global pool, where it would run without a
  /// scheduler.
  func escape(_ job: UnownedJob, _ app: AppCore) {
    app.statistics.add(.escapes, 1, in: app.band)
    noteEscape()
    globalConcurrentExecutor.enqueue(job)
  }

  func noteEscape() { escapes.add(1, ordering: .relaxed) }
  var escapeCount: UInt64 { escapes.load(ordering: .relaxed) }

  func pool(ofLevel level: Int) -> PoolState? { poolOfLevel[level] }

  /// The pool that serves fresh work of `band`.
  func pool(of band: Band) -> PoolState? {
    poolOfLevel[Int(configuration.bands.level(band: band, rank: 0).rawValue)]
  }

  /// Called after something was queued for `pool`: wakes a worker if a run token is free, or has the pool
  /// watched.
  func wake(_ pool: PoolState) { carryOut(opp_pool_wake(pool.raw), in: pool) }

  /// Called after a run token of the pool has come free: wakes a worker if something waits.
  func wakeIfReady(_ pool: PoolState) { carryOut(opp_pool_wake_if_ready(pool.raw), in: pool) }

  /// Carries out what the core returns from a wake-up: start a worker, or nothing.
  @inline(__always) func carryOut(_ wake: opp_wake, in pool: PoolState) {
    if wake == .OPP_WAKE_START { startWorker(pool) }
  }

  // A separate function, so that submitters need no stack space for a message.
  @inline(never) private func startWorker(_ pool: PoolState) { monitor.post(.spawn(pool)) }

  /// The run tokens of the pool, where there are threads enough.
  func runTokens(of pool: PoolState) -> Int { configuration.runTokens(of: pool.pool, width: width) }

  /// Whether a worker should end: more are parked than the pool can need at once, or the pool has more than
  /// its share.
  func isSurplus(_ pool: PoolState) -> Bool {
    opp_pool_sleeping(pool.raw) > runTokens(of: pool) + width * configuration.demotedLimitPerCore
      || pool.takeSurplus()
  }

  // MARK: Ranks and kernel priorities

  /// The rank of work of this base that was lowered `depth` times.
  func rank(_ base: BasePriority, band: Band, depth: Int) -> UInt8 {
    ranks[RankTable.index(band, base, depth)]
  }

  private static func priority(
    of pool: WorkerPool, _ configuration: SchedulerConfiguration, _ privileges: KernelPrivileges
  ) -> KernelPriority {
    let bands = configuration.bands
    let level: Level =
      switch pool {
      case .background: bands.background.upperBound
      case .foreground: bands.foreground.upperBound
      case .realTime: bands.realTime.upperBound
      }
    return KernelPriority(
      worker: pool, level: level, depth: 0, bands: bands, backgroundClass: configuration.backgroundClass,
      overlapClass: configuration.overlapClass, privileges: privileges
    ).above(configuration.foregroundClass)
  }

  /// The kernel priority of a worker of `pool` that runs fresh work or is parked.
  func priority(of pool: WorkerPool) -> KernelPriority { poolPriority[Int(pool.rawValue)] }

  func priority(of pool: WorkerPool, level: Level, depth: Int) -> KernelPriority {
    KernelPriority(
      worker: pool, level: level, depth: depth, bands: configuration.bands,
      backgroundClass: configuration.backgroundClass, overlapClass: configuration.overlapClass,
      privileges: privileges
    ).above(configuration.foregroundClass)
  }
}

extension KernelPriority {
  /// A worker's, in a scheduler with that class of its foreground. The class itself is entered by fresh
  /// foreground jobs alone, and is none of the priorities that the engine gives.
  fileprivate func above(_ foreground: ForegroundClass) -> KernelPriority {
    foreground == .normal ? self : aboveRealTimeForeground
  }
}

/// A lookup table of ranks by band, base and depth.
enum RankTable {
  static func make(_ bands: Bands) -> [UInt8] {
    let samples: [TaskPriority] = [TaskPriority(rawValue: 33), .high, .medium, .low, .background]
    var ranks: [UInt8] = []
    for band in Band.allCases {
      for priority in samples {
        let base = bands.initialRank(for: priority, band: band)
        for depth in 0..<Level.count { ranks.append(UInt8(bands.rank(base: base, depth: depth))) }
      }
    }
    return ranks
  }

  static func index(_ band: Band, _ base: BasePriority, _ depth: Int) -> Int {
    (Int(band.rawValue) * BasePriority.count + Int(base.index)) * Level.count + min(depth, Level.count - 1)
  }
}

extension JobEntry {
  /// The scheduler has ended: a closure is cancelled; a task's job and a strand continue in the global pool.
  func abandon() {
    switch kind {
    case .task: globalConcurrentExecutor.enqueue(unsafeBitCast(pointer, to: UnownedJob.self))
    case .closure: Unmanaged<Closure>.fromOpaque(pointer).takeRetainedValue().cancel()
    case .strand: Unmanaged<Strand>.fromOpaque(pointer).takeRetainedValue().runElsewhere()
    case .object: Unmanaged<QueuedObject>.fromOpaque(pointer).takeRetainedValue().abandon()
    }
  }
}
