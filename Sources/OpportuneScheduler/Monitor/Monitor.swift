internal import COpportune
import Glibc
import Synchronization

/// The monitor: one thread that looks at running jobs once a quantum, at stalled pools on request, and at
/// timers when they are due. It sleeps while nothing runs and nothing is due.
///
/// One-shot alarms wake it. So a request for a look costs the caller one system call of 0.3 µs and wakes no
/// thread at once. What is done is decided by ``PoolPolicy``, ``DemotionAccount``, ``InversionPolicy``,
/// ``TargetPolicy`` and ``ClassPolicy``; the monitor measures and carries out.
final class Monitor: @unchecked Sendable {
  enum Message {
    case spawn(PoolState)
    case ended(Worker)
    /// The waiting thread could not start it.
    case notStarted(Worker, Int32)
    case ready(level: UInt8)
    /// An app has changed its band: the kernel priority of its running jobs must follow.
    case reclassify
    /// Work of a higher band waits for the strand of this identity, which is running.
    case raise(UInt64, Band)
    /// A caller of `untilSuspended()` may be waiting for an app to become quiet.
    case checkWaiters
    case waitForQuiet(AppCore, Wait)
    /// Foreground work of the app with that number waits for this app, which is suspended.
    case awaited(AppRecord, by: UInt64)
    /// The app's target was set or removed.
    case targeted(AppRecord)
    case holdsBackground(level: Int)
    /// A thread serves the foreground; or does so no more.
    case serves(ForegroundServer)
    case servesNoMore(ForegroundServer)
    /// RealtimeKit has answered for that thread, or for the monitor's own.
    case granted(ForegroundServer?, RealtimeKit.Answer)
    case timer(SleepTimer)
    /// The sleep was cancelled: remove its timer from the heap.
    case cancelled(SleepTimer)
    case added(AppRecord)
    case snapshot(Engine, CheckedContinuation<Snapshot, Never>)
    case cpuTime(AppCore, CheckedContinuation<UInt64, Never>)
    case shutDown(within: Duration, CheckedContinuation<[String], Never>)
  }

  /// The monitor's part of the statistics.
  struct Snapshot {
    var apps: [AppRecord] = []
    var timers = 0
    var share = SchedulerStatistics.BackgroundShare()
    /// When the timers' alarm goes off; `.max` is never. For tests.
    var alarm = UInt64.max
    var realTime: RealTimeForegroundStatistics.Access?
  }

  /// What the monitor remembers of a worker from look to look. It ends with the worker.
  struct WorkerNotes {
    var pool = PoolPolicy.Notes()
    var locks = LockWatch()
    var inClass: ClassPolicy.JobLook?
  }

  enum Alarm: UInt32 { case tick, watch, timers, locks, locksLate, realTime }

  private static let locksMask: UInt32 = 1 << Alarm.locks.rawValue | 1 << Alarm.locksLate.rawValue

  // Any thread: alarms, inbox, the atomics and `lockCounts`; and `quantum`, `spareDelay` and `classQuantum`,
  // which are set before the first worker starts. All other state belongs to the monitor's thread.
  let alarms: OpaquePointer
  private let inbox: Inbox<Message>
  private let nextFire = Atomic<UInt64>(.max)
  private let cancellations = Atomic<UInt64>(0)
  /// The monitor's thread has ended: a caller that posts must answer its message itself.
  private let hasEnded = Atomic<Bool>(false)
  private var engine: Engine?
  private var timers = TimerHeap<SleepTimer>()
  /// When the timers' alarm goes off; `.max` is never.
  private var alarmedAt = UInt64.max
  private var quietWaiters: [(app: AppCore, wait: Wait)] = []
  private var shutdown: (deadline: UInt64, continuation: CheckedContinuation<[String], Never>)?
  var apps: [AppRecord] = []
  /// The number of apps at which ended apps are removed from the list.
  private var appsToSweep = 16
  var live = 0
  var threads = ThreadSupply()
  var suspendedWaits = SuspendedWaits()
  var locks = Locks()
  let lockCounts = LockCounts()
  var targets = Targets()
  var realTimeClass: ClassState?
  /// Starts threads, where there is a real-time foreground.
  var waitingThread: WaitingThread?
  /// The quantum of the real-time foreground. Set before the first thread starts.
  var classQuantum: UInt64 = 1_000_000
  /// When RealtimeKit was last asked for a server.
  var kitAskedAt: UInt64 = 0
  /// The kinds of jobs that may be inside workers, of ``LockWatch/Kinds``.
  let kindsInside = Atomic<UInt8>(0)
  /// Set when the workers are started: the monitor's thread may begin.
  let isSetUp = Atomic<Bool>(false)
  var lastLimits: UInt64 = 0
  var quantum: UInt64 = 10_000_000
  var spareDelay: UInt64 = 500_000

  init() throws(SchedulerError) {
    guard let alarms = opp_alarms_create(), let inbox = Inbox<Message>() else {
      throw SchedulerError(
        .threadsUnavailable, "the kernel gave no timer descriptors (is the limit of open files reached?)")
    }
    self.alarms = alarms
    self.inbox = inbox
  }

  deinit {
    opp_alarms_destroy(alarms)
  }

  static func from(_ context: UnsafeMutableRawPointer?) -> Monitor? {
    context.map { Unmanaged<Monitor>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Starts the monitor's thread and the workers.
  func start(_ engine: Engine) throws(SchedulerError) {
    self.engine = engine
    quantum = UInt64(engine.configuration.quantum.quantumNanoseconds)
    spareDelay = UInt64(engine.configuration.spareDelay.clampedNanoseconds)
    setWatchDelay(spareDelay, engine)
    lastLimits = opp_now_ns()
    readThreadLimits(engine)
    // The monitor's thread is started first, and waits for the rest. Then one worker for each pool, and so
    // on: threads may be few.
    let isWatched = startThread(engine)
    if isWatched { startWorkers(engine) }
    // Jobs of a pool without a worker might wait for ever.
    if isWatched, engine.pools.allSatisfy({ $0.liveWorkers > 0 }) { return begin() }
    engine.close()
    self.engine = nil
    // The workers end now, and their messages are no longer read.
    for pool in engine.pools { for slot in pool.workers.indices { pool.workers[slot] = nil } }
    // relaxed: see push().
    hasEnded.store(true, ordering: .relaxed)
    for message in inbox.fetch() { answerLate(message) }
    let tokens = engine.pools.map { engine.runTokens(of: $0) }
    let (given, wanted) = (isWatched ? live + 1 : 0, tokens.reduce(1) { $0 + $1 + 1 })
    begin()
    throw SchedulerError(
      .threadsUnavailable,
      "the kernel gave \(given) of \(wanted) threads, then error \(threads.error); one for each pool and one to watch them "
        + "are the least (is a limit of processes or threads reached?)")
  }

  private func begin() {
    // [set up] releasing: publishes what start() did to run().
    isSetUp.store(true, ordering: .releasing)
    notify()
  }

  private func startThread(_ engine: Engine) -> Bool {
    let result = engine.startThread(
      engine.configuration.name + "-mon", 256 << 10,
      { Unmanaged<Monitor>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(self).toOpaque())
    if result == 0 { return true }
    Unmanaged.passUnretained(self).release()
    threads.error = -result
    return false
  }

  // MARK: Any thread

  func post(_ message: Message) {
    push(message)
    notify()
  }

  private func push(_ message: Message) {
    // If memory is short for a list entry, the message is answered as after a shutdown. Messages that need no
    // answer may be dropped: the tick and the next message make up for them.
    if !inbox.push(message) { answerLate(message) }
    // relaxed suffices. If the last fetch preceded this push, the push has read the word that this fetch
    // wrote (acq_rel both), so it sees `hasEnded`, which was stored before. Otherwise the last fetch has
    // taken the message.
    if hasEnded.load(ordering: .relaxed) { for message in inbox.fetch() { answerLate(message) } }
  }

  func notify() { opp_alarms_notify(alarms) }

  /// A worker is inside a job: arms the alarm for a look in a quantum.
  func armTick() { opp_alarms_arm(alarms, Alarm.tick.rawValue, quantum + 100_000) }

  /// A job of this kind is inside a worker: look soon whether the foreground waits for a lock of lower work,
  /// where both run.
  func armLocksIfDue(_ kind: LockWatch.Kinds) {
    // seqCst, each: the job was published before. Of two that begin at once one sees the other's kind; and
    // see agree().
    var kinds = kindsInside.load(ordering: .sequentiallyConsistent)
    if kinds & kind.rawValue == 0 {
      kinds = kindsInside.bitwiseOr(kind.rawValue, ordering: .sequentiallyConsistent).newValue
    }
    // The look for lowered jobs was armed as they were lowered, and is by each look that finds one above
    // another: a fresh job, which stands above them all, pays for none of that.
    armLocks(LockWatch.Kinds(rawValue: kinds), late: kind != .fresh)
  }

  /// A worker runs fresh jobs of the foreground from now on, or runs none any more. While none does, the look
  /// for locks that such could wait for is for nothing. `disarms`: whether it is worth a system call to say
  /// so.
  func enterForeground() { opp_alarms_enter(alarms, Alarm.locks.rawValue) }
  func leaveForeground(disarms: Bool) {
    opp_alarms_leave(alarms, Alarm.locks.rawValue, LockWatch.interval, disarms)
  }

  /// Arms the looks for locks that are due with these kinds of jobs inside. The late one is an alarm of its
  /// own: a fresh job that begins while it is armed must be looked at before, and the last worker to leave
  /// the fresh ones disarms the first.
  func armLocks(_ kinds: LockWatch.Kinds, late: Bool = true) {
    if kinds.mayHoldUpFresh { opp_alarms_arm(alarms, Alarm.locks.rawValue, LockWatch.interval) }
    guard late, kinds.mayHoldUpLowered else { return }
    opp_alarms_arm(alarms, Alarm.locksLate.rawValue, LockWatch.lateInterval)
  }

  /// Has the C core arm an alarm where something waits in the pool while all run tokens are in use. The
  /// background pool needs none: the tick looks at it once a quantum.
  func serve(_ pool: PoolState, _ core: OpaquePointer) {
    opp_pool_serve(pool.raw, core, pool.pool == .background ? nil : alarms, Alarm.watch.rawValue)
  }

  /// Sets the time from a possible stall to the look at it, in nanoseconds.
  private func setWatchDelay(_ delay: UInt64, _ engine: Engine) {
    for pool in engine.pools { opp_pool_set_watch_delay(pool.raw, delay) }
  }

  /// Adds a timer. If it must fire before the monitor's next wake-up, the monitor is woken.
  func add(_ timer: SleepTimer) {
    push(.timer(timer))
    // seqCst: the push precedes this load. The monitor stores `nextFire` before its last fetch of the inbox.
    if timer.latest < nextFire.load(ordering: .sequentiallyConsistent) { notify() }
  }

  /// Cancels the sleep of `timer`. The monitor removes it when it is next awake, or once there are many.
  func cancel(_ timer: SleepTimer) {
    push(.cancelled(timer))
    // relaxed: a counter that orders nothing.
    if cancellations.add(1, ordering: .relaxed).newValue % 64 == 0 { notify() }
  }

  // MARK: The thread

  /// Collects the alarms that go off until `isOver`. The program may submit jobs before the monitor's thread
  /// has seen that the setup is complete. Those alarms are one-shot, so none may be lost.
  static func gather(until isOver: () -> Bool, _ wait: () -> UInt32) -> UInt32 {
    var fired: UInt32 = 0
    while !isOver() { fired |= wait() }
    return fired
  }

  private func run() {
    // [set up] acquiring: pairs with start().
    var fired = Self.gather(until: { isSetUp.load(ordering: .acquiring) }, { opp_alarms_wait(alarms) })
    guard let engine else { return }
    _ = opp_thread_set_timer_slack(1)
    KernelPriority.monitor(engine.configuration.pools, engine.privileges).applyToNewThread()
    if engine.realTime != nil {
      beginClass(engine)
      rehearse(engine)
      openClass(engine)
    }
    notify()
    while true {
      fired |= opp_alarms_wait(alarms)
      defer { fired = 0 }
      // First: no other look must delay this one.
      if fired & (1 << Alarm.realTime.rawValue) != 0 { lookAtClass(engine) }
      if fired & Self.locksMask != 0 {
        lookAtLocks(engine)
        // The most frequent of all: for nothing else is due, and who posts what is urgent notifies.
        if fired & ~Self.locksMask == 0 { continue }
      }
      if fired & (1 << Alarm.timers.rawValue) != 0 { alarmedAt = .max }  // a one-shot alarm
      fetch(engine)
      if fired & (1 << Alarm.tick.rawValue) != 0 { tick(engine) }
      if fired & (1 << Alarm.watch.rawValue) != 0 {
        for pool in engine.pools { watch(pool, engine) }
        let delays = engine.pools.lazy.map { (pool: $0.pool, delay: $0.policy.spareDelay) }
        setWatchDelay(PoolPolicy.watchDelay(spareDelays: delays, least: spareDelay), engine)
      }
      fireTimers(orAt: min(startLacking(engine), warnOfSuspendedWaits(engine)))
      checkWaiters()
      if checkShutdown(engine) { break }
    }
    fetch(engine)
    for timer in timers.popDue(now: .max) { timer.end() }
    for waiter in quietWaiters { waiter.wait.end() }
    quietWaiters = []
    endClass(engine)
    engine.deviceShare.end()
    waitingThread?.end()
    self.engine = nil
    // From here on `apps` does not change. relaxed: see push().
    hasEnded.store(true, ordering: .relaxed)
    for message in inbox.fetch() { answerLate(message) }
  }

  /// Every look once, with nobody in the class: what code does for the first time may wait for a lock of the
  /// language's runtime, as of its cache of generic types, whose holder gets no CPU beside that class.
  /// Answers no message: who asks learns of the class as it is once it is open.
  private func rehearse(_ engine: Engine) {
    lookAtClass(engine)
    lookAtLocks(engine)
    tick(engine)
    for pool in engine.pools { watch(pool, engine) }
    _ = (timers.popDue(now: 0), startLacking(engine), warnOfSuspendedWaits(engine))  // there are none yet
    checkWaiters()
  }

  /// Answers a message as after a shutdown. Called on any thread once the monitor's own has ended.
  private func answerLate(_ message: Message) {
    switch message {
    case .waitForQuiet(_, let wait): wait.end()
    case .snapshot(let engine, let continuation): continuation.resume(returning: snapshot(of: engine))
    case .cpuTime(let app, let continuation): continuation.resume(returning: app.statistics.cpuNanoseconds)
    case .shutDown(_, let continuation): continuation.resume(returning: [])
    case .timer(let timer): timer.end()
    case .spawn, .ended, .notStarted, .ready, .reclassify, .raise, .checkWaiters, .awaited, .cancelled,
      .added,
      .targeted, .holdsBackground, .serves, .servesNoMore, .granted:
      break
    }
  }

  private func fetch(_ engine: Engine) {
    for message in inbox.fetch() { handle(message, engine) }
  }

  private func handle(_ message: Message, _ engine: Engine) {
    switch message {
    case .spawn(let pool):
      // One that seems to be parked may be about to go on with a job instead.
      if opp_pool_sleeping(pool.raw) > 0 {
        engine.carryOut(opp_pool_needs_leader_still(pool.raw), in: pool)
      } else {
        _ = spawn(pool, engine)
      }
    case .ended(let worker):
      remove(worker)
      // The worker may have put back a job that it had taken before the queues were emptied.
      guard !engine.isClosed else { return engine.dropIfClosed() }
      if !worker.hasWorked { lacked(ENOMEM, worker.pool, engine) }
      if !threads.isUnlimited { shareThreads(engine) }
      if opp_pool_sleeping(worker.pool.raw) == 0 { _ = spawn(worker.pool, engine) }
      // The worker did not look at the queues after it had returned its run token.
      engine.wakeIfReady(worker.pool)
      engine.carryOut(opp_pool_needs_leader_still(worker.pool.raw), in: worker.pool)
    case .notStarted(let worker, let error):
      notStarted(worker, error, engine)
    case .ready(let level):
      if let pool = engine.pool(ofLevel: Int(level)) { engine.wake(pool) }
    case .reclassify:
      reclassify(engine)
      noteSuspendedWaits(engine)
    case .raise(let identity, let band):
      raise(identity, band, engine)
    case .checkWaiters:
      break
    case .waitForQuiet(let app, let wait):
      quietWaiters.append((app, wait))
    case .awaited(let app, let waiter):
      noteSuspendedWait(of: waiter, for: app, engine)
    case .added(let app):
      // Not at each addition: apps are often made in series.
      if apps.count == appsToSweep {
        apps.removeAll(where: \.isGone)
        appsToSweep = 2 * max(apps.count, 16)
      }
      apps.append(app)
    case .targeted(let app):
      addTarget(of: app, engine)
    case .holdsBackground(let level):
      setBackground(to: level, engine)
    case .serves(let server):
      add(server, engine)
    case .servesNoMore(let server):
      remove(server)
    case .granted(let server, let answer):
      granted(server, answer, engine)
    case .snapshot(_, let continuation):
      continuation.resume(returning: snapshot(of: engine))
    case .cpuTime(let app, let continuation):
      let running = engine.pools.reduce(0) { $0 &+ cpuTimeRunning(of: app, in: $1) }
      continuation.resume(returning: app.statistics.cpuNanoseconds &+ running)
    case .timer(let timer):
      guard !timer.isOver else { break }
      timer.timerID = timers.insert(deadline: timer.deadline, tolerance: timer.tolerance, payload: timer)
    case .cancelled(let timer):
      if let id = timer.timerID { timers.cancel(id) }
    case .shutDown(let limit, let continuation):
      let deadline = opp_now_ns().saturatingAdd(UInt64(max(0, limit.clampedNanoseconds)))
      shutdown = (deadline, continuation)
      setAlarm(min(deadline, alarmedAt))
    }
  }

  private func snapshot(of engine: Engine) -> Snapshot {
    // Read here, not by who asks: the number of workers and its reason are of one moment.
    var share = targets.share
    share.device = Double(engine.deviceShare.eighths) / Double(DeviceShare.whole)
    share.workers = engine.pools.first { $0.pool == .background }.map { Int(opp_pool_tokens($0.raw)) } ?? 0
    return Snapshot(
      apps: apps.filter { !$0.isGone }, timers: timers.count, share: share, alarm: alarmedAt,
      realTime: realTimeClass?.policy.access)
  }

  /// CPU time, in nanoseconds, of the app's slices that run now.
  private func cpuTimeRunning(of app: AppCore, in pool: PoolState) -> UInt64 {
    pool.workers.reduce(0) { sum, worker in
      guard let worker, let reading = worker.report.read(),
        reading.app == app.raw || reading.app == app.runner
      else { return sum }
      // The clock is the thread's: the reading belongs to this slice only if the slice is still running.
      guard let cpu = worker.report.cpuTime, worker.report.isStillInside(reading) else { return sum }
      return sum &+ cpu.saturatingSubtract(reading.cpuBefore)
    }
  }

  // MARK: Timers and waiters

  /// - Parameter other: another time at which the monitor must be awake.
  private func fireTimers(orAt other: UInt64) {
    let now = opp_now_ns()
    for timer in timers.popDue(now: now) {
      if !timer.isOver { timer.hasFired.store(true, ordering: .relaxed) }  // publishes nothing else
      timer.end()
    }
    let next = timers.nextFire ?? .max
    nextFire.store(next, ordering: .sequentiallyConsistent)
    // Also sets the alarm to never. A cancelled timer wakes the monitor at most once, where no other alarm
    // did before.
    setAlarm(min(next, other, shutdown?.deadline ?? .max))
    // The last fetch of timers, after `nextFire` was published; see add().
    if let engine { fetchTimers(engine, published: min(next, other)) }
  }

  private func setAlarm(_ time: UInt64) {
    guard time != alarmedAt else { return }
    alarmedAt = time
    opp_alarms_set(alarms, Alarm.timers.rawValue, time)
  }

  private func fetchTimers(_ engine: Engine, published: UInt64) {
    fetch(engine)
    if min(timers.nextFire ?? .max, nextStart(engine), suspendedWaits.next) < published { notify() }
  }

  private func checkWaiters() {
    quietWaiters.removeAll { app, wait in
      // A resumption ends the wait too. A wait that is over was cancelled.
      guard wait.isOver || app.isQuiet || !app.state.suspended else { return false }
      wait.end()
      return true
    }
  }

  // MARK: Shutdown

  /// Returns true when the thread is to end.
  private func checkShutdown(_ engine: Engine) -> Bool {
    guard let shutdown else { return engine.isClosed && live == 0 }
    let expired = opp_now_ns() >= shutdown.deadline
    if !engine.isClosed {
      guard expired || isIdle(engine) else { return false }
      // Cancellation runs the program's closures, which must not run at the monitor's kernel priority. Nobody
      // may be above it then.
      giveUpClass(engine)
      _ = engine.priority(of: .foreground).apply(to: 0)
      engine.close()
    }
    guard live == 0 || expired else { return false }
    let names = engine.pools.flatMap { $0.workers }.compactMap { worker in
      app(of: worker?.report.read()?.app)?.name
    }
    self.shutdown = nil
    shutdown.continuation.resume(returning: names)
    return live == 0
  }

  /// Whether no job is queued that may run, and no worker has taken a job, begun or not. A worker that has
  /// not parked yet notifies the monitor when it does.
  private func isIdle(_ engine: Engine) -> Bool {
    guard let versions = idleVersions(engine) else { return false }
    if engine.pools.contains(where: { opp_has_ready(engine.core, $0.mask) }) { return false }
    // Where that missed a job because a worker W has taken it, the second look sees that W has begun. Each
    // step is by acquire and release, so it holds on any processor:
    // - Who reads that the job is taken (opp_queue_count(), fifo_peek()) acquires W's claim, and with it the
    //   step of W's state to RUNNING, which came before.
    // - Where the look read that itself, the second look sees W's step.
    // - Where it read a ready bit that another worker T had cleared, it acquired T's step to RUNNING. Either
    //   the first look did not see that one, and the second does. Or it saw T idle again, and acquired what T
    //   had read when it cleared the bit: W's claim, or the clearing of a worker before it.
    // The explorer's worlds "parking-idle" try it.
    return idleVersions(engine) == versions
  }

  private func idleVersions(_ engine: Engine) -> [UInt64]? {
    var versions: [UInt64] = []
    for case let worker? in engine.pools.flatMap(\.workers) {
      guard let version = worker.idleVersion else { return nil }
      versions.append(version)
    }
    return versions
  }
}
