internal import COpportune
import Glibc
import Synchronization

/// The one thread that watches: it looks at running jobs once a quantum while there are any, at stalled pools
/// when somebody has asked, and at timers when they are due. With everything asleep it sleeps too.
///
/// It is woken by one-shot alarms, so asking it to look costs the asker a system call of 0.3 µs and wakes
/// nobody. What is policy here is in ``QuantumAccount`` and ``KernelPriority``; the monitor measures and
/// carries out.
final class Monitor: @unchecked Sendable {
  enum Message {
    case spawn(PoolState)
    case ended(Worker)
    case ready(level: UInt8)
    /// An app changed its band: what runs of it changes its class.
    case reclassify
    /// Work of a higher band waits for the strand of this identity, which is running.
    case raise(UInt64, Band)
    /// Somebody may be waiting for an app to become quiet.
    case checkWaiters
    case waitForQuiet(AppCore, Wait)
    /// Foreground work of the app of that number waits for this one, which is suspended.
    case awaited(AppRecord, by: UInt64)
    case timer(SleepTimer)
    /// The sleep ended early: the timer's place is free.
    case cancelled(SleepTimer)
    case added(AppRecord)
    case snapshot(CheckedContinuation<Snapshot, Never>)
    case cpuTime(AppCore, CheckedContinuation<UInt64, Never>)
    case shutDown(within: Duration, CheckedContinuation<[String], Never>)
  }

  /// What the monitor knows that statistics tell.
  struct Snapshot {
    var apps: [AppRecord] = []
    var timers = 0
    /// When it wakes up for one; `.max` is never. For tests.
    var alarm = UInt64.max
  }

  private final class Envelope {
    let message: Message
    init(_ message: Message) { self.message = message }
  }

  private enum Alarm: UInt32 { case tick, watch, timers }

  // The C objects are thread-safe; everything else is the thread's own.
  private let alarms: OpaquePointer
  private let inbox: OpaquePointer
  private let nextFire = Atomic<UInt64>(.max)
  private let cancellations = Atomic<UInt64>(0)
  /// The thread is gone: whoever posts answers by itself.
  private let hasEnded = Atomic<Bool>(false)
  private var engine: Engine?
  private var timers = TimerHeap<SleepTimer>()
  /// When the alarm of the timers goes off; `.max` is never.
  private var alarmedAt = UInt64.max
  var seen: [ObjectIdentifier: Seen] = [:]
  var lookedAt: [ObjectIdentifier: Look] = [:]
  private var quietWaiters: [(app: AppCore, wait: Wait)] = []
  private var shutdown: (deadline: UInt64, continuation: CheckedContinuation<[String], Never>)?
  var apps: [AppRecord] = []
  /// How many there must be before those that are gone are looked for.
  private var appsToSweep = 16
  var live = 0
  /// The kernel's answer when it last refused a thread.
  var threadError: Int32 = 0
  /// What it says of threads beforehand, and how many workers that leaves; nil is no limit.
  var threadLimits = ThreadLimits()
  var predictedWorkers: Int?
  /// How many workers there were when it refused one, and some more for the time since; nil where it refused
  /// none.
  var provenWorkers: Int?
  var hasWarnedOfThreads = false
  /// Waits for suspended apps.
  var suspendedWaits: [SuspendedWait] = []
  /// The workers are started: the thread begins.
  let isSetUp = Atomic<Bool>(false)
  var lastLimits: UInt64 = 0
  var quantum: UInt64 = 10_000_000
  var spareDelay: UInt64 = 500_000

  init() throws(SchedulerError) {
    guard let alarms = opp_alarms_create(), let inbox = opp_inbox_create() else {
      throw SchedulerError(
        .threadsUnavailable, "the kernel gave no timer descriptors (is the limit of open files reached?)")
    }
    self.alarms = alarms
    self.inbox = inbox
  }

  deinit {
    opp_inbox_destroy(inbox) { Unmanaged<Envelope>.fromOpaque($0).release() }
    opp_alarms_destroy(alarms)
  }

  static func from(_ context: UnsafeMutableRawPointer?) -> Monitor? {
    context.map { Unmanaged<Monitor>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Starts the thread, and the workers.
  func start(_ engine: Engine) throws(SchedulerError) {
    self.engine = engine
    quantum = UInt64(engine.configuration.quantum.quantumNanoseconds)
    spareDelay = UInt64(engine.configuration.spareDelay.clampedNanoseconds)
    setWatchDelay(spareDelay, engine)
    lastLimits = opp_now_ns()
    followThreadLimits(engine)
    // The monitor's own first, which waits for the rest; then one for each pool, and so on: there may be few.
    let isWatched = startThread(engine)
    if isWatched { startWorkers(engine) }
    // What is queued for a pool without a worker might wait for ever.
    if isWatched, engine.pools.allSatisfy({ $0.liveWorkers > 0 }) { return begin() }
    engine.close()
    self.engine = nil
    // The workers end now, and nobody reads what they post.
    for pool in engine.pools { pool.workers = [] }
    // relaxed: see push().
    hasEnded.store(true, ordering: .relaxed)
    for message in messages() { answerLate(message) }
    let (given, wanted) = (isWatched ? live + 1 : 0, engine.pools.count * (engine.width + 1) + 1)
    begin()
    throw SchedulerError(
      .threadsUnavailable,
      "the kernel gave \(given) of \(wanted) threads, then error \(threadError); one for each pool and one to watch them "
        + "are the least (is a limit of processes or threads reached?)")
  }

  private func begin() {
    // [set up] releasing: what start() did is seen by run().
    isSetUp.store(true, ordering: .releasing)
    ring()
  }

  private func startThread(_ engine: Engine) -> Bool {
    let result = engine.startThread(
      engine.configuration.name + "-mon", 256 << 10,
      { Unmanaged<Monitor>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(self).toOpaque())
    if result == 0 { return true }
    Unmanaged.passUnretained(self).release()
    threadError = -result
    return false
  }

  // MARK: Any thread

  func post(_ message: Message) {
    push(message)
    ring()
  }

  private func push(_ message: Message) {
    let envelope = Unmanaged.passRetained(Envelope(message))
    // Without memory for a list entry it is answered as if the scheduler were shut down; of what needs no
    // answer, the tick and the next message make up for it.
    if opp_inbox_push(inbox, envelope.toOpaque()) != 0 { answerLate(envelope.takeRetainedValue().message) }
    // relaxed: if the inbox was fetched for the last time before this push, then the push has read what that
    // fetch wrote into the same word (acq_rel both), and `hasEnded` was stored before it. Else that fetch has
    // the message.
    if hasEnded.load(ordering: .relaxed) { for message in messages() { answerLate(message) } }
  }

  func ring() { opp_alarms_notify(alarms) }

  /// A worker is inside a job: look at it in a quantum.
  func armTick() { opp_alarms_arm(alarms, Alarm.tick.rawValue, quantum + 100_000) }

  /// The pool's workers take from `core`. Where something waits in it while all tokens are in use it is
  /// looked at in a while; the background's pool once a quantum, by the tick.
  func serve(_ pool: PoolState, _ core: OpaquePointer) {
    opp_pool_serve(pool.raw, core, pool.pool == .background ? nil : alarms, Alarm.watch.rawValue)
  }

  /// How long after a stall may have begun to look: the spare worker's delay, or, where jobs ordinarily take
  /// longer and looks would only disturb them, half of what that delay has become.
  private func setWatchDelay(_ delay: UInt64, _ engine: Engine) {
    for pool in engine.pools { opp_pool_set_watch_delay(pool.raw, delay) }
  }

  /// A timer that must fire before the monitor would look by itself makes it look now.
  func add(_ timer: SleepTimer) {
    push(.timer(timer))
    // seqCst: the push comes before this look; the monitor publishes before its last look at the inbox.
    if timer.latest < nextFire.load(ordering: .sequentiallyConsistent) { ring() }
  }

  /// The sleep of `timer` was cancelled. The monitor takes it out when it is awake for something else, or
  /// when there are many.
  func cancel(_ timer: SleepTimer) {
    push(.cancelled(timer))
    // relaxed: it only counts.
    if cancellations.add(1, ordering: .relaxed).newValue % 64 == 0 { ring() }
  }

  // MARK: The thread

  /// What has rung until `isOver`. The program may submit jobs before this thread has heard that all is set
  /// up, and their alarms go off but once: none may be lost with that word.
  static func gather(until isOver: () -> Bool, _ wait: () -> UInt32) -> UInt32 {
    var rung: UInt32 = 0
    while !isOver() { rung |= wait() }
    return rung
  }

  private func run() {
    // [set up] acquiring.
    var rung = Self.gather(until: { isSetUp.load(ordering: .acquiring) }, { opp_alarms_wait(alarms) })
    guard let engine else { return }
    _ = opp_thread_set_timer_slack(1)
    KernelPriority.monitor(engine.configuration.pools, engine.privileges).applyToNewThread()
    ring()
    while true {
      rung |= opp_alarms_wait(alarms)
      defer { rung = 0 }
      if rung & (1 << Alarm.timers.rawValue) != 0 { alarmedAt = .max }  // it goes off once
      fetch(engine)
      if rung & (1 << Alarm.tick.rawValue) != 0 { tick(engine) }
      if rung & (1 << Alarm.watch.rawValue) != 0 {
        for pool in engine.pools { watch(pool, engine) }
        let shortest = engine.pools.filter { $0.pool != .background }.map(\.spareDelay).min() ?? spareDelay
        setWatchDelay(max(spareDelay, shortest / 2), engine)
      }
      fireTimers(orAt: min(startLacking(engine), warnOfSuspendedWaits(engine)))
      checkWaiters()
      if checkShutdown(engine) { break }
    }
    fetch(engine)
    for timer in timers.popDue(now: .max) { timer.end() }
    for waiter in quietWaiters { waiter.wait.end() }
    quietWaiters = []
    self.engine = nil
    // From here on nobody changes `apps`. relaxed: see push().
    hasEnded.store(true, ordering: .relaxed)
    for message in messages() { answerLate(message) }
  }

  /// The answer of a scheduler that is shut down; any thread, when the monitor's own has ended.
  private func answerLate(_ message: Message) {
    switch message {
    case .waitForQuiet(_, let wait): wait.end()
    case .snapshot(let continuation): continuation.resume(returning: snapshot)
    case .cpuTime(let app, let continuation): continuation.resume(returning: app.statistics.cpuNanoseconds)
    case .shutDown(_, let continuation): continuation.resume(returning: [])
    case .timer(let timer): timer.end()
    case .spawn, .ended, .ready, .reclassify, .raise, .checkWaiters, .awaited, .cancelled, .added: break
    }
  }

  /// Takes what was posted, oldest first.
  private func messages() -> [Message] {
    var messages: [Message] = []
    withUnsafeMutablePointer(to: &messages) { list in
      opp_inbox_fetch(
        inbox,
        { message, context in
          let envelope = Unmanaged<Envelope>.fromOpaque(message).takeRetainedValue()
          context?.assumingMemoryBound(to: [Message].self).pointee.append(envelope.message)
        }, list)
    }
    return messages
  }

  private func fetch(_ engine: Engine) {
    for message in messages() { handle(message, engine) }
  }

  private func handle(_ message: Message, _ engine: Engine) {
    switch message {
    case .spawn(let pool):
      if opp_pool_sleeping(pool.raw) == 0 { _ = spawn(pool, engine) }
    case .ended(let worker):
      worker.pool.workers[Int(worker.slot)] = nil
      seen[ObjectIdentifier(worker)] = nil
      lookedAt[ObjectIdentifier(worker)] = nil
      live -= 1
      // It may have given back a job that it took before the queues were emptied.
      guard !engine.isClosed else { return engine.dropIfClosed() }
      if !worker.hasWorked { lacked(ENOMEM, worker.pool, engine) }
      if !isUnlimited { shareThreads(engine) }
      if opp_pool_sleeping(worker.pool.raw) == 0 { _ = spawn(worker.pool, engine) }
      // It did not look at the queues after it gave its token back.
      engine.wakeIfReady(worker.pool)
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
      // Not at each: many are made one after the other.
      if apps.count == appsToSweep {
        apps.removeAll(where: \.isGone)
        appsToSweep = 2 * max(apps.count, 16)
      }
      apps.append(app)
    case .snapshot(let continuation):
      continuation.resume(returning: snapshot)
    case .cpuTime(let app, let continuation):
      let running = engine.pools.reduce(0) { $0 &+ cpuTimeRunning(of: app, in: $1) }
      continuation.resume(returning: app.statistics.cpuNanoseconds &+ running)
    case .timer(let timer):
      guard !timer.isOver else { break }
      timer.place = timers.insert(deadline: timer.deadline, tolerance: timer.tolerance, payload: timer)
    case .cancelled(let timer):
      if let place = timer.place { timers.cancel(place) }
    case .shutDown(let limit, let continuation):
      let deadline = opp_now_ns().saturatingAdd(UInt64(max(0, limit.clampedNanoseconds)))
      shutdown = (deadline, continuation)
      setAlarm(min(deadline, alarmedAt))
    }
  }

  private var snapshot: Snapshot {
    Snapshot(apps: apps.filter { !$0.isGone }, timers: timers.count, alarm: alarmedAt)
  }

  /// CPU time, in nanoseconds, of the slices of an app that run now.
  private func cpuTimeRunning(of app: AppCore, in pool: PoolState) -> UInt64 {
    pool.workers.reduce(0) { sum, worker in
      guard let worker, let reading = worker.report.read(),
        reading.app == app.raw || reading.app == app.runner
      else { return sum }
      // It is of the thread: of this slice only if that still runs.
      guard let cpu = worker.report.cpuTime, worker.report.isStillInside(reading) else { return sum }
      return sum &+ cpu.saturatingSubtract(reading.cpuBefore)
    }
  }

  // MARK: Timers and waiters

  /// - Parameter other: a time at which the monitor is to be awake besides.
  private func fireTimers(orAt other: UInt64) {
    let now = opp_now_ns()
    for timer in timers.popDue(now: now) {
      if !timer.isOver { timer.hasFired.store(true, ordering: .relaxed) }  // a fact of its own
      timer.end()
    }
    let next = timers.nextFire ?? .max
    nextFire.store(next, ordering: .sequentiallyConsistent)
    // Also to never: what was cancelled wakes it once at most, where nothing rang for it before.
    setAlarm(min(next, other, shutdown?.deadline ?? .max))
    // The last look, after `nextFire` was published; see add().
    if let engine { fetchTimers(engine, published: min(next, other)) }
  }

  private func setAlarm(_ time: UInt64) {
    guard time != alarmedAt else { return }
    alarmedAt = time
    opp_alarms_set(alarms, Alarm.timers.rawValue, time)
  }

  private func fetchTimers(_ engine: Engine, published: UInt64) {
    fetch(engine)
    if min(timers.nextFire ?? .max, nextStart(engine), nextSuspendedLook) < published { ring() }
  }

  private func checkWaiters() {
    quietWaiters.removeAll { app, wait in
      // Resumed meanwhile counts as an end of the wait too; one that is over was cancelled.
      guard wait.isOver || app.isQuiet || !app.state.suspended else { return false }
      wait.end()
      return true
    }
  }

  // MARK: Shutdown

  /// True when the thread is to end.
  private func checkShutdown(_ engine: Engine) -> Bool {
    guard let shutdown else { return engine.isClosed && live == 0 }
    let expired = opp_now_ns() >= shutdown.deadline
    if !engine.isClosed {
      guard expired || isIdle(engine) else { return false }
      // Closures that are cancelled are the program's code, which does not run before all else on the
      // machine.
      _ = engine.priority(of: .foreground).apply(to: 0)
      engine.close()
    }
    guard live == 0 || expired else { return false }
    let names = engine.pools.flatMap { $0.workers }.compactMap { worker in
      app(at: worker?.report.read()?.app)?.name
    }
    self.shutdown = nil
    shutdown.continuation.resume(returning: names)
    return live == 0
  }

  /// Whether nothing is queued that may run, and no worker has a job in hand, begun or not. A worker that has
  /// not come to rest yet rings when it has.
  private func isIdle(_ engine: Engine) -> Bool {
    guard let turns = idleTurns(engine) else { return false }
    if engine.pools.contains(where: { opp_has_ready(engine.core, $0.mask) }) { return false }
    // [claim] acquiring: where that missed a job because a worker has taken it, the standing that the worker
    // got before is seen now. Pairs with the release of fifo_claim(), whose `head` the look reads relaxed
    // (opp_queue_count()): an order there would be paid for by each worker that parks, for this one
    // reader. Where a third thread has found the queue empty, and cleared a hint, the language's model
    // promises less than x86 and Arm, on which a store is seen by all at once; the job would go on in the
    // global pool. ThreadSanitizer sees no fence, and need not: no plain access relies on it.
    atomicMemoryFence(ordering: .acquiring)
    return idleTurns(engine) == turns
  }

  private func idleTurns(_ engine: Engine) -> [UInt64]? {
    var turns: [UInt64] = []
    for case let worker? in engine.pools.flatMap(\.workers) {
      guard let turn = worker.idleTurn else { return nil }
      turns.append(turn)
    }
    return turns
  }
}
