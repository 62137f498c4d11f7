internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// A thread of a pool: it runs jobs, keeps its kernel priority, and accounts for the CPU time of its jobs.
/// The C core decides when it takes a job, parks or is woken: see worker.c.
///
/// The monitor reads what the worker is inside of from `report`. It is published
/// under a sequence number that is odd while the worker is inside a job.
final class Worker: @unchecked Sendable {
  let engine: Engine
  let pool: PoolState
  let slot: UInt32
  let report: WorkerReport

  /// Monitor's thread only: what it remembers of the worker from look to look.
  var notes = Monitor.WorkerNotes()

  /// The worker in the C core; its address does not change.
  let raw: OpaquePointer

  /// Whether the worker runs a job on trial, which is counted in its pool. The thread that resets this flag
  /// also subtracts from that count.
  private let trial = Atomic<Bool>(false)

  // Accessed by the worker's own thread only.
  private var consumer: OpaquePointer?
  private(set) var producer: OpaquePointer?
  /// The thread's meter, which `report` owns.
  private var meter: OpaquePointer?
  // No two accesses to `usage` overlap. The runtime's exclusivity check would cost each slice about 30 ns.
  @exclusivity(unchecked) private var usage = SliceUsage()
  @exclusivity(unchecked) private var batch = StatisticsBatch()
  private var applied: KernelPriority { didSet { appliedWord = applied.word } }
  private var appliedWord: UInt64
  /// `own`: the pool's kernel priority. `isLowered`: whether the thread has another one now.
  private let own: KernelPriority
  private var isLowered = false
  /// The real-time foreground, where this worker may enter it; and whether its running job began there.
  private let realTime: RealTimeForeground?
  private var isInClass = false
  /// CPU time in that class since the last sleep.
  private(set) var unslept: UInt64 = 0
  /// The depth at which the running job began.
  private var depthAtBegin = 0
  /// When the last job ended, if the next is taken right after it; saves a clock reading.
  private var lastEnd: UInt64?
  private(set) var identity: UInt64 = 0
  private(set) var app: AppCore?
  /// The strand whose turn the worker runs. Retained by the call that runs it.
  private(set) unowned(unsafe) var strand: Strand?
  private var isClosure = false
  private var hasAccount = false
  /// The sleep for which the running slice's task is about to suspend.
  private var sleep: SleepTimer?
  /// Whether the worker is counted among those that run fresh jobs of the foreground, and since when, since
  /// it last slept.
  private let isInForeground = Atomic<Bool>(false)
  private var inForegroundSince: UInt64 = 0
  /// The worker has begun or parked since it passed the lead, and parks no more.
  private var owesLead = true
  /// Whether the worker, between two jobs, resumes those whose descriptors have become ready. What they queue
  /// meanwhile has come by itself: it inherits nothing of the last job, and was idle until now. (R-CPU-08)
  private(set) var harvests = false

  init(engine: Engine, pool: PoolState, slot: UInt32) {
    self.engine = engine
    self.pool = pool
    self.slot = slot
    raw = opp_pool_worker(pool.raw, slot)
    report = WorkerReport(of: raw)
    own = engine.priority(of: pool.pool)
    realTime = pool.pool == .foreground ? engine.realTime : nil
    (applied, appliedWord) = (own, own.word)
  }

  /// The worker of `engine` that the calling thread is; nil if it is none.
  static func current(of engine: Engine) -> Worker? { of(opp_thread_worker(), engine: engine) }

  /// The same for the result of `opp_thread_worker()`.
  @inline(__always) static func of(_ pointer: UnsafeMutableRawPointer?, engine: Engine) -> Worker? {
    guard let pointer else { return nil }
    let worker = Unmanaged<Worker>.fromOpaque(pointer).takeUnretainedValue()
    return worker.engine === engine ? worker : nil
  }

  /// The depth of the running job; jobs that it submits inherit it.
  var depth: Int { report.depth }

  func isInside(_ app: AppCore) -> Bool { self.app === app }

  /// The calling worker is about to leave a queue of an app, an `opp_app`. Whoever finds the app quiet from
  /// then on also finds its jobs counted. Leaving that of its default actors' jobs decides nothing, so what
  /// is counted goes on then.
  static func leaves(_ queue: OpaquePointer) {
    guard let pointer = opp_thread_worker() else { return }
    Unmanaged<Worker>.fromOpaque(pointer)._withUnsafeGuaranteedRef { worker in
      if worker.app?.raw == queue { worker.batch.flush() }
    }
  }

  /// A turn of the strand begins; nil: it has ended.
  func begins(_ strand: Strand?) { self.strand = strand }

  /// Whether the running slice's task has suspended already, so that the slice is about to end. What the
  /// slice enqueues now, this worker takes next itself.
  var isLeaving: Bool { !isClosure && !opp_runtime_is_in_task() }

  /// The slice continues after all: wakes another worker for the job that it has left for this one.
  /// (R-CPU-01)
  func goesOn() { engine.carryOut(opp_worker_goes_on(raw), in: pool) }

  /// Calls `body`, which waits in the kernel for a short time, on the calling thread. If the worker has a run
  /// token, another works in its place meanwhile, so that what is queued does not wait. The job has the
  /// kernel priority of fresh work for the time of the wait, also where it is demoted before or meanwhile,
  /// since it may hold a lock of the kernel, as a file's: else whoever needs that would wait for as long as
  /// the thread is kept off the CPU. Where the process may not raise threads a demoted job keeps its nice
  /// value, but has the slice of fresh work. Returns nil without calling it if the thread is no worker of the
  /// foreground's pool, is the spare one, or runs a demoted job at `SCHED_IDLE` and may not be raised.
  ///
  /// A wait shorter than the policy's blocking gap does not count as blocking, as it would not if the task
  /// had awaited its end. (R-CPU-08)
  static func waiting<Value>(_ body: () -> Value) -> Value? {
    guard let pointer = opp_thread_worker() else { return nil }
    return Unmanaged<Worker>.fromOpaque(pointer)._withUnsafeGuaranteedRef { worker in
      guard worker.pool.pool == .foreground, worker.state != .OPP_WORKER_SPARE else { return nil }
      let isLowered = worker.report.keepPriority() || worker.report.depth > 0
      guard !isLowered || worker.raiseForWait() else {
        worker.report.releasePriority(worker.applied, wasChanged: false)
        return nil
      }
      var wake = opp_wake.OPP_WAKE_NOTHING
      let hadToken = opp_worker_begin_wait(worker.raw, &wake)
      if hadToken { worker.engine.carryOut(wake, in: worker.pool) }
      let start = opp_now_ns()
      let value = body()
      worker.hasWaited(for: opp_now_ns() - start)
      if hadToken { worker.engine.carryOut(opp_worker_end_wait(worker.raw), in: worker.pool) }
      worker.report.releasePriority(worker.applied, wasChanged: isLowered)
      return value
    }
  }

  /// Gives the thread the priority of fresh work. Where the process may not do that, the thread keeps its
  /// nice value and has the slice of fresh work. Returns false where the kernel refuses, or where the thread
  /// is at `SCHED_IDLE`, and may get no CPU for as long as others run.
  private func raiseForWait() -> Bool {
    if engine.privileges.canRaise { return own.apply(to: 0) }
    let priority = report.changed ?? applied
    return priority.policy != .idle && priority.prompt(engine.privileges).apply(to: 0)
  }

  private func hasWaited(for time: UInt64) {
    guard time < UInt64(engine.configuration.quantum.blockingGapNanoseconds) else { return }
    report.shortWaitTime = usage.addShortWait(time)
  }

  /// Notes that the running slice's task goes to sleep, if the slice ends with it. The slice of an actor or a
  /// strand may continue with other jobs. So may the slice of a task that has started another task inline.
  func willSleep(_ timer: SleepTimer) {
    if DemotionAccounts.isTask(identity), opp_runtime_current_task_id() == identity { sleep = timer }
  }

  /// Called when the sleep has ended and its task runs: in this slice, if the task never left it.
  func hasSlept(_ timer: SleepTimer) {
    if sleep === timer { sleep = nil }
  }

  /// The CPU time that a task has used inside a default actor which it leaves now. An actor's slice has no
  /// identity, so this time is charged to nothing else.
  func cpuTimeOnActor(until now: UInt64) -> UInt64 {
    identity == 0 ? usage.part(until: now, meter: meter) : 0
  }

  // MARK: The thread

  /// The thread's main function.
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
    meter = opp_thread_meter_create()
    report.start(threadID: opp_thread_id(), meter: meter)
    usage.anchor(meter)
    if let consumer {
      opp_worker_begin(raw, consumer)
      loop()
    }
    leaveForeground(at: 0)
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
        // Not before: whoever is woken to lead would take the job, and have a third one woken.
        passLeadIfOwed()
        execute(taken)
        harvestIfNobodyLeads()
      case .OPP_NEXT_PARK:
        if !park() { return }
      case .OPP_NEXT_RAISE:
        passLeadIfOwed()
        // Without privilege a lowered thread cannot be raised again. It ends, and the monitor starts another.
        guard restore() else { return opp_worker_end(raw) }
      }
    }
  }

  /// Parks until there is something to do. Returns false when the thread is to end.
  private func park() -> Bool {
    let since = lastEnd
    lastEnd = nil
    batch.flush()
    app = nil
    while true {
      if engine.isSurplus(pool) {
        passLead()
        return false
      }
      // The run token was returned before (seqCst). The monitor reads that after the draining has begun.
      if engine.isDraining { engine.monitor.notify() }
      var parked = opp_worker_begin_park(raw)
      if parked == .OPP_PARKED_SLEEPS {
        // Before the sleep and not after it, where a job waits for these system calls.
        usage.anchorIfUsed(meter)
        leaveForeground(at: since ?? 0)
        repeat {
          var harvest = opp_harvest()
          parked = opp_worker_end_park(raw, &harvest)
          usage.slept()
          if harvest.count > 0 { resume(harvest) }
        } while parked == .OPP_PARKED_SLEEPS
        unslept = 0
      }
      switch parked {
      case .OPP_PARKED_AGAIN: continue
      case .OPP_PARKED_WORKS, .OPP_PARKED_SLEEPS:
        owesLead = true
        return true
      case .OPP_PARKED_ENDS: return false
      case .OPP_PARKED_SPARE:
        owesLead = true
        // The worker may have been woken in order to end.
        guard pool.takeSurplus() else { return true }
        passLead()
        opp_worker_end(raw)
        return false
      }
    }
  }

  // MARK: Readiness

  /// The worker parks no more: another is to wait for the descriptors of the pool, if none does.
  private func passLead() {
    owesLead = false
    engine.carryOut(opp_worker_passes_lead(raw), in: pool)
  }

  @inline(__always) private func passLeadIfOwed() { if owesLead { passLead() } }

  /// Resumes those whose descriptors have become ready. The first job that they queue this worker takes
  /// itself, if it has a run token.
  private func resume(_ harvest: opp_harvest) {
    harvests = true
    withUnsafePointer(to: harvest) { harvest in
      for index in 0..<harvest.pointee.count {
        let waiter = Unmanaged<ReadinessWaiter>.fromOpaque(opp_harvest_waiter(harvest, index))
        waiter.takeUnretainedValue().delegate.becameReady()
      }
    }
    harvests = false
  }

  /// Where each worker is inside a job, and no further one can be had, they look between their jobs.
  @inline(__always) private func harvestIfNobodyLeads() {
    guard pool.readiness != nil, !isLowered, let lastEnd else { return }
    var harvest = opp_harvest()
    if opp_worker_harvest(raw, lastEnd, &harvest) > 0 { resume(harvest) }
  }

  // MARK: One job

  private func execute(_ taken: opp_taken) {
    guard let context = taken.context else { return }
    // The job retains the app until begin(); from then on this worker does.
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

  /// Runs a closure, the app's own or a strand's. A closure is not in a task, so `isLeaving` must not be true
  /// in it.
  func run(_ closure: Unmanaged<Closure>) {
    isClosure = true
    closure.takeRetainedValue().run()
    isClosure = false
  }

  /// Queues a job again at its right level. The job was queued before it was known to be a hog; it must
  /// neither run before fresh work nor bypass the limit of demoted workers.
  @inline(never) private func moveDown(
    _ entry: JobEntry, _ app: AppCore, _ taken: opp_taken, depth: Int, band: Band
  ) -> Bool {
    guard let producer else { return false }
    let rank = engine.rank(entry.base, band: band, depth: depth)
    // The job may end on another worker before this call returns.
    let held = Unmanaged.passRetained(app)
    defer { held.release() }
    guard app.push(entry, to: taken.app, band, rank: rank, producer: producer, by: self) else { return false }
    // No job pays for it: there may be thousands of them, before one that a person waits for. The clock goes
    // on meanwhile, so that the app's turn ends and ready descriptors are looked for.
    lastEnd = opp_now_ns()
    usage.strayed()
    return true
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
    usage.began(at: start, isDemoted: depth > 0, meter: meter)
    // In the background pool demoted foreground work needs no place beside the run tokens, only its own
    // kernel priority.
    if depth > 0, pool.demotedMask != 0 {
      startDemoted(level: taken.level, depth: depth)
    } else if depth > 0, band != .background {
      apply(level: taken.level, depth: depth)
    } else if let realTime {
      enter(realTime, band, account)
    } else if isLowered {
      _ = restore()
    }
    report.begin(
      opp_report_job(
        identity: identity, app: taken.app, start: start, cpu_before: usage.cpuAtAnchor,
        wait_before: usage.waitAtAnchor, switches_before: usage.switchesAtAnchor, priority: appliedWord,
        depth: UInt32(depth),
        band: taken.band, rank: taken.rank, base: entry.base.index, is_real_time: isInClass))
    engine.monitor.armTick()
    if isInClass { engine.monitor.armClass() }
    let kind = LockWatch.Kinds(band, depth: depth)
    if kind == .fresh { enterForeground(at: start) } else { leaveForeground(at: start) }
    engine.monitor.armLocksIfDue(kind)
  }

  /// Begins demoted work, which runs beside the run tokens at a lower kernel priority. So fresh work keeps
  /// all run tokens.
  ///
  /// A job that is held back for its origin may be as short as fresh work. At the lower priority it would
  /// wait for a CPU behind the hogs of its origin. So it runs on trial first, at the pool's own priority. The
  /// trial ends when the monitor has seen the job use the CPU for as long as the spare worker's delay.
  private func startDemoted(level: UInt8, depth: Int) {
    engine.carryOut(opp_worker_to_demoted(raw, UInt32(depth)), in: pool)
    if depth == 1, engine.accounts.mayBeShort(identity), pool.beginTrial(most: engine.width) {
      // relaxed: set by this thread only; the monitor resets it only while it sees this job run.
      trial.store(true, ordering: .relaxed)
      opp_pool_watch(pool.raw)
      _ = restore()
      return
    }
    apply(level: level, depth: depth)
  }

  private func enterForeground(at time: UInt64) {
    // relaxed: set by this thread only; and what the monitor has cleared within a job its end has waited for.
    guard !isInForeground.load(ordering: .relaxed) else { return }
    inForegroundSince = time
    engine.monitor.enterForeground()
    // [entered] releasing: whoever counts it out does so after it was counted.
    isInForeground.store(true, ordering: .releasing)
  }

  /// The worker sleeps, or runs jobs that are not fresh ones of the foreground. After a short while it says
  /// nothing to the kernel: who sleeps and wakes so often would only do that.
  private func leaveForeground(at time: UInt64) {
    guard countOutOfForeground() else { return }
    engine.monitor.leaveForeground(
      disarms: time.saturatingSubtract(inForegroundSince) >= LockWatch.leastToDisarm)
  }

  /// Whether the worker was counted until now; whoever is told so leaves for it. Also the monitor, which
  /// lowers the running job, and keeps it from ending meanwhile. If that comes before the worker is counted,
  /// the worker leaves when it next sleeps.
  func countOutOfForeground() -> Bool {
    // [entered] acquiring: pairs with enterForeground(at:). relaxed: saves the exchange where it says no; who
    // misses that the worker has been counted leaves it to the worker, as above.
    isInForeground.load(ordering: .relaxed) && isInForeground.exchange(false, ordering: .acquiring)
  }

  /// Enters the real-time foreground for a fresh job, or leaves it. From job to job neither is usual, so
  /// neither costs a system call.
  private func enter(_ realTime: RealTimeForeground, _ band: Band, _ account: UInt64) {
    // relaxed: the next look sees a job that has begun in spite of it.
    let mayEnter =
      band != .background && realTime.isOpen.load(ordering: .relaxed) && unslept < realTime.mostWithoutSleep
      && (account == 0
        || realTime.policy.admits(usedBefore: DemotionAccount(bits: account).cpuNanoseconds))
    let wanted = mayEnter ? RealTimeForeground.priority : own
    if wanted != applied, wanted.apply(to: 0) { isNow(wanted) }
    isInClass = applied.policy == .roundRobin
  }

  /// The job has ended. What the monitor has taken from the class it has counted itself, for the share; the
  /// time without a sleep is the worker's to count, and then a little more than the kernel has.
  private func leave(_ realTime: RealTimeForeground, cpu: UInt64, isCounted: Bool) {
    isInClass = false
    unslept += cpu
    if !isCounted { realTime.add(cpu) }
  }

  /// Gives the thread the kernel priority of demoted work.
  private func apply(level: UInt8, depth: Int) {
    let priority = engine.priority(of: pool.pool, level: Level(known: level), depth: depth)
    if priority != applied, priority.apply(to: 0) { isNow(priority) }
  }

  /// Whether the job runs on trial, at the pool's own kernel priority; see `startDemoted`.
  var isOnTrial: Bool { trial.load(ordering: .relaxed) }

  /// Ends the trial. Called by the worker at the job's end, or by the monitor when it has lowered the job. If
  /// the job has just ended and the next one is on trial already, that one is not counted: one trial more may
  /// begin.
  func endTrial() {
    // relaxed: exactly one of the two threads resets the flag, and no other data depends on it.
    if trial.exchange(false, ordering: .relaxed) { pool.endTrial() }
  }

  private func end(_ entry: JobEntry, _ taken: opp_taken) {
    let time = opp_now_ns()
    lastEnd = time
    let (cpu, offCPU) = usage.ended(at: time, meter: meter)
    let (changed, depth, leftClass) = report.end()
    if let changed { isNow(changed) }
    if isInClass, let realTime { leave(realTime, cpu: cpu, isCounted: leftClass) }
    if isOnTrial { endTrial() }
    batch.ended(cpu: cpu)
    if depth > 0, cpu >= UInt64(engine.configuration.quantum.quantumNanoseconds) {
      opp_pool_take_room(pool.raw)
    }
    // A sleeping task is idle from the start of its sleep, even if this thread was kept off the CPU since.
    let sleep = self.sleep.take()
    let idleFrom = sleep?.began ?? time
    let band = Band(rawValue: taken.band) ?? .background
    if usage.shouldCharge {
      let base = Int(engine.rank(entry.base, band: band, depth: 0))
      engine.accounts.charge(
        identity, cpu: usage.charge, offCPU: offCPU, offSeen: report.offWhenLowered, at: idleFrom,
        from: depthAtBegin, to: depth, base: base, band: band, statistics: app?.statistics)
    } else {
      engine.accounts.endedSoon(identity, at: hasAccount ? idleFrom : nil)
    }
    // The task was queued again before its slice was charged, so its idle time is accounted for here.
    if let sleep, sleep.hasFired.load(ordering: .relaxed) {
      engine.accounts.hasBeenIdle(
        identity, for: sleep.deadline.saturatingSubtract(sleep.began), band: band, statistics: app?.statistics
      )
    }
    let state = opp_worker_job_ended(raw)
    // Also one that has given its run token to fresh work, and was no hog: else what takes longer than the
    // spare worker's delay would never teach that delay.
    let hasYielded = state == .OPP_WORKER_SUNK && depth == 0
    if state == .OPP_WORKER_RUNNING || hasYielded { report.addOrdinary(cpu: cpu) }
  }

  // MARK: Kernel priority

  private func isNow(_ priority: KernelPriority) {
    applied = priority
    isLowered = priority != own && (realTime == nil || priority.policy != .roundRobin)
  }

  /// Returns to the pool's own priority. Returns false where the kernel refuses.
  private func restore() -> Bool {
    guard applied != own else { return true }
    guard own.apply(to: 0) else { return false }
    isNow(own)
    return true
  }

  // MARK: The monitor's

  /// Read once the worker has ended: false if memory was too short for it to begin.
  var hasWorked: Bool { consumer != nil }

  var state: opp_worker_state { opp_worker_read_state(raw) }

  /// Whether another worker has taken this worker's run token.
  var isHandedOff: Bool { state == .OPP_WORKER_HANDED_OFF || state == .OPP_WORKER_SUNK }

  /// nil while the worker may have taken a job, begun or not. Otherwise a number that differs after the
  /// worker may have taken another job.
  var idleVersion: UInt64? {
    let version = opp_worker_idle_version(raw)
    return version == 0 ? nil : version
  }
}
