internal import COpportune
internal import OpportuneBase
import Synchronization

/// A serial strand of jobs inside an app: a *thread* in the sense of the design, with its own priority and
/// its own quantum, the unit that is demoted (R-CPU-02, R-CPU-06). Never two of its jobs run at the same
/// time.
///
/// Give it to an actor as its executor, or submit closures to it. Jobs run in the order in which they were
/// queued. A strand runs in the highest band of those who wait for it: work of a foreground app that goes to
/// a background app's strand is served in the foreground.
///
/// How it works. The jobs wait in a queue of the C core, each producer's in a queue of its own. An entry in
/// the run queue, the token, says that the strand has something to do; who takes a token and finds nobody
/// running the strand, runs it. Where an app of a higher band waits, a second token stands in its place, and
/// the first of the two to be taken counts: so neither that app's suspension nor its end stops the strand.
/// That token comes back after each turn, and waits behind a runner, until the jobs that were queued from
/// higher bands have run.
///
/// Invariants
///  S1  At most one thread is the runner: the one that moved `state` to running.
///  S2  When a push is over, a token that will be taken after it is queued in the strand's own app, or there
///      is a runner, who will look at the queue once more after it has left. A pusher, or a runner who
///      leaves, relies on another's token only once that is in the queue, and until it is taken (`posted`),
///      so one that was stopped in between hides nobody's jobs; tokens may thus be queued twice, and who
///      finds nothing to do drops his.
///  S3  As long as a job waits or runs that was queued from a higher band (`donated`), a token of the app
///      that queued it is queued, or in the hands of a thread, or in `waiting`. Who puts one there sees a
///      runner afterwards, who will empty `waiting` after he has left, or empties it himself.
///  S4  Likewise who puts a job into `loose`; see Strand+Elsewhere.swift.
public final class Strand: SerialExecutor, @unchecked Sendable {
  /// The name it was made with.
  public let name: String

  let app: AppCore
  let identity: UInt64
  let base: BasePriority
  // The C core's queues are thread-safe.
  let queue: OpaquePointer
  /// Whether a token is queued in the own app, and whether somebody runs it; then two bits with the highest
  /// band that wants the run; above them a number that grows with each run, so that a poster who comes late
  /// cannot call a token posted that has been taken already.
  private let state = Atomic<UInt64>(0)
  /// The number of the thread that runs it, or 0; a number and no id, since the child of a fork() keeps it.
  let runner = Atomic<UInt64>(0)
  /// How many jobs that were queued from higher bands wait or run.
  // relaxed: who has a token has seen the count of its job.
  private let donated = Atomic<Int>(0)
  let waiting = LinkedStack<StrandToken>()
  let loose = LinkedStack<LooseJob>()
  /// In the child of a fork(): somebody runs what is in `loose`.
  let runsInChild = Atomic<Bool>(false)

  private static let posted: UInt64 = 1
  private static let running: UInt64 = 2
  private static let run: UInt64 = 16
  private static let number: UInt64 = ~15

  private static func band(of word: UInt64) -> Band { Band(rawValue: UInt8(word >> 2 & 3)) ?? .background }

  /// How long a strand may keep a worker before it goes to the back of the queue, in nanoseconds.
  private static let turn: UInt64 = 200_000

  init(app: AppCore, name: String, priority: TaskPriority) throws(SchedulerError) {
    guard let queue = opp_queue_create(app.engine.core) else {
      throw SchedulerError(.outOfMemory, "no memory for strand \"\(name)\"")
    }
    self.app = app
    self.name = name
    base = BasePriority(priority)
    self.queue = queue
    identity = app.engine.nextNumber() | Accounts.strandBit
  }

  deinit { opp_queue_destroy(queue, { job, _ in JobEntry(job).abandon() }, nil) }

  // MARK: Queueing

  /// Queues a job; called by the runtime. In the child of a `fork()` it runs on the caller's thread, also
  /// where a thread of the parent was inside a job of the strand: what that left half done is so there.
  public func enqueue(_ job: consuming ExecutorJob) {
    // The runtime lends this reference. The job that is queued below may end, and with it the actor that
    // keeps the strand, before this thread goes on.
    let held = Unmanaged.passRetained(self)
    defer { held.release() }
    let pointer = unsafeBitCast(UnownedJob(job), to: UnsafeMutableRawPointer.self)
    let entry = JobEntry(.task, pointer)
    let here = opp_thread_here(app.engine.core, app.engine.forks, app.raw)
    guard let producer = here.producer, add(entry, Worker.of(here.worker, engine: app.engine), producer)
    else {
      // A thread that is ending, a process without memory, the child of a fork(): the job must still run, and
      // alone.
      return runElsewhere(entry)
    }
  }

  /// Queues a closure behind what the strand has to do already. It runs once; or, if the scheduler is shut
  /// down first, `cancelled` is called once.
  ///
  /// - Parameters:
  ///   - cancelled: called instead of `body` if that will never run, on any thread.
  ///   - body: what to run.
  /// - Throws: ``SchedulerError``: `shutDown`, `forked`, `threadEnding`, `outOfMemory`; nothing is queued
  ///   then.
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

  /// Not in the child of a fork(): what is in the queue is the parent's.
  private func add(_ entry: JobEntry, _ worker: Worker?, _ producer: OpaquePointer) -> Bool {
    // The app that waits, if it stands higher than the strand's own. Mostly that is its own, which need not
    // be held.
    let other = worker.flatMap { $0.isInside(app) ? nil : $0.app }
    let donor = other.flatMap { $0.band > app.band ? $0 : nil }
    if donor != nil { donated.add(1, ordering: .relaxed) }
    // Of closures nobody waits for the end.
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
    // seqCst: after the push to the queue; a runner looks at the queue after it has left, so one of us sees
    // the other.
    let word = state.load(ordering: .sequentiallyConsistent)
    if word & Self.running != 0 {
      raise(to: app.band)
    } else if word & Self.posted == 0 {
      postToken(worker, producer, seen: word)
    }
    return true
  }

  /// A token waits for the runner to leave, or, where there is none, in its place.
  private func wait(_ token: StrandToken, _ worker: Worker?, _ producer: OpaquePointer) {
    waiting.push(token)
    // seqCst: after that push; a runner looks at `waiting` after it has left, so one of us queues the token.
    if state.load(ordering: .sequentiallyConsistent) & Self.running != 0 {
      raise(to: token.place.band)
    } else {
      postWaiting(worker, producer)
    }
  }

  /// Work of `band` waits for the runner: lets it run at that level, if it does not, and leave soon.
  private func raise(to band: Band) {
    var word = state.load(ordering: .relaxed)
    while word & Self.running != 0, band > Self.band(of: word) {
      let raised = word & ~12 | UInt64(band.rawValue) << 2
      // relaxed: one of those who want it tells the monitor.
      let (exchanged, original) = state.compareExchange(expected: word, desired: raised, ordering: .relaxed)
      if exchanged { return app.engine.monitor.post(.raise(identity, band)) }
      word = original
    }
  }

  /// Queues a token in the strand's own app.
  private func postToken(_ worker: Worker?, _ producer: OpaquePointer, seen word: UInt64) {
    let retained = Unmanaged.passRetained(self)
    let entry = JobEntry(.strand, retained.toOpaque(), base: base, queuedAt: app.statistics.stamp())
    guard push(entry, worker, producer, in: app) else {
      retained.release()
      return runElsewhere()
    }
    // A hint to later pushers, unless somebody has run it meanwhile. releasing: the token is in the queue.
    guard word & (Self.posted | Self.running) == 0 else { return }
    _ = state.compareExchange(expected: word, desired: word | Self.posted, ordering: .releasing)
  }

  /// Queues the tokens that wait, one in the place of each app that still stands higher; none where what they
  /// were made for has been done.
  private func postWaiting(_ worker: Worker?, _ producer: OpaquePointer) {
    var places: [AppCore] = []
    for token in waiting.takeAll() where donated.load(ordering: .relaxed) > 0 && token.place.band > app.band {
      guard !places.contains(where: { $0 === token.place }) else { continue }
      places.append(token.place)
      post(token, worker, producer, in: token.place)
    }
  }

  /// Without memory the token in the own app must do.
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
    let rank = engine.rank(base, band: place.band, depth: depth)
    let isOwn = worker?.isLeaving ?? false
    return place.push(entry, to: place.raw, rank: rank, producer: producer, by: isOwn ? worker : nil)
  }

  // MARK: Running

  /// - Parameter takesOwn: whether the caller has taken the token in the own app, which then is there no
  ///   more.
  func becomeRunner(in band: Band, takesOwn: Bool) -> Bool {
    var word = state.load(ordering: .relaxed)
    while true {
      let kept = takesOwn ? word & ~Self.posted : word
      let isFree = word & Self.running == 0
      let begun = (kept & (Self.number | Self.posted)) + Self.run + UInt64(band.rawValue) << 2 + Self.running
      let next = isFree ? begun : kept
      if next == word { return false }
      // What the last runner did is seen. Pairs with leave(), which sees that the token was taken, or is seen
      // here.
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

  /// Leaves. Returns the new state.
  func leave() -> UInt64 {
    runner.store(0, ordering: .relaxed)
    // seqCst: before the last looks at the queue, `waiting` and `loose`; see who adds to them. release: the
    // next runner sees what this one did.
    return state.bitwiseAnd(Self.number | Self.posted, ordering: .sequentiallyConsistent).newValue
  }

  /// A worker has taken a token: the one in the own app, or that of an app that waits.
  func run(on worker: Worker, for token: StrandToken? = nil) {
    guard let producer = worker.producer else { return runElsewhere() }
    // Its job has run.
    if token != nil, donated.load(ordering: .relaxed) == 0 { return }
    let isDonated = worker.app !== app
    guard isDonated ? app.enterDonated() : !app.state.suspended else {
      // It waits for the resumption in the own app's place.
      if let token { return post(token, nil, producer, in: app) }
      return postToken(worker, producer, seen: state.load(ordering: .sequentiallyConsistent))
    }
    defer { if isDonated { app.leaveDonated() } }
    let band = worker.app?.band ?? app.band
    guard becomeRunner(in: band, takesOwn: token == nil) else {
      if let token { wait(token, nil, producer) }
      return
    }
    // From the slice's beginning, which was timed; and a strand with nothing more to do needs no clock to
    // leave.
    let until = worker.report.began + Self.turn
    var job = opp_job()
    while opp_queue_take(queue, &job) {
      run(JobEntry(job), on: worker)
      if opp_queue_is_empty(queue) || opp_now_ns() > until || app.state.suspended { break }
      // A higher band waits, or the one in whose place this runs waits no more.
      if Self.band(of: state.load(ordering: .relaxed)) > band
        || isDonated && donated.load(ordering: .relaxed) == 0
      {
        break
      }
      worker.goesOn()
    }
    if let token { waiting.push(token) }
    leave(producer)
  }

  /// Leaves, and sees to it that somebody runs what is still there.
  func leave(_ producer: OpaquePointer) {
    let word = leave()
    postWaiting(nil, producer)
    if word & Self.posted == 0, !opp_queue_is_empty(queue) { postToken(nil, producer, seen: word) }
    if !loose.isEmpty { runElsewhere(all: false) }
  }

  /// - Parameter worker: nil elsewhere, where closures are cancelled once the scheduler is closed.
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
    // Not before: who waits for it raises who runs it.
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
