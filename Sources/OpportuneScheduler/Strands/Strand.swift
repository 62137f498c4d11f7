internal import COpportune
internal import OpportuneBase
import Synchronization

/// A serial executor inside an app: the *thread* of the requirements, with its own priority and its own
/// quantum. It is the unit that is demoted (R-CPU-02, R-CPU-06). Two of its jobs never run at the same time.
///
/// Use it as the executor of an actor, or submit closures to it. Jobs run in the order in which they were
/// queued. A strand runs in the highest band of the apps that wait for it: work of a foreground app that
/// calls into a background app's strand is served in the foreground. With a *ceiling* it is never served
/// below that band, whoever calls. So none of its jobs loses its CPU to the foreground half done.
///
/// How it works. The jobs wait in a queue of the C core, with one fifo for each producer. An entry in the run
/// queue, the token, says that the strand has something to do. A worker that takes a token becomes the
/// runner, unless the strand has one. Where an app of a higher band waits, a second token is queued in that
/// app; whichever token is taken first runs the strand. So neither the suspension nor the end of that app
/// stops the strand. The second token is queued again after each turn, or waits while there is a runner,
/// until all jobs that were queued from higher bands have run.
///
/// With a ceiling above the app's band the token is queued in a place of its own in the ceiling's band
/// (`home`). It is queued in the app's place only while the app is suspended.
///
/// Invariants
/// - S1. At most one thread is the runner: the one that changed `state` to running.
/// - S2. After a push, one of two holds. Either a token is queued in the strand's own app, or at its
///   ceiling, and will be taken later. Or there is a runner, which will look at the queue once more after
///   it has left. A pusher, or a leaving runner, may rely on another thread's token only while that token is
///   in the queue (`posted`). So a thread that is stopped in between hides no jobs.
///   Tokens may therefore be queued twice; a thread that finds nothing to do drops its token.
/// - S3. As long as a job waits or runs that was queued from a higher band (`donated`), a token of the app
///   that queued it is in the run queue, or held by a thread, or in `waiting`. A thread that pushes to
///   `waiting` reads the state afterwards. Either it sees a runner, which will empty `waiting` after it has
///   left, or it empties `waiting` itself.
/// - S4. The same holds for a job that is pushed to `loose`; see Strand+Elsewhere.swift.
public final class Strand: SerialExecutor, @unchecked Sendable {
  /// The name given at creation.
  public let name: String

  let app: AppCore
  /// The place of its ceiling, if it has one.
  private let ceiling: AppCore?
  let identity: UInt64
  let base: BasePriority
  // The C core's queues are thread-safe.
  let queue: OpaquePointer
  /// Bit 0: a token is queued in the own app. Bit 1: there is a runner. Bits 2-3: the highest band that wants
  /// the run. Above them a number that grows with each run: with it, a pusher that comes late cannot set
  /// `posted` for a token that has already been taken.
  private let state = Atomic<UInt64>(0)
  /// The number of the thread that runs it, or 0.
  let runner = Atomic<UInt64>(0)
  /// The number of jobs from higher bands that wait or run.
  // relaxed: a thread that has taken a token has seen the increment for its job.
  private let donated = Atomic<Int>(0)
  let waiting = LinkedStack<StrandToken>()
  /// Who was asked for something by a job that blocks its thread, and with it the strand.
  let listeners = LinkedStack<DonationNode>()
  let loose = LinkedStack<LooseJob>()

  private static let posted: UInt64 = 1
  private static let running: UInt64 = 2
  private static let run: UInt64 = 16
  private static let number: UInt64 = ~15

  private static func band(of word: UInt64) -> Band { Band(rawValue: UInt8(word >> 2 & 3)) ?? .background }

  /// How long a strand may keep a worker before its token goes to the back of the queue, in nanoseconds.
  private static let turn: UInt64 = 200_000

  init(app: AppCore, name: String, priority: TaskPriority, ceiling: Band? = nil) throws(SchedulerError) {
    self.ceiling = if let ceiling { try app.queue(fixedTo: ceiling) } else { nil }
    guard let queue = opp_queue_create(app.engine.core) else {
      throw SchedulerError(.outOfMemory, "no memory for strand \"\(name)\"")
    }
    self.app = app
    self.name = name
    base = BasePriority(priority)
    self.queue = queue
    identity = app.engine.nextNumber() | DemotionAccounts.strandBit
  }

  /// Where it is queued: at its ceiling, unless its app stands as high.
  private var home: AppCore {
    guard let ceiling, ceiling.band > app.band else { return app }
    return ceiling
  }

  deinit { opp_queue_destroy(queue, { job, _ in JobEntry(job).abandon() }, nil) }

  // MARK: Queueing

  /// Queues a job; called by the runtime.
  public func enqueue(_ job: consuming ExecutorJob) {
    // The runtime passes this object unretained. The queued job may run and release the actor, and with it
    // the strand, before this call returns.
    let held = Unmanaged.passRetained(self)
    defer { held.release() }
    let pointer = unsafeBitCast(UnownedJob(job), to: UnsafeMutableRawPointer.self)
    let entry = JobEntry(.task, pointer)
    let here = opp_thread_here(app.engine.core, app.raw)
    guard let producer = here.producer, add(entry, Worker.of(here.worker, engine: app.engine), producer)
    else {
      // A thread that is ending, a process without memory: the job must still run, and alone.
      return runElsewhere(entry)
    }
  }

  /// Queues a closure behind the jobs that the strand has already. It runs once; if the scheduler is shut
  /// down first, `cancelled` is called once instead.
  ///
  /// - Parameters:
  ///   - cancelled: called instead of `body` if `body` will never run; on any thread.
  ///   - body: what to run.
  /// - Throws: ``SchedulerError``: `shutDown`, `threadEnding`, `outOfMemory`; nothing is queued then.
  public func submit(
    onCancel cancelled: (@Sendable () -> Void)? = nil, _ body: @escaping @Sendable () -> Void
  ) throws(SchedulerError) {
    let (_, producer, worker) = try app.engine.submitter(to: app.raw)
    let closure = Unmanaged.passRetained(
      Closure(app: app, identity: identity, body: body, cancelled: cancelled))
    guard add(JobEntry(.closure, closure.toOpaque()), worker, producer) else {
      closure.release()
      throw SchedulerError(.outOfMemory, "no memory to queue a closure on strand \"\(name)\"")
    }
    app.statistics.add(.submitted, 1, in: app.band)
  }

  /// Adds an entry to the strand's queue.
  private func add(_ entry: JobEntry, _ worker: Worker?, _ producer: OpaquePointer) -> Bool {
    // The app that waits, if its band is higher than the strand's. Usually the job comes from the strand's
    // own app, which need not be retained.
    let other = worker.flatMap { $0.isInside(app) ? nil : $0.app }
    let donor = other.flatMap { $0.band > home.band ? $0 : nil }
    if donor != nil { donated.add(1, ordering: .relaxed) }
    // Nothing waits for the end of a closure.
    let isAwaited = entry.kind == .task && other != nil
    if isAwaited, let other { app.beginWait(of: other) }
    guard
      opp_queue_push(queue, producer, JobEntry(entry, isDonated: donor != nil, isAwaited: isAwaited).raw) == 0
    else {
      if donor != nil { donated.subtract(1, ordering: .relaxed) }
      if isAwaited { app.record.endWait() }
      return false
    }
    guard app.engine.isOpen else {
      runElsewhere()
      return true
    }
    if let donor { wait(StrandToken(self, in: donor), worker, producer) }
    // seqCst: the push to the queue precedes this load. A runner reads the queue after leave(), so one of the
    // two sees the other.
    let word = state.load(ordering: .sequentiallyConsistent)
    if word & Self.running != 0 {
      raise(to: home.band)
    } else if word & Self.posted == 0 {
      postToken(worker, producer, seen: word)
    }
    return true
  }

  /// Stores a token until the runner leaves, or queues it at once where there is no runner.
  private func wait(_ token: StrandToken, _ worker: Worker?, _ producer: OpaquePointer) {
    waiting.push(token)
    // seqCst: the push to `waiting` precedes this load. A runner reads `waiting` after leave(), so one of the
    // two queues the token.
    if state.load(ordering: .sequentiallyConsistent) & Self.running != 0 {
      raise(to: token.place.band)
    } else {
      postWaiting(worker, producer)
    }
  }

  /// Work of `band` waits for the runner: raises the runner to that band, if it runs in a lower one, and has
  /// it leave soon.
  private func raise(to band: Band) {
    var word = state.load(ordering: .relaxed)
    while word & Self.running != 0, band > Self.band(of: word) {
      let raised = word & ~12 | UInt64(band.rawValue) << 2
      // Exactly one of several raising threads notifies the monitor and the listeners. seqCst: before the
      // look for listeners; see Standing.swift. releasing: `donated` has grown before.
      let (exchanged, original) = state.compareExchange(
        expected: word, desired: raised, successOrdering: .sequentiallyConsistent, failureOrdering: .relaxed)
      if exchanged {
        app.engine.monitor.post(.raise(identity, band))
        return listeners.tell()
      }
      word = original
    }
  }

  /// The band of those that wait for the running job, or for one behind it; nil where nobody waits who stands
  /// higher.
  var donatedBand: Band? {
    // seqCst: pairs with raise().
    let word = state.load(ordering: .sequentiallyConsistent)
    guard word & Self.running != 0, donated.load(ordering: .relaxed) > 0 else { return nil }
    return Self.band(of: word)
  }

  /// Queues a token in the strand's own app, or at its ceiling.
  private func postToken(
    _ worker: Worker?, _ producer: OpaquePointer, seen word: UInt64, in place: AppCore? = nil
  ) {
    let retained = Unmanaged.passRetained(self)
    let entry = JobEntry(.strand, retained.toOpaque(), base: base, queuedAt: app.statistics.stamp())
    guard push(entry, worker, producer, in: place ?? home) else {
      retained.release()
      return runElsewhere()
    }
    // A hint for later pushers, unless the strand has run meanwhile. releasing: the token is in the queue
    // before.
    guard word & (Self.posted | Self.running) == 0 else { return }
    _ = state.compareExchange(expected: word, desired: word | Self.posted, ordering: .releasing)
  }

  /// Queues the waiting tokens, one for each app whose band is still higher. Queues none if all jobs from
  /// higher bands have run.
  private func postWaiting(_ worker: Worker?, _ producer: OpaquePointer) {
    var places: [AppCore] = []
    for token in waiting.takeAll() where donated.load(ordering: .relaxed) > 0 && token.place.band > home.band
    {
      guard !places.contains(where: { $0 === token.place }) else { continue }
      places.append(token.place)
      post(token, worker, producer, in: token.place)
    }
  }

  /// If memory is short, the token in the strand's own app must suffice.
  private func post(_ token: StrandToken, _ worker: Worker?, _ producer: OpaquePointer, in place: AppCore) {
    let retained = Unmanaged<QueuedObject>.passRetained(token)
    let entry = JobEntry(.object, retained.toOpaque(), base: base, queuedAt: nil)
    if !push(entry, worker, producer, in: place) { retained.release() }
  }

  private func push(_ entry: JobEntry, _ worker: Worker?, _ producer: OpaquePointer, in place: AppCore)
    -> Bool
  {
    let engine = app.engine
    let depth = engine.accounts.depth(
      ofQueued: identity, submitter: nil, movesOn: false, origin: nil, app: app)
    let band = place.band
    let rank = engine.rank(base, band: band, depth: depth)
    let isOwn = worker?.isLeaving ?? false
    return place.push(entry, to: place.raw, band, rank: rank, producer: producer, by: isOwn ? worker : nil)
  }

  // MARK: Running

  /// Makes the calling thread the runner. Returns false if there is one.
  ///
  /// - Parameter takesOwn: whether the caller has taken the token from the strand's own app, so that it is
  ///   queued no more.
  func becomeRunner(in band: Band, takesOwn: Bool) -> Bool {
    var word = state.load(ordering: .relaxed)
    while true {
      let kept = takesOwn ? word & ~Self.posted : word
      let isFree = word & Self.running == 0
      let begun = (kept & (Self.number | Self.posted)) + Self.run + UInt64(band.rawValue) << 2 + Self.running
      let next = isFree ? begun : kept
      if next == word { return false }
      // seqCst; acquires what the last runner did. Pairs with leave(): either leave() sees that the token was
      // taken, or this thread sees that the runner has left.
      let (exchanged, original) = state.compareExchange(
        expected: word, desired: next, ordering: .sequentiallyConsistent)
      if exchanged {
        if isFree { runner.store(opp_thread_number(), ordering: .relaxed) }
        return isFree
      }
      word = original
    }
  }

  var hasRunner: Bool { state.load(ordering: .sequentiallyConsistent) & Self.running != 0 }

  /// Ends the caller's role as runner. Returns the new state.
  func leave() -> UInt64 {
    runner.store(0, ordering: .relaxed)
    // seqCst: precedes the last reads of the queue, `waiting` and `loose`; pairs with the threads that push
    // to these. release: publishes what this runner did to the next one.
    return state.bitwiseAnd(Self.number | Self.posted, ordering: .sequentiallyConsistent).newValue
  }

  /// Called by a worker that has taken a token: the own app's (nil), or that of a waiting app.
  func run(on worker: Worker, for token: StrandToken? = nil) {
    guard let producer = worker.producer else { return runElsewhere() }
    // All jobs from higher bands have run.
    if token != nil, donated.load(ordering: .relaxed) == 0 { return }
    let isDonated = worker.app !== app
    guard isDonated ? app.enterDonated() : !app.state.suspended else {
      // The strand's own token waits in its app until the app is resumed.
      if let token { return post(token, nil, producer, in: app) }
      let word = state.load(ordering: .sequentiallyConsistent)
      return postToken(worker, producer, seen: word, in: app)
    }
    // The app was suspended, or has been moved since the token was queued: the token goes to the ceiling. The
    // worker's pool counts as well, since the app may have risen after a background worker took the token.
    if !isDonated, let ceiling, home !== app || worker.pool.pool.rawValue < ceiling.band.rawValue {
      if let token { return post(token, nil, producer, in: ceiling) }
      let word = state.load(ordering: .sequentiallyConsistent)
      return postToken(nil, producer, seen: word, in: ceiling)
    }
    defer { if isDonated { app.leaveDonated() } }
    let band = worker.app?.band ?? app.band
    guard becomeRunner(in: band, takesOwn: token == nil) else {
      if let token { wait(token, nil, producer) }
      return
    }
    worker.begins(self)
    // The turn counts from the slice's beginning, which is already timed. If the queue is empty after a job,
    // no clock is read.
    let until = worker.report.began + Self.turn
    var job = opp_job()
    while opp_queue_take(queue, &job) {
      run(JobEntry(job), on: worker)
      if opp_queue_is_empty(queue) || opp_now_ns() > until || app.state.suspended { break }
      // An app of a higher band waits, or the app in whose queue the token was no longer waits.
      if Self.band(of: state.load(ordering: .relaxed)) > band
        || isDonated && worker.app !== ceiling && donated.load(ordering: .relaxed) == 0
      {
        break
      }
      worker.goesOn()
    }
    worker.begins(nil)
    if let token { waiting.push(token) }
    leave(producer)
  }

  /// Ends the caller's role as runner, and queues tokens for what remains.
  func leave(_ producer: OpaquePointer) {
    let word = leave()
    postWaiting(nil, producer)
    if word & Self.posted == 0, !opp_queue_is_empty(queue) { postToken(nil, producer, seen: word) }
    if !loose.isEmpty { runElsewhere(all: false) }
  }

  /// - Parameter worker: nil outside the workers, where closures are cancelled once the scheduler is closed.
  func run(_ entry: JobEntry, on worker: Worker? = nil) {
    if entry.isAwaited { app.record.endWait() }
    if entry.kind != .closure {
      unsafeBitCast(entry.pointer, to: UnownedJob.self).runSynchronously(on: asUnownedSerialExecutor())
    } else if let worker {
      worker.run(Unmanaged<Closure>.fromOpaque(entry.pointer))
    } else if app.engine.isClosed {
      entry.abandon()
    } else {
      Unmanaged<Closure>.fromOpaque(entry.pointer).takeRetainedValue().run()
    }
    // Only after the job: while `donated` is positive, waiting apps raise the runner.
    if entry.isDonated { donated.subtract(1, ordering: .relaxed) }
  }

  // MARK: Isolation

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

  /// Whether the caller runs on this strand.
  public func isIsolatingCurrentContext() -> Bool? { runner.load(ordering: .relaxed) == opp_thread_number() }

  public func checkIsolated() {
    precondition(
      isIsolatingCurrentContext() == true, "this code must run on strand \"\(name)\", and does not")
  }
}
