internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// An app as the scheduler sees it: its queues in the C core and its counters. `App` is the public handle.
///
/// Each app has two `opp_app`s in the C core. `raw` holds its own jobs. `runner` holds jobs of default actors
/// and is never suspended: such a job processes the messages of every user of the actor, and a suspended app
/// must not block those users.
final class AppCore: @unchecked Sendable {
  let engine: Engine
  let name: String
  let number: UInt64
  let statistics: StatisticsBlock
  let record: AppRecord
  let observers = AppObservers()
  // Both are accessed through the C core only, which is thread-safe.
  let raw: OpaquePointer
  let runner: OpaquePointer
  /// Queues of this app's strands that have a ceiling. Created on first use.
  private let foregroundQueue = AtomicLazyReference<AppCore>()
  private let realTimeQueue = AtomicLazyReference<AppCore>()
  /// Incremented by each pass of `moveRunner()`; orders concurrent passes.
  private let moves = Atomic<UInt64>(0)
  /// Set once, by the executor's initialiser, before the first enqueue.
  private(set) nonisolated(unsafe) var unownedExecutor: UnownedTaskExecutor

  /// - Parameter shared: where what runs here is counted; nil makes counters of its own.
  init(
    engine: Engine, name: String, band: Band, countingIn shared: StatisticsBlock? = nil
  ) throws(SchedulerError) {
    let full = SchedulerError(
      .tooManyApps,
      "no app \"\(name)\": the scheduler holds \(engine.configuration.maximumApps) apps, its maximumApps, or memory is short"
    )
    let statistics =
      if let shared { shared } else {
        try StatisticsBlock(isCollecting: engine.configuration.collectsStatistics)
      }
    guard let raw = opp_app_create(engine.core, band.rawValue, false) else { throw full }
    guard let runner = opp_app_create(engine.core, band.rawValue, false) else {
      opp_app_destroy(raw)
      throw full
    }
    self.engine = engine
    self.name = name
    self.statistics = statistics
    self.raw = raw
    self.runner = runner
    number = engine.nextNumber()
    record = AppRecord(name: name, number: number, raw: raw, runner: runner, statistics: statistics)
    unownedExecutor = engine.fallbackExecutor
    let context = Unmanaged.passUnretained(self).toOpaque()
    opp_app_set_context(raw, context)
    opp_app_set_context(runner, context)
  }

  // Every queued job retains its app, so both queues are empty here.
  deinit {
    record.retire()
    opp_app_destroy(raw)
    opp_app_destroy(runner)
  }

  func bind(_ executor: UnownedTaskExecutor) { unownedExecutor = executor }

  var state: opp_app_state { opp_app_state_read(raw) }
  var band: Band { Band(rawValue: state.band) ?? .background }

  /// A second queue of this app, fixed to `band`, for work that must not be done below it. It is never
  /// suspended itself, so a worker that takes from it must check whether the app is. nil for background: no
  /// band is lower.
  func queue(fixedTo band: Band) throws(SchedulerError) -> AppCore? {
    try engine.requirePool(for: band)
    switch band {
    case .background: return nil
    case .foreground: return try core(in: foregroundQueue, at: band)
    case .realTime: return try core(in: realTimeQueue, at: band)
    }
  }

  private func core(in known: borrowing AtomicLazyReference<AppCore>, at band: Band) throws(SchedulerError)
    -> AppCore
  {
    if let core = known.load() { return core }
    return known.storeIfNil(
      try AppCore(engine: engine, name: name, band: band, countingIn: statistics))
  }

  // MARK: Queueing

  /// Queues a job of the app's executor. Never refuses: a job that cannot be queued goes to the global pool
  /// and is counted as an escape.
  ///
  /// - Parameter tree: the job's task tree, where the task may be donated a higher band.
  func enqueue(_ job: UnownedJob, of tree: TaskTree? = nil) {
    if !tryEnqueue(job, of: tree) { engine.escape(job, self) }
  }

  /// Like `enqueue(_:of:)`, but returns false if the job cannot be queued; the caller then still owns the
  /// job.
  func tryEnqueue(_ job: UnownedJob, of tree: TaskTree? = nil) -> Bool {
    let pointer = unsafeBitCast(job, to: UnsafeMutableRawPointer.self)
    let kind = Int32(opp_runtime_job_kind(pointer))
    guard let (here, producer, worker) = engine.enqueuer(to: raw) else { return false }
    let isTask = kind == OPP_RUNTIME_JOB_TASK || !engine.knowsJobLayout
    let identity = isTask ? opp_runtime_task_id(pointer) : 0
    let isActor =
      engine.knowsJobLayout && kind >= OPP_RUNTIME_JOB_ACTOR_FIRST && kind <= OPP_RUNTIME_JOB_ACTOR_LAST
    // A continuation after a yield, and a job that a task leaves behind as it suspends, are taken next by
    // this same worker.
    // What a worker harvests between two jobs has nothing to do with them, but is taken next as well.
    let isHarvested = worker?.harvests ?? false
    let isOwn = worker.map { !isHarvested && (kind == OPP_RUNTIME_JOB_CONTINUATION || $0.isLeaving) } ?? false
    let taker = isOwn || isHarvested ? worker : nil
    let priority = engine.knowsJobLayout ? opp_runtime_job_priority(pointer) : job.priority.rawValue
    let (band, base) = (Band(rawValue: here.band) ?? .background, BasePriority(priority))
    if isOwn, identity != 0, let worker, worker.identity == 0 {
      chargeForActor(identity, band, base: engine.rank(base, band: band, depth: 0), worker)
    }
    // Jobs of actors and continuations have no identity. They start at the depth of the slice that queues
    // them.
    let depth = engine.accounts.depth(
      ofQueued: identity, submitter: isHarvested ? nil : worker, movesOn: isOwn,
      origin: worker == nil ? DemotionAccounts.origin(here.number, in: self) : nil, app: self)
    let rank = engine.rank(base, band: band, depth: depth)
    let stamp = statistics.stamp(here)
    let queue = isActor ? runner : raw
    guard let tree else {
      if isTask, isOwn, state.suspended, let waiter = worker?.app, waiter !== self, identity != 0,
        identity == worker?.identity
      {
        // The task ran in another app and has hopped to this one. It continues once this app is resumed.
        let awaited = AwaitedJob(job, of: self, identity: identity, base: base)
        beginWait(of: waiter)
        if awaited.push(to: self, queue, band, rank: rank, producer: producer, stamp: stamp, by: worker) {
          return true
        }
        record.endWait()
        return false
      }
      let entry = JobEntry(.task, pointer, base: base, queuedAt: stamp)
      return push(entry, to: queue, band, rank: rank, producer: producer, by: taker)
    }
    let promotable = PromotableJob(job, of: tree, identity: identity, base: base, rank: rank)
    if !isActor {
      tree.willQueue(promotable)
      tree.forEachDonor { donor in
        let donorBand = donor.band
        let rank = engine.rank(base, band: donorBand, depth: depth)
        _ = promotable.push(
          to: donor, donor.raw, donorBand, rank: rank, producer: producer, stamp: stamp, by: taker)
      }
    }
    // Always queue it in the app's own queue as well: a donor may be suspended before a worker takes the job
    // there.
    if promotable.push(
      to: self, queue, band, rank: rank, producer: producer, stamp: stamp, by: taker)
    {
      return true
    }
    // A donor may have queued the job meanwhile, so it may be running already.
    return !promotable.claim()
  }

  /// Called when a task leaves a default actor: charges the task with the CPU time it used there. (R-CPU-08)
  private func chargeForActor(_ identity: UInt64, _ band: Band, base: UInt8, _ worker: Worker) {
    let now = opp_now_ns()
    let cpu = worker.cpuTimeOnActor(until: now)
    guard cpu > 0 else { return }
    engine.accounts.charge(
      identity, cpu: cpu, offCPU: 0, at: now, from: 0, to: 0, base: Int(base), band: band,
      statistics: statistics)
  }

  /// Queues a closure.
  func submit(
    _ base: BasePriority, _ body: @escaping @Sendable () -> Void, cancelled: (@Sendable () -> Void)?
  ) throws(SchedulerError) {
    let (here, producer, worker) = try engine.submitter(to: raw)
    let identity = engine.nextNumber() | DemotionAccounts.closureBit
    let origin = worker == nil ? DemotionAccounts.origin(here.number, in: self) : nil
    let depth = engine.accounts.depth(ofNew: identity, submitter: worker, origin: origin, app: self)
    let band = Band(rawValue: here.band) ?? .background
    let rank = engine.rank(base, band: band, depth: depth)
    let closure = Unmanaged.passRetained(
      Closure(app: self, identity: identity, body: body, cancelled: cancelled))
    let entry = JobEntry(.closure, closure.toOpaque(), base: base, queuedAt: statistics.stamp(here))
    guard push(entry, to: raw, band, rank: rank, producer: producer, by: nil) else {
      closure.release()
      throw SchedulerError(.outOfMemory, "no memory to queue a closure of app \"\(name)\"")
    }
    statistics.add(.submitted, 1, in: band)
  }

  /// Queues an entry and wakes a worker for it, which is counted in `band`. No worker is woken if `worker`
  /// itself takes the entry next.
  func push(
    _ entry: JobEntry, to queue: OpaquePointer, _ band: Band, rank: UInt8, producer: OpaquePointer,
    by worker: Worker?
  ) -> Bool {
    let submitted = opp_submit(producer, queue, rank, entry.raw, worker?.raw)
    guard submitted.level >= 0 else { return false }
    if submitted.wake != .OPP_WAKE_NOTHING { carryOut(submitted, band) }
    engine.dropIfClosed()
    return true
  }

  /// Carries out what the C core asks for after a submission: count a wake-up, or start a worker.
  @inline(never) private func carryOut(_ submitted: opp_submitted, _ band: Band) {
    if submitted.wake == .OPP_WAKE_COUNT { return statistics.add(.wakeups, 1, in: band) }
    if let pool = engine.pool(ofLevel: Int(submitted.level)) { engine.carryOut(submitted.wake, in: pool) }
  }

  // MARK: State

  func setBand(_ band: Band) {
    guard opp_app_set_band(raw, band.rawValue) else { return }
    moveRunner()
    wakeForQueued()
    engine.monitor.post(.reclassify)
    observers.tell()
  }

  /// Sets the band of the actors' queue (`runner`) to the app's current band. Several threads may do so at
  /// the same time: the last to set it reads the app's band once more afterwards.
  private func moveRunner() {
    var moved: UInt8?
    while true {
      // acquiring and releasing: this read-modify-write orders the passes of all threads. A later pass sees
      // what the earlier thread did before its own pass: the change of the app's band, which the later pass
      // then reads, or the change of `runner`, which the later pass then overrides. Needed on Arm, where the
      // load of `state` may otherwise be reordered before an earlier store.
      moves.add(1, ordering: .acquiringAndReleasing)
      let band = state.band
      if band == moved { return }
      opp_app_set_band(runner, band)
      moved = band
    }
  }

  func suspend() {
    guard opp_app_suspend(raw) else { return }
    engine.monitor.post(.checkWaiters)
    if let waiter = record.waiter { engine.monitor.post(.awaited(record, by: waiter)) }
    observers.tell()
  }

  func resume() {
    guard opp_app_resume(raw) else { return }
    wakeForQueued()
    engine.monitor.post(.checkWaiters)
    observers.tell()
  }

  private func wakeForQueued() {
    let levels = opp_app_levels(raw) | opp_app_levels(runner)
    for pool in engine.pools where pool.mask & levels != 0 {
      // One wake-up for each run token: many jobs may be queued, and each woken worker takes a different one.
      for _ in 0..<engine.runTokens(of: pool) where opp_has_ready(engine.core, pool.mask) {
        engine.wake(pool)
      }
    }
  }

  // MARK: Donated slices

  /// Begins a slice of this app that a worker took from the queue of a donor. Returns false if this app is
  /// suspended: the slice must not run then, and its entry in the app's own queue remains.
  func enterDonated() -> Bool {
    // seqCst, both: the suspending thread sets the state, then reads `donatedInside`. One of the two sees the
    // other's store.
    record.donatedInside.add(1, ordering: .sequentiallyConsistent)
    if !opp_app_is_suspended(raw) { return true }
    leaveDonated()
    return false
  }

  func leaveDonated() {
    // seqCst: see enterDonated(). It also releases: a thread that finds the app quiet sees what the slice
    // did.
    guard record.donatedInside.subtract(1, ordering: .sequentiallyConsistent).newValue == 0,
      opp_app_is_suspended(raw)
    else {
      return
    }
    engine.monitor.post(.checkWaiters)
  }

  // MARK: Waits of other apps

  /// Counts that work of `other` begins to wait for this app, until ``AppRecord/endWait()``. Background work
  /// is counted too, since its app may come to the foreground meanwhile.
  func beginWait(of other: AppCore) {
    record.beginWait(of: other.number)
    if opp_app_is_suspended(raw), other.band > .background {
      engine.monitor.post(.awaited(record, by: other.number))
    }
  }

  /// Whether the app is suspended and no worker is inside one of its jobs.
  var isQuiet: Bool {
    state.suspended && opp_app_running(raw) == 0
      && record.donatedInside.load(ordering: .sequentiallyConsistent) == 0
  }
}

/// A queued job whose task came from another app. That app's wait is counted until the job runs.
private final class AwaitedJob: QueuedObject, @unchecked Sendable {
  private let app: AppCore
  private let job: UnownedJob

  init(_ job: UnownedJob, of app: AppCore, identity: UInt64, base: BasePriority) {
    self.app = app
    self.job = job
    super.init(identity: identity, base: base)
  }

  override func run(on worker: Worker) {
    app.record.endWait()
    job.runSynchronously(on: app.unownedExecutor)
  }

  override func abandon() {
    app.record.endWait()
    globalConcurrentExecutor.enqueue(job)
  }
}
