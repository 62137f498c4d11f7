internal import COpportune
internal import COpportuneRuntime
import Dispatch
import Logging
import Synchronization

/// The scheduler itself: the run queue, the pools with their workers, the monitor. `Scheduler` is the handle
/// that users have; apps, workers and the monitor hold the engine, so it lives until the last of them is
/// done.
final class Engine: @unchecked Sendable {
  enum Phase: UInt8, AtomicRepresentable {
    case running
    /// Closures are refused; what is queued still runs.
    case draining
    /// Nothing is queued any more.
    case closed
  }

  let configuration: SchedulerConfiguration
  let logger: Logger
  let core: OpaquePointer
  let pools: [PoolState]
  let accounts: Accounts
  let topology: Topology
  let privileges: KernelPrivileges
  let knowsJobLayout: Bool
  /// An app that is never used: what an `opp_taken` is filled with before it is filled in.
  let nowhere: OpaquePointer
  let fallbackExecutor: UnownedTaskExecutor
  let monitor: Monitor

  private let poolOfLevel: [PoolState?]
  private let poolPriority: [KernelPriority]
  private let ranks: [UInt8]
  private let numbers = Atomic<UInt64>(1)
  private let phase = Atomic<Phase>(.running)
  private let currentWidth: Atomic<Int>
  private let escapes = Atomic<UInt64>(0)
  /// How many forks there had been when it was made.
  let forks: UInt32
  /// How long foreground work waits for a suspended app before that is said, in nanoseconds.
  let waitWarningDelay: UInt64
  let startThread: ThreadStarter
  private let readTopology: () -> Topology
  /// How many more threads the process may have, or nil; see ``ThreadLimits``.
  let readThreadLimits: () -> ThreadLimits
  /// As `opp_thread_meter_is_blocked()`; a test's tells of waits that take a kernel in trouble.
  let isBlocked: (OpaquePointer) -> Int32

  init(
    _ configuration: SchedulerConfiguration, _ logger: Logger,
    startThread: @escaping ThreadStarter = { opp_thread_start($0, $1, $2, $3) },
    readTopology: @escaping () -> Topology = { Topology() },
    readThreadLimits: @escaping () -> ThreadLimits = { ThreadLimits.read() },
    isBlocked: @escaping (OpaquePointer) -> Int32 = { opp_thread_meter_is_blocked($0) },
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
    privileges = KernelPrivileges.probe()
    knowsJobLayout = RuntimeProbe.knowsJobLayout
    forks = opp_fork_generation()
    fallbackExecutor = globalConcurrentExecutor.asUnownedTaskExecutor()
    let width = Self.width(configuration, topology)
    currentWidth = Atomic(width)

    let bands = configuration.bands
    accounts = try Accounts(configuration)
    monitor = try Monitor()
    var pools: [PoolState] = []
    for pool in configuration.pools.sorted(by: { $0.rawValue > $1.rawValue }) {
      pools.append(try PoolState(pool: pool, width: width, configuration: configuration))
    }
    self.pools = pools
    poolOfLevel = (0..<Level.count).map { level in pools.first { $0.mask & 1 << UInt64(level) != 0 } }
    ranks = RankTable.make(bands)
    let privileges = privileges
    poolPriority = WorkerPool.allCases.map { Self.priority(of: $0, configuration, privileges) }

    var config = opp_core_config()
    // Each has a place for what is donated to it too, see AppCore; and there is `nowhere`.
    config.max_apps = UInt32(min(2 * configuration.maximumApps + 1, Int(OPP_MAX_APPS)))
    config.stay = configuration.queuedJobs == .stay
    withUnsafeMutableBytes(of: &config.level_of) { table in
      for band in Band.allCases {
        let levels = bands.levelTable(for: band)
        for rank in 0..<Level.count { table[Int(band.rawValue) * Level.count + rank] = levels[rank] }
      }
    }
    // The monitor outlives the core's users.
    config.context = Unmanaged.passUnretained(monitor).toOpaque()
    config.on_ready = { context, level in Monitor.from(context)?.post(.ready(level: level)) }
    config.on_quiet = { context, _ in Monitor.from(context)?.post(.checkWaiters) }
    var created: OpaquePointer?
    guard opp_core_create(&config, &created) == 0, let core = created,
      let nowhere = opp_app_create(core, 0, true)
    else { throw SchedulerError(.outOfMemory, "no memory for the run queue") }
    self.core = core
    self.nowhere = nowhere
    for pool in pools { monitor.serve(pool, core) }
    try? refuse(inChild: true)
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

  /// Workers that run at once in each pool.
  var width: Int { currentWidth.load(ordering: .relaxed) }

  /// The monitor's: follows changed affinity, hotplug and quota.
  func followLimits() {
    guard case .automatic = configuration.workers else { return }
    let now = Self.width(configuration, readTopology())
    guard now != width else { return }
    log(.info, "usable CPUs changed", ["from": "\(width)", "to": "\(now)"])
    setWidth(now)
  }

  /// Workers above a smaller width sleep after the job that they are inside of; for a larger one, as many
  /// more are woken as there may be, if anything waits.
  func setWidth(_ new: Int) {
    currentWidth.store(new, ordering: .relaxed)
    for pool in pools { resize(pool) }
  }

  /// After a change of the width, or of what the pool can have of it.
  func resize(_ pool: PoolState) {
    let old = Int(opp_pool_tokens(pool.raw))
    pool.setWidth(width, configuration)
    // Where more demoted jobs may begin, one at least.
    for _ in 0..<max(1, Int(opp_pool_tokens(pool.raw)) - old) where opp_has_ready(core, pool.takeable) {
      wake(pool)
    }
  }

  /// For the monitor's thread: the program's log handler must not run in its class. It runs in the foreground
  /// as a job of nobody else's, since libdispatch, asked for a thread that the kernel refuses, keeps who
  /// asked for seconds.
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

  // Inlined: a call would keep the engine, which all threads share, by counting it up and down.
  @inline(__always) var isOpen: Bool { phase.load(ordering: .relaxed) != .closed }
  var isDraining: Bool { phase.load(ordering: .sequentiallyConsistent) == .draining }
  var isClosed: Bool { phase.load(ordering: .sequentiallyConsistent) == .closed }

  /// This is the child of a fork(): nobody is there to answer.
  @inline(__always) var isForked: Bool { forks != opp_fork_generation() }

  func checkFork() throws(SchedulerError) { try refuse(inChild: isForked) }

  /// Called once in the parent too, for what the runtime makes for a first refusal: it makes that under locks
  /// of its own, and the child would wait for ever for one that another thread had as it was made.
  @inline(never) private func refuse(inChild: Bool) throws(SchedulerError) {
    if inChild {
      throw SchedulerError(
        .forked, "scheduler \"\(configuration.name)\" was made before fork(); make a new one in the child")
    }
  }

  func checkAccepts() throws(SchedulerError) {
    try checkFork()
    if phase.load(ordering: .relaxed) != .running {
      throw SchedulerError(.shutDown, "scheduler \"\(configuration.name)\" is shut down, or shutting down")
    }
  }

  /// What a submission needs of its thread: its producer, and the worker that it is, if any.
  @inline(__always) func submitter(to app: OpaquePointer) throws(SchedulerError) -> (
    here: opp_here, producer: OpaquePointer, worker: Worker?
  ) {
    guard phase.load(ordering: .relaxed) == .running else { throw refusal(0) }
    let here = opp_thread_here(core, forks, app)
    guard let producer = here.producer else { throw refusal(here.error) }
    return (here, producer, Worker.of(here.worker, engine: self))
  }

  /// The same for jobs of executors, which are taken until it is closed; nil where they cannot be queued.
  @inline(__always) func enqueuer(to app: OpaquePointer) -> (
    here: opp_here, producer: OpaquePointer, worker: Worker?
  )? {
    guard isOpen else { return nil }
    let here = opp_thread_here(core, forks, app)
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

  /// From running to draining. False if it was called before.
  func beginDraining() -> Bool {
    phase.compareExchange(expected: .running, desired: .draining, ordering: .sequentiallyConsistent).exchanged
  }

  func close() {
    phase.store(.closed, ordering: .sequentiallyConsistent)
    for pool in pools { opp_pool_close(pool.raw) }
    dropIfClosed()
  }

  /// Whoever queues something looks at the phase again afterwards (seqCst, as the queue's tail is): either
  /// the closing drain sees the entry, or the pusher sees that it is closed and drains itself.
  func dropIfClosed() {
    if isClosed { opp_core_drain(core, { job, _ in JobEntry(job).abandon() }, nil) }
  }

  // MARK: Queueing

  func nextNumber() -> UInt64 { numbers.add(1, ordering: .relaxed).newValue }

  /// The calling thread's producer, or nil where it has none.
  func producer(_ worker: Worker?) -> OpaquePointer? {
    if let worker { return worker.producer }
    var error: Int32 = 0
    return opp_thread_producer(core, 0, &error)
  }

  /// A task's job that cannot be queued here goes where it would have gone without a scheduler.
  func escape(_ job: UnownedJob, _ app: AppCore) {
    app.statistics.add(.escapes, 1, in: app.band)
    noteEscape()
    // In the child of a fork() the global pool has no threads: the caller's is the only one there is.
    if isForked { return job.runSynchronously(on: fallbackExecutor) }
    globalConcurrentExecutor.enqueue(job)
  }

  func noteEscape() { escapes.add(1, ordering: .relaxed) }
  var escapeCount: UInt64 { escapes.load(ordering: .relaxed) }

  func pool(ofLevel level: Int) -> PoolState? { poolOfLevel[level] }

  /// That of the fresh work of a band.
  func pool(of band: Band) -> PoolState? {
    poolOfLevel[Int(configuration.bands.level(band: band, rank: 0).rawValue)]
  }

  /// Something was queued for `pool`: wakes a worker if one may work, or sees to it that the pool is watched.
  func wake(_ pool: PoolState) { follow(opp_pool_wake(pool.raw), in: pool) }

  /// A place in the pool has come free: wakes a worker for what waits.
  func wakeIfReady(_ pool: PoolState) { follow(opp_pool_wake_if_ready(pool.raw), in: pool) }

  /// What the core asks for after it has woken somebody, or nobody.
  @inline(__always) func follow(_ wake: opp_wake, in pool: PoolState) {
    if wake == .OPP_WAKE_START { startWorker(pool) }
  }

  // Apart, so that those who submit need no room for a message.
  @inline(never) private func startWorker(_ pool: PoolState) { monitor.post(.spawn(pool)) }

  /// Whether more workers sleep than the pool can need at once, or there are more than it may have.
  func isSurplus(_ pool: PoolState) -> Bool {
    opp_pool_sleeping(pool.raw) > width * (1 + configuration.demotedLimitPerCore) || pool.takeSurplus()
  }

  // MARK: Ranks and kernel priorities

  /// The rank of work of that base which was lowered `depth` times.
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
      privileges: privileges)
  }

  /// The priority of a worker of `pool` that runs fresh work, or sleeps.
  func priority(of pool: WorkerPool) -> KernelPriority { poolPriority[Int(pool.rawValue)] }

  func priority(of pool: WorkerPool, level: Level, depth: Int) -> KernelPriority {
    KernelPriority(
      worker: pool, level: level, depth: depth, bands: configuration.bands,
      backgroundClass: configuration.backgroundClass, privileges: privileges)
  }
}

/// Ranks by band, base and depth.
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
  /// The scheduler is gone: a closure is cancelled; a task's job and a strand go on in the global pool.
  func abandon() {
    switch kind {
    case .task: globalConcurrentExecutor.enqueue(unsafeBitCast(pointer, to: UnownedJob.self))
    case .closure: Unmanaged<Closure>.fromOpaque(pointer).takeRetainedValue().cancel()
    case .strand: Unmanaged<Strand>.fromOpaque(pointer).takeRetainedValue().runElsewhere()
    case .object: Unmanaged<QueuedObject>.fromOpaque(pointer).takeRetainedValue().abandon()
    }
  }
}
