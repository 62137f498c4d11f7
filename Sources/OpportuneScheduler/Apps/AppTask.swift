internal import COpportune
internal import OpportuneBase
import Synchronization

/// A task that was started by ``App/task(name:priority:operation:)``.
public struct AppTask<Success: Sendable>: Sendable {
  /// The task itself.
  public let task: Task<Success, any Error>
  private let tree: TaskTree

  init(
    _ core: AppCore, name: String?, priority: TaskPriority?,
    operation: sending @escaping @isolated(any) () async throws -> Success
  ) {
    tree = TaskTree(core, priority: priority ?? Task.currentPriority)
    task = Task(name: name, executorPreference: tree, priority: priority, operation: operation)
  }

  /// What the task returns. Whoever awaits it from an app of a higher band donates it that band, from then
  /// on and for all that the task starts on its executor, so that the foreground does not wait for the
  /// background's turn. Several may; each counts while its app is not suspended.
  /// Awaited with a higher priority, it is queued anew with that, if it waits for its turn. A slice that is
  /// running already goes on as it is; a task that it waits for itself already is not raised with it.
  ///
  /// - Throws: what the task throws.
  public var value: Success {
    get async throws { try await result.get() }
  }

  /// The same as a `Result`.
  public var result: Result<Success, any Error> {
    get async {
      let isCounted = tree.donate()
      defer { if isCounted { tree.app.record.endWait() } }
      return await task.result
    }
  }

  /// Raises the task to `priority`, if it has a lower one: also where it waits for its turn already, which
  /// `Task.escalatePriority(to:)` alone does not change. What it has queued itself stays as it is.
  public func escalatePriority(to priority: TaskPriority) {
    task.escalatePriority(to: priority)
    tree.requeue(with: priority)
  }

  /// Tells the task that nobody needs it any more.
  public func cancel() { task.cancel() }

  /// Whether ``cancel()`` was called.
  public var isCancelled: Bool { task.isCancelled }
}

/// The executor of such a task and its children: queues their jobs in the app and, once the task was awaited
/// from a higher band, in each app that waits as well.
final class TaskTree: TaskExecutor, @unchecked Sendable {
  let app: AppCore
  /// Those who wait; each once, or twice where two of its threads came at once. They stay until the tree
  /// goes.
  private let donors = LinkedStack<Donor>()
  /// How often somebody came to wait.
  private let donations = Atomic<UInt64>(0)
  /// The job of the task itself that was queued last, retained, or 0.
  private let queued = Atomic<UInt>(0)
  private let root = Atomic<UInt64>(0)
  /// With which the task was started.
  private let priority: TaskPriority

  init(_ app: AppCore, priority: TaskPriority) {
    self.app = app
    self.priority = priority
  }

  deinit { release(queued.load(ordering: .acquiring)) }

  private func release(_ word: UInt) {
    if let pointer = UnsafeRawPointer(bitPattern: word) {
      Unmanaged<PromotableJob>.fromOpaque(pointer).release()
    }
  }

  func enqueue(_ job: consuming ExecutorJob) { app.enqueue(UnownedJob(job), of: self) }

  /// The other apps in whose places its jobs are queued: those who wait, stand higher now, and are not
  /// suspended. One that is would gather its jobs until its resumption, after which it counts from the next
  /// job on. For the task's own job `queued` was exchanged before: an app that is resumed or moved up, and
  /// then donates, finds the job there, or came first, and then that exchange has acquired what it did
  /// before.
  func forEachDonor(_ body: (AppCore) -> Void) {
    donors.visit { donor in
      let state = donor.app.state
      if !state.suspended, state.band > app.state.band { body(donor.app) }
    }
  }

  /// Remembers the job of the task itself that is about to be queued, so that it can be queued once more.
  func willQueue(_ job: PromotableJob) {
    // The first identity to come is the task's own; its children come later.
    let first = root.compareExchange(expected: 0, desired: job.identity, ordering: .relaxed)
    guard job.identity != 0, first.exchanged || first.original == job.identity else { return }
    let word = UInt(bitPattern: Unmanaged.passRetained(job).toOpaque())
    // acquiring and releasing: before the look at those who donate; see forEachDonor(). All that changes
    // `queued` reads it in the same step, so that this acquires from each that came before. seqCst: see
    // queueAgain().
    release(queued.exchange(word, ordering: .sequentiallyConsistent))
  }

  /// `job` starts, so it need not be queued again. Ends the cycle that tree and job make while it waits.
  func didStart(_ job: PromotableJob) {
    let word = UInt(bitPattern: Unmanaged.passUnretained(job).toOpaque())
    // The caller holds the job, so the same word is the same job. seqCst: see queueAgain().
    if queued.compareExchange(expected: word, desired: 0, ordering: .sequentiallyConsistent).exchanged {
      release(word)
    }
  }

  /// The caller is about to wait for the task: if it works for an app of a higher band, the task goes there;
  /// else it has the caller's priority at least. True if the wait is counted, and the caller has to end it.
  func donate() -> Bool {
    guard let worker = Worker.current(of: app.engine), let producer = worker.producer,
      let candidate = worker.app,
      candidate !== app
    else {
      requeue(with: Task.currentPriority)
      return false
    }
    app.beginWait(of: candidate)
    donate(to: candidate, producer)
    return true
  }

  private func donate(to candidate: AppCore, _ producer: OpaquePointer) {
    guard candidate.band > app.band else { return requeue(with: Task.currentPriority) }
    var isKnown = false
    donors.visit { if $0.app === candidate { isKnown = true } }
    if !isKnown { donors.push(Donor(candidate)) }
    // seqCst: before the look for the job; see queueAgain().
    donations.add(1, ordering: .sequentiallyConsistent)
    // What was queued before goes there too.
    queueAgain(producer)
  }

  /// Takes out the job that was queued last, so that nobody else uses it meanwhile; its reference is the
  /// caller's.
  private func takeQueued() -> Unmanaged<PromotableJob>? {
    // seqCst: see willQueue() and queueAgain().
    UnsafeRawPointer(bitPattern: queued.exchange(0, ordering: .sequentiallyConsistent)).map(
      Unmanaged.fromOpaque)
  }

  /// Queues the job of the task itself once more, where it waits at a lower rank than work of `priority`.
  func requeue(with priority: TaskPriority) {
    guard priority > self.priority, let producer = app.engine.producer(Worker.current(of: app.engine)) else {
      return
    }
    queueAgain(with: priority, producer)
  }

  /// Queues the job of the task itself once more, if it waits: at a higher rank, or else in the places of
  /// those who donate.
  private func queueAgain(with priority: TaskPriority? = nil, _ producer: OpaquePointer) {
    var priority = priority
    while true {
      let seen = donations.load(ordering: .sequentiallyConsistent)
      guard let held = takeQueued() else { return }
      let job = held.takeUnretainedValue()
      if let priority {
        let depth = app.engine.accounts.read(job.identity)?.depth ?? 0
        let base = BasePriority(priority)
        let rank = app.engine.rank(base, band: app.band, depth: depth)
        // Ranks count downwards.
        if rank < job.rank { job.pushAgain(to: app, base, rank: rank, producer) }
      } else {
        forEachDonor { job.pushAgain(to: $0, job.base, rank: job.rank, producer) }
      }
      // Back, unless another was queued meanwhile; and out again if it has started. seqCst, both: claim()
      // sets `started` and then takes the job out if it is there; one sees the other, or tree and job would
      // keep each other.
      let word = UInt(bitPattern: held.toOpaque())
      if !queued.compareExchange(expected: 0, desired: word, ordering: .sequentiallyConsistent).exchanged {
        held.release()
      } else if job.hasStarted {
        didStart(job)
      }
      // seqCst: who came to donate while the job was out, and found none, has counted himself before.
      if donations.load(ordering: .sequentiallyConsistent) == seen { return }
      priority = nil
    }
  }
}

/// An app that waits for a task.
private final class Donor: Linked {
  let app: AppCore
  // Set before it is published.
  var below: UInt = 0

  init(_ app: AppCore) { self.app = app }
}

/// A job of such a task while it is queued. It may be queued a second time, in a higher band; the first to be
/// taken runs it.
final class PromotableJob: QueuedObject, @unchecked Sendable {
  let app: AppCore
  private let tree: TaskTree
  private let job: UnownedJob
  let rank: UInt8
  private let started = Atomic<Bool>(false)

  init(_ job: UnownedJob, of tree: TaskTree, identity: UInt64, base: BasePriority, rank: UInt8) {
    self.job = job
    self.tree = tree
    self.rank = rank
    app = tree.app
    super.init(identity: identity, base: base)
  }

  /// Once more: in the place of an app that waits for it, or at a higher rank.
  func pushAgain(to owner: AppCore, _ base: BasePriority, rank: UInt8, _ producer: OpaquePointer) {
    _ = push(to: owner, owner.raw, as: base, rank: rank, producer: producer, stamp: nil, by: nil)
  }

  /// Pairs with claim(); see TaskTree.queueAgain().
  var hasStarted: Bool { started.load(ordering: .sequentiallyConsistent) }

  /// True for one caller.
  func claim() -> Bool {
    if started.exchange(true, ordering: .sequentiallyConsistent) { return false }
    tree.didStart(self)
    return true
  }

  /// A worker has taken one of its entries.
  override func run(on worker: Worker) {
    let isDonated = worker.app !== app
    if isDonated, !app.enterDonated() { return }
    if claim() { job.runSynchronously(on: tree.asUnownedTaskExecutor()) }
    if isDonated { app.leaveDonated() }
  }

  override func abandon() {
    if claim() { globalConcurrentExecutor.enqueue(job) }
  }
}
