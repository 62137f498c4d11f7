internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// A thread of a pool: runs jobs, keeps its kernel priority, and accounts for what they use. When it may take
/// which, parks and is woken, is the C core's: see worker.c.
///
/// What others read of it (the monitor, and `App.setBand`) is in `report`, published under a sequence number:
/// odd while it is inside a job.
final class Worker: @unchecked Sendable {
  let engine: Engine
  let pool: PoolState
  let slot: UInt32
  let report = WorkerReport()

  /// Its slot in the C core, which stays where it is.
  let raw: OpaquePointer

  /// Whether it runs a job on trial, which counts among its pool's; who sets it back takes it from there.
  private let trial = Atomic<Bool>(false)

  // Guarded by being the thread's own.
  private var consumer: OpaquePointer?
  private(set) var producer: OpaquePointer?
  // No access to either encloses another, and asking the runtime about it costs each slice some 30 ns.
  @exclusivity(unchecked) private var usage = SliceUsage()
  @exclusivity(unchecked) private var batch = StatisticsBatch()
  private var applied: KernelPriority
  /// The pool's, and whether the thread has another.
  private let own: KernelPriority
  private var isLowered = false
  /// The demotion with which the running job began.
  private var depthAtBegin = 0
  /// When the last job ended, if the next is taken right after it: a clock reading saved.
  private var lastEnd: UInt64?
  private(set) var identity: UInt64 = 0
  private(set) var app: AppCore?
  private var isClosure = false
  private var hasAccount = false
  /// With which the running slice's task is about to be suspended.
  private var sleep: SleepTimer?

  init(engine: Engine, pool: PoolState, slot: UInt32) {
    self.engine = engine
    self.pool = pool
    self.slot = slot
    raw = opp_pool_worker(pool.raw, slot)
    own = engine.priority(of: pool.pool)
    applied = own
  }

  /// The worker that the calling thread is, if it is one of `engine`.
  static func current(of engine: Engine) -> Worker? { of(opp_thread_worker(), engine: engine) }

  /// The same, of what `opp_thread_worker()` has returned.
  @inline(__always) static func of(_ pointer: UnsafeMutableRawPointer?, engine: Engine) -> Worker? {
    guard let pointer else { return nil }
    let worker = Unmanaged<Worker>.fromOpaque(pointer).takeUnretainedValue()
    return worker.engine === engine ? worker : nil
  }

  /// The demotion of the running job, which what it submits inherits.
  var depth: Int { report.depth }

  func isInside(_ app: AppCore) -> Bool { self.app === app }

  /// Whether the running slice's task has been suspended already, so that the slice is about to end: what it
  /// enqueues now it will find itself.
  var isLeaving: Bool { !isClosure && !opp_runtime_is_in_task() }

  /// The slice goes on after all: somebody is woken for what it has left behind for this worker. (R-CPU-01)
  func goesOn() { engine.follow(opp_worker_goes_on(raw), in: pool) }

  /// The running slice's task goes to sleep, unless it is another's: an actor's slice, or a strand's, goes on
  /// with others, and so does that of a task within which another was begun at once.
  func willSleep(_ timer: SleepTimer) {
    if Accounts.isTask(identity), opp_runtime_current_task_id() == identity { sleep = timer }
  }

  /// The sleep is over and its task runs: in this slice, if it never left it.
  func hasSlept(_ timer: SleepTimer) {
    if sleep === timer { sleep = nil }
  }

  /// What a task that leaves a default actor now has used there: an actor's slice has no identity, and is
  /// charged to nobody else.
  func cpuTimeOnActor(until now: UInt64) -> UInt64 {
    identity == 0 ? usage.part(until: now, meter: report.meter) : 0
  }

  // MARK: The thread

  /// The body of the thread.
  func run() {
    opp_thread_set_worker(Unmanaged.passUnretained(self).toOpaque())
    _ = opp_thread_set_timer_slack(1)
    applied.applyToNewThread()
    var error: Int32 = 0
    let node = engine.topology.currentNode
    producer = opp_thread_producer(engine.core, node, &error)
    if let producer {
      consumer = engine.topology.withDistances(from: node) { opp_consumer_create(engine.core, producer, $0) }
    }
    report.start(threadID: opp_thread_id(), meter: opp_thread_meter_create())
    usage.anchor(report.meter)
    if let consumer {
      opp_worker_begin(raw, consumer)
      loop()
    }
    batch.flush()
    if let consumer { opp_consumer_destroy(consumer) }
    opp_thread_set_worker(nil)
    engine.monitor.post(.ended(self))
  }

  private func loop() {
    var taken = opp_taken(
      job: opp_job(), app: engine.nowhere, context: nil, level: 0, rank: 0, band: 0, stolen: false)
    while true {
      switch opp_worker_next(raw, lastEnd ?? 0, isLowered, &taken) {
      case .OPP_NEXT_JOB:
        execute(taken)
      case .OPP_NEXT_PARK:
        if !park() { return }
      case .OPP_NEXT_RAISE:
        // Without privilege a thread that was lowered cannot be raised again: it ends, and the monitor starts
        // another.
        guard restore() else { return opp_worker_end(raw) }
      }
    }
  }

  /// Sleeps until there is something to do. False when the thread is to end.
  private func park() -> Bool {
    lastEnd = nil
    batch.flush()
    app = nil
    if engine.isSurplus(pool) { return false }
    // Its place was given back before (seqCst), and the monitor looks at that after the draining has begun.
    if engine.isDraining { engine.monitor.ring() }
    let parked = opp_worker_park(raw)
    usage.anchor(report.meter)
    switch parked {
    case .OPP_PARKED_WORKS: return true
    case .OPP_PARKED_ENDS: return false
    case .OPP_PARKED_SPARE:
      // It may have been woken to end.
      guard pool.takeSurplus() else { return true }
      opp_worker_end(raw)
      return false
    }
  }

  // MARK: One job

  private func execute(_ taken: opp_taken) {
    guard let context = taken.context else { return }
    // The job holds it, and this worker from begin() on.
    Unmanaged<AppCore>.fromOpaque(context)._withUnsafeGuaranteedRef { execute(taken, of: $0) }
  }

  @inline(__always) private func execute(_ taken: opp_taken, of app: AppCore) {
    let entry = JobEntry(taken.job)
    let identity = entry.identity
    let band = Band(rawValue: taken.band) ?? .background
    let queued = band == .background ? 0 : Bands.depth(rank: Int(taken.rank), base: entry.base)
    let account = engine.accounts.bits(of: identity)
    let depth = max(engine.accounts.depth(ofTaken: identity, account), queued)
    if depth > 0, queued == 0, band != .background, moveDown(entry, app, taken, depth: depth, band: band) {
      return
    }
    begin(entry, app, taken, identity, account, band, depth)
    switch entry.kind {
    case .task:
      let job = unsafeBitCast(entry.pointer, to: UnownedJob.self)
      job.runSynchronously(on: app.unownedExecutor)
    case .closure:
      run(Unmanaged<Closure>.fromOpaque(entry.pointer))
    case .strand:
      Unmanaged<Strand>.fromOpaque(entry.pointer).takeRetainedValue().run(on: self)
    case .object:
      Unmanaged<QueuedObject>.fromOpaque(entry.pointer).takeRetainedValue().run(on: self)
    }
    end(entry, taken)
  }

  /// Runs a closure, the app's own or a strand's: it is no task, and yet not about to end.
  func run(_ closure: Unmanaged<Closure>) {
    isClosure = true
    closure.takeRetainedValue().run()
    isClosure = false
  }

  /// A job that was queued before it was known for a hog goes to where it belongs, so that it neither goes
  /// before fresh work nor round the bound of demoted workers.
  @inline(never) private func moveDown(
    _ entry: JobEntry, _ app: AppCore, _ taken: opp_taken, depth: Int, band: Band
  ) -> Bool {
    guard let producer else { return false }
    let rank = engine.rank(entry.base, band: band, depth: depth)
    // The job may end elsewhere before this thread goes on.
    let held = Unmanaged.passRetained(app)
    defer { held.release() }
    return app.push(entry, to: taken.app, rank: rank, producer: producer, by: self)
  }

  private func begin(
    _ entry: JobEntry, _ app: AppCore, _ taken: opp_taken, _ identity: UInt64, _ account: UInt64,
    _ band: Band,
    _ depth: Int
  ) {
    let start = lastEnd ?? opp_now_ns()
    lastEnd = nil
    if self.app !== app || batch.band != band {
      batch.flush()
      self.app = app
      batch.count(for: app.statistics, in: band)
    }
    self.identity = identity
    depthAtBegin = depth
    hasAccount = engine.accounts.begin(identity, account, at: start)
    if let waited = entry.waited(until: start) { app.statistics.waited(microseconds: waited, in: band) }
    batch.began(stolen: taken.stolen)
    usage.began(at: start)
    // In the background pool demoted foreground work is one among equals.
    let isDemoted = depth > 0 && pool.demotedMask != 0
    if isDemoted { startDemoted(level: taken.level, depth: depth) } else if isLowered { _ = restore() }
    report.begin(
      identity: identity, app: taken.app, band: band, base: entry.base, rank: taken.rank, depth: depth,
      start: start, usage: usage)
    engine.monitor.armTick()
  }

  /// Fresh work keeps its tokens: demoted work runs beside them, at its own kernel priority. What is held
  /// back for its origin may be as short as fresh work is, and would wait for a CPU behind that origin's
  /// hogs: it is on trial first, at the pool's own, until the monitor has seen it use the CPU for as long as
  /// the spare worker's delay.
  private func startDemoted(level: UInt8, depth: Int) {
    engine.follow(opp_worker_to_demoted(raw, UInt32(depth)), in: pool)
    if depth == 1, engine.accounts.mayBeShort(identity), pool.beginTrial(most: engine.width) {
      // relaxed: the thread's own; the monitor takes it back only while it sees this job run.
      trial.store(true, ordering: .relaxed)
      opp_pool_watch(pool.raw)
      if isLowered { _ = restore() }
      return
    }
    let priority = engine.priority(of: pool.pool, level: Level(known: level), depth: depth)
    if priority != applied, priority.apply(to: 0) { isNow(priority) }
  }

  /// Whether the job runs at the pool's own kernel priority until it has shown what it is.
  var isOnTrial: Bool { trial.load(ordering: .relaxed) }

  /// The worker's at the job's end, or the monitor's when it has lowered the job. If that has ended just then
  /// and another is on trial already, that one is not counted: one more may begin.
  func endTrial() {
    // relaxed: one of the two takes it; nothing else depends on it.
    if trial.exchange(false, ordering: .relaxed) { pool.endTrial() }
  }

  private func end(_ entry: JobEntry, _ taken: opp_taken) {
    let time = opp_now_ns()
    lastEnd = time
    let (cpu, offCPU) = usage.ended(at: time, meter: report.meter)
    if let changed = report.end() { isNow(changed) }
    let depth = report.depth  // the monitor does not change it any more
    if isOnTrial { endTrial() }
    batch.ended(cpu: cpu)
    if depth > 0, cpu >= UInt64(engine.configuration.quantum.quantumNanoseconds) {
      opp_pool_take_room(pool.raw)
    }
    // A task that sleeps was idle from then on, though this thread may have been kept off the CPU since.
    let sleep = self.sleep.take()
    let idleFrom = sleep?.began ?? time
    let band = Band(rawValue: taken.band) ?? .background
    if usage.shouldCharge {
      let base = Int(engine.rank(entry.base, band: band, depth: 0))
      engine.accounts.charge(
        identity, cpu: usage.charge, offCPU: offCPU, at: idleFrom, from: depthAtBegin, to: depth, base: base,
        band: band, statistics: app?.statistics)
    } else {
      engine.accounts.endedSoon(identity, at: hasAccount ? idleFrom : nil)
    }
    // It is queued again already, and nobody could know then what the slice had used.
    if let sleep, sleep.hasFired.load(ordering: .relaxed) {
      engine.accounts.hasBeenIdle(
        identity, for: sleep.deadline.saturatingSubtract(sleep.began), band: band, statistics: app?.statistics
      )
    }
    if opp_worker_job_ended(raw) { report.addOrdinary(cpu: cpu) }
  }

  // MARK: Kernel priority

  private func isNow(_ priority: KernelPriority) {
    applied = priority
    isLowered = priority != own
  }

  /// Back to the pool's own priority. False where the kernel refuses.
  private func restore() -> Bool {
    guard isLowered else { return true }
    guard own.apply(to: 0) else { return false }
    isNow(own)
    return true
  }

  // MARK: The monitor's

  /// Once it has ended: false where memory was too short for it to begin.
  var hasWorked: Bool { consumer != nil }

  var standing: opp_slot { opp_worker_slot(raw) }

  /// Whether another works in its place.
  var isHandedOff: Bool { standing == .OPP_SLOT_HANDED_OFF || standing == .OPP_SLOT_SUNK }

  /// nil while it may have a job in hand, begun or not; else a number that is another once it may have had
  /// one again.
  var idleTurn: UInt64? {
    let turn = opp_worker_idle_turn(raw)
    return turn == 0 ? nil : turn
  }
}
