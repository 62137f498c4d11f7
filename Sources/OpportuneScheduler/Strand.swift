internal import COpportune
import Dispatch
import Synchronization

/// A serial strand of jobs inside an app: a *thread* in the sense of the design, with its own priority and its own
/// quantum, the unit that is demoted (R-CPU-02, R-CPU-06). Never two of its jobs run at the same time.
///
/// Give it to an actor as its executor, or submit closures to it. Jobs run in the order in which they were queued. A
/// strand runs in the highest band of those who wait for it: work of a foreground app that goes to a background app's
/// strand is served in the foreground.
///
/// How it works. The jobs wait in a bag of the C core, each source's in a queue of its own. An entry in the run queue,
/// the token, says that the strand has something to do; who takes a token and finds nobody running the strand, runs it.
/// Where an app of a higher band waits, a second token stands in its place, and the first of the two to be taken counts:
/// so neither that app's suspension nor its end stops the strand.
///
/// Invariants
///  S1  At most one thread is the runner: the one that moved `state` to running.
///  S2  When a push is over, a token that will be taken after it is queued in the strand's own app, or there is a
///      runner, who will look at the bag once more after it has left. A pusher relies on another's token only once that is in the queue (`posted`),
///      so one that was stopped in between hides nobody's jobs; tokens may thus be queued twice, and who finds nothing
///      to do drops his.
public final class Strand: SerialExecutor, @unchecked Sendable {
  /// The name it was made with.
  public let name: String

  let app: AppCore
  let identity: UInt64
  private let priority: TaskPriority
  // The C core's bags are thread-safe.
  private let bag: OpaquePointer
  /// A ``Phase`` in the low two bits; then two with the band in which it runs; above them a number that grows with each
  /// run, so that a poster who comes late cannot call a token posted that has been taken already.
  private let state = Atomic<UInt64>(0)
  private let runner = Atomic<Int>(0)

  private enum Phase: UInt64 { case idle, posted, running }
  private static let run: UInt64 = 16
  private static let number: UInt64 = ~15

  private static func band(of word: UInt64) -> Band { Band(rawValue: UInt8(word >> 2 & 3)) ?? .background }

  private static func phase(of word: UInt64) -> Phase { Phase(rawValue: word & 3) ?? .running }

  /// How long a strand may keep a worker before it goes to the back of the queue, in nanoseconds.
  private static let turn: UInt64 = 200_000

  init(app: AppCore, name: String, priority: TaskPriority) throws(SchedulerError) {
    guard let bag = opp_bag_create(app.engine.core) else {
      throw SchedulerError(.outOfMemory, "no memory for strand \"\(name)\"")
    }
    self.app = app
    self.name = name
    self.priority = priority
    self.bag = bag
    identity = app.engine.nextNumber() | Accounts.strandBit
  }

  deinit { opp_bag_destroy(bag, { job, _ in JobEntry(job).abandon() }, nil) }

  // MARK: Queueing

  /// Queues a job; called by the runtime.
  public func enqueue(_ job: consuming ExecutorJob) {
    // The runtime lends this reference. The job that is queued below may end, and with it the actor that keeps the
    // strand, before this thread goes on.
    let held = Unmanaged.passRetained(self)
    defer { held.release() }
    let pointer = unsafeBitCast(UnownedJob(job), to: UnsafeMutableRawPointer.self)
    let entry = JobEntry(.task, pointer, queuedAt: nil)
    let worker = Worker.current(of: app.engine)
    guard let source = app.engine.source(worker), add(entry, worker, source) else {
      // Only a thread that is ending, or a process without memory, comes here; the job must still run, and alone.
      return runElsewhere(first: entry)
    }
  }

  /// Queues a closure behind what the strand has to do already. It runs once; or, if the scheduler is shut down first,
  /// `cancelled` is called once.
  ///
  /// - Parameters:
  ///   - cancelled: called instead of `body` if that will never run, on any thread.
  ///   - body: what to run.
  /// - Throws: ``SchedulerError``: `shutDown`, `forked`, `threadEnding`, `outOfMemory`; nothing is queued then.
  public func submit(
    onCancel cancelled: (@Sendable () -> Void)? = nil, _ body: @escaping @Sendable () -> Void
  ) throws(SchedulerError) {
    try app.engine.checkAccepts()
    let worker = Worker.current(of: app.engine)
    let source = try app.engine.requireSource(worker)
    let closure = Unmanaged.passRetained(Closure(app: app, identity: identity, body: body, cancelled: cancelled))
    guard add(JobEntry(.closure, closure.toOpaque(), queuedAt: nil), worker, source) else {
      closure.release()
      throw SchedulerError(.outOfMemory, "no memory to queue a closure on strand \"\(name)\"")
    }
    app.statistics.add(.submitted, 1)
  }

  private func add(_ entry: JobEntry, _ worker: Worker?, _ source: OpaquePointer) -> Bool {
    guard opp_bag_push(bag, source, entry.raw) == 0 else { return false }
    guard app.engine.accepts else {
      runElsewhere()
      return true
    }
    // The app that waits, if it stands higher than the strand's own.
    let lender = worker?.app.flatMap { $0.band > app.band ? $0 : nil }
    // seqCst: after the push to the bag; a runner looks at the bag after it has left, so one of us sees the other.
    let word = state.load(ordering: .sequentiallyConsistent)
    switch Self.phase(of: word) {
    case .idle:
      postToken(worker, source, seen: word)
      if let lender { postToken(worker, source, in: lender) }
    case .posted:
      if let lender { postToken(worker, source, in: lender) }
    case .running:
      let wanted = (lender ?? app).band
      guard wanted > Self.band(of: word) else { break }
      let raised = word & ~12 | UInt64(wanted.rawValue) << 2
      // relaxed: one of those who want it tells the monitor.
      if state.compareExchange(expected: word, desired: raised, ordering: .relaxed).exchanged {
        app.engine.monitor.post(.raise(identity, wanted))
      }
    }
    return true
  }

  /// Queues a token in the strand's own app.
  private func postToken(_ worker: Worker?, _ source: OpaquePointer, seen word: UInt64) {
    let retained = Unmanaged.passRetained(self)
    guard push(JobEntry(.strand, retained.toOpaque(), queuedAt: nil), worker, source, in: app) else {
      retained.release()
      return runElsewhere()
    }
    // A hint to later pushers, unless somebody has run it meanwhile. releasing: the token is in the queue.
    guard Self.phase(of: word) == .idle else { return }
    _ = state.compareExchange(expected: word, desired: word | Phase.posted.rawValue, ordering: .releasing)
  }

  /// Queues a token in the place of an app that waits, which it keeps. Without memory the one in the own app must do.
  private func postToken(_ worker: Worker?, _ source: OpaquePointer, in lender: AppCore) {
    let retained = Unmanaged<QueuedObject>.passRetained(StrandToken(self, in: lender))
    let entry = JobEntry(.object, retained.toOpaque(), queuedAt: nil)
    if !push(entry, worker, source, in: lender) { retained.release() }
  }

  private func push(_ entry: JobEntry, _ worker: Worker?, _ source: OpaquePointer, in place: AppCore) -> Bool {
    let engine = app.engine
    let depth = engine.accounts.depth(ofQueued: identity, submitter: nil, movesOn: false, origin: nil, app: app)
    let rank = engine.rank(of: priority, band: place.band, depth: depth)
    let isOwn = worker?.isLeaving ?? false
    return place.push(entry, to: place.raw, rank: rank, source: source, by: isOwn ? worker : nil)
  }

  // MARK: Running

  private func becomeRunner(in band: Band) -> Bool {
    var word = state.load(ordering: .relaxed)
    while Self.phase(of: word) != .running {
      let next = (word & Self.number) + Self.run + UInt64(band.rawValue) << 2 + Phase.running.rawValue
      // What the last runner did is seen. Pairs with leave().
      let (exchanged, original) = state.compareExchange(
        expected: word, desired: next, ordering: .sequentiallyConsistent)
      if exchanged {
        runner.store(Int(opp_thread_id()), ordering: .relaxed)
        return true
      }
      word = original
    }
    return false
  }

  /// Leaves. Returns the new state, if there is more to do.
  private func leave() -> UInt64? {
    runner.store(0, ordering: .relaxed)
    // relaxed: while it runs others change the band alone.
    let word = state.load(ordering: .relaxed) & Self.number
    // seqCst: before the last look at the bag; see add(). release: the next runner sees what this one did.
    state.store(word, ordering: .sequentiallyConsistent)
    return opp_bag_is_empty(bag) ? nil : word
  }

  /// A worker has taken a token.
  func run(on worker: Worker) {
    guard let source = worker.source else { return runElsewhere() }
    let isLent = worker.app !== app
    if isLent {
      // The token in the own app waits for its resumption.
      guard app.enterLent() else { return }
    } else if app.state.suspended {
      return postToken(worker, source, seen: state.load(ordering: .sequentiallyConsistent))
    }
    defer { if isLent { app.leaveLent() } }
    guard becomeRunner(in: worker.app?.band ?? app.band) else { return }
    let until = opp_now_ns() + Self.turn
    var job = opp_job()
    while opp_bag_take(bag, &job) {
      run(JobEntry(job))
      if opp_now_ns() > until || app.state.suspended { break }
    }
    if let word = leave() { postToken(nil, source, seen: word) }
  }

  private func run(_ entry: JobEntry) {
    if entry.kind == .closure {
      Unmanaged<Closure>.fromOpaque(entry.pointer).takeRetainedValue().run()
    } else {
      unsafeBitCast(entry.pointer, to: UnownedJob.self).runSynchronously(on: asUnownedSerialExecutor())
    }
  }

  /// The scheduler is gone: jobs of actors run in the global pool, still one after the other; closures are cancelled.
  func runElsewhere(first: JobEntry? = nil) {
    app.engine.noteEscape()
    DispatchQueue.global().async { [self] in
      guard becomeRunner(in: app.band) else {
        // With a job in hand there is no queue to leave it in: come again.
        if first != nil { runElsewhere(first: first) }
        return
      }
      if let first { run(first) }
      var job = opp_job()
      while opp_bag_take(bag, &job) {
        let entry = JobEntry(job)
        if entry.kind == .closure, app.engine.isClosed { entry.abandon() } else { run(entry) }
      }
      if leave() != nil { runElsewhere() }
    }
  }

  // MARK: Isolation

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

  /// Whether the caller runs on this strand.
  public func isIsolatingCurrentContext() -> Bool? { runner.load(ordering: .relaxed) == Int(opp_thread_id()) }

  public func checkIsolated() {
    precondition(isIsolatingCurrentContext() == true, "this code must run on strand \"\(name)\", and does not")
  }
}

/// A token in the place of an app that waits for a strand of another. Keeps that app as long as it is queued there.
private final class StrandToken: QueuedObject, @unchecked Sendable {
  private let strand: Strand
  private let place: AppCore

  init(_ strand: Strand, in place: AppCore) {
    self.strand = strand
    self.place = place
    super.init(identity: strand.identity)
  }

  override func run(on worker: Worker) { strand.run(on: worker) }

  // The token in the strand's own app is abandoned as well.
  override func abandon() {}
}
