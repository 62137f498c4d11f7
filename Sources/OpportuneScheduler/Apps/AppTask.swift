internal import COpportune
internal import OpportuneBase
import Synchronization

/// A task started by `App.task(name:priority:operation:)`, which throws what its operation throws: with
/// `Never` as `Failure` its `value` needs no `try`.
public struct AppTask<Success: Sendable, Failure: Error>: Sendable {
  /// The task itself.
  public let task: Task<Success, Failure>
  private let tree: TaskTree

  private init(_ task: Task<Success, Failure>, _ tree: TaskTree) {
    self.task = task
    self.tree = tree
  }

  /// The task's result as a `Result`; donates like `value`.
  public var result: Result<Success, Failure> {
    get async {
      let isCounted = tree.donate()
      defer { if isCounted { tree.app.record.endWait() } }
      return await task.result
    }
  }

  /// Raises the task to `priority`, if its priority is lower, also while the task waits in a queue.
  /// `Task.escalatePriority(to:)` alone does not move a queued task. Jobs that the task itself has queued
  /// keep their priority.
  public func escalatePriority(to priority: TaskPriority) {
    task.escalatePriority(to: priority)
    tree.requeue(with: priority)
  }

  /// Cancels the task, cooperatively.
  public func cancel() { task.cancel() }

  /// Whether ``cancel()`` was called.
  public var isCancelled: Bool { task.isCancelled }
}

extension AppTask where Failure == any Error {
  /// The task's result. Awaiting it donates the caller's band and priority to the task.
  ///
  /// A caller from an app of a higher band donates that band to the task and to all that the task starts on
  /// its executor, from then on. So the foreground does not wait for the background's turn. Several apps may
  /// donate; each counts while it is not suspended. A caller of the same band donates it once the task's app
  /// has left that band: what the task queues from then on goes there, and requests for files and sockets
  /// that it has queued move up.
  ///
  /// A caller with a higher priority has the task queued again at that priority, if the task waits in a
  /// queue. A slice that is already running is not changed. A task that this task is already waiting for is
  /// not raised.
  ///
  /// - Throws: what the task throws.
  public var value: Success {
    get async throws { try await result.get() }
  }

  init(
    _ core: AppCore, name: String?, priority: TaskPriority?,
    operation: sending @escaping @isolated(any) () async throws -> Success
  ) {
    let tree = TaskTree(core, priority: priority ?? Task.currentPriority)
    self.init(Task(name: name, executorPreference: tree, priority: priority, operation: operation), tree)
  }
}

// Two, as `Task` has it: with one `value` that throws `Failure`, the compiler of Swift 6.3 crashes where an
// operation is no more than the value of another task.
extension AppTask where Failure == Never {
  /// The task's result. Awaiting it donates the caller's band and priority to the task.
  ///
  /// A caller from an app of a higher band donates that band to the task and to all that the task starts on
  /// its executor, from then on. So the foreground does not wait for the background's turn. Several apps may
  /// donate; each counts while it is not suspended. A caller of the same band donates it once the task's app
  /// has left that band: what the task queues from then on goes there, and requests for files and sockets
  /// that it has queued move up.
  ///
  /// A caller with a higher priority has the task queued again at that priority, if the task waits in a
  /// queue. A slice that is already running is not changed. A task that this task is already waiting for is
  /// not raised.
  public var value: Success {
    get async { await result.get() }
  }

  init(
    _ core: AppCore, name: String?, priority: TaskPriority?,
    operation: sending @escaping @isolated(any) () async -> Success
  ) {
    let tree = TaskTree(core, priority: priority ?? Task.currentPriority)
    self.init(Task(name: name, executorPreference: tree, priority: priority, operation: operation), tree)
  }
}

/// The executor of an `AppTask` and its children. It queues their jobs in the app. After a donation it also
/// queues them in each donor app.
final class TaskTree: TaskExecutor, @unchecked Sendable {
  let app: AppCore
  /// The tree of the task outside of the critical section that this one is for, whose donors count as well.
  let outer: TaskTree?
  let listeners = LinkedStack<DonationNode>()
  /// The donors, and who would be one if it stood higher. An app is listed once, or twice if two of its
  /// threads donated at the same time. Entries are removed only when the tree is freed.
  private let donors = LinkedStack<Donor>()
  /// The number of donations so far; lets `queueAgain()` detect a donation that came meanwhile.
  private let donations = Atomic<UInt64>(0)
  /// The last queued job of the task itself (not of its children), retained; or 0.
  private let queued = Atomic<UInt>(0)
  private let root = Atomic<UInt64>(0)
  /// The priority with which the task was started.
  private let priority: TaskPriority

  init(_ app: AppCore, priority: TaskPriority, inside outer: TaskTree? = nil) {
    self.app = app
    self.outer = outer
    self.priority = priority
  }

  deinit { release(queued.load(ordering: .acquiring)) }

  private func release(_ word: UInt) {
    if let pointer = UnsafeRawPointer(bitPattern: word) {
      Unmanaged<PromotableJob>.fromOpaque(pointer).release()
    }
  }

  func enqueue(_ job: consuming ExecutorJob) { app.enqueue(UnownedJob(job), of: self) }

  /// Visits each donor whose queue is to receive a job: an app of a higher band that is not suspended. A
  /// suspended donor would collect entries until it is resumed; it counts again from the next job on.
  ///
  /// For the task's own job, `queued` is exchanged before this visit. An app that is resumed or raised, and
  /// then donates, either finds the job in `queued`, or donated before the exchange. In the second case the
  /// exchange acquires the donor's changes.
  func forEachDonor(_ body: (AppCore) -> Void) {
    donors.visit { donor in
      let state = donor.app.state
      if !state.suspended, state.band > app.state.band { body(donor.app) }
    }
    outer?.forEachDonor { if $0.band > app.band { body($0) } }
  }

  /// Whether anybody has waited for the task who may come to stand higher. For tests.
  var isWaitedFor: Bool {
    var result = false
    donors.visit { _ in result = true }
    return result
  }

  /// The tree that the calling task's jobs go through. If it has none, the app whose executor it prefers.
  static func ofCurrentTask(of engine: Engine) -> (tree: TaskTree?, app: AppCore?) {
    let executor = withUnsafeCurrentTask { $0?.unownedTaskExecutor?.asTaskExecutor() }
    if let tree = executor as? TaskTree { return tree.app.engine === engine ? (tree, nil) : (nil, nil) }
    let app = (executor as? AppExecutor)?.core
    return (nil, app?.engine === engine ? app : nil)
  }

  /// Stores the task's own job, which is about to be queued, so that it can be queued once more.
  func willQueue(_ job: PromotableJob) {
    // The first identity belongs to the task itself; its children are queued later.
    let first = root.compareExchange(expected: 0, desired: job.identity, ordering: .relaxed)
    guard job.identity != 0, first.exchanged || first.original == job.identity else { return }
    let word = UInt(bitPattern: Unmanaged.passRetained(job).toOpaque())
    // seqCst. Acquiring and releasing: it precedes the visit of donors; see forEachDonor(). Every access to
    // `queued` is a read-modify-write, so this exchange acquires from each earlier one. The total order is
    // needed by queueAgain().
    release(queued.exchange(word, ordering: .sequentiallyConsistent))
  }

  /// Called when `job` starts: it need not be queued again. Breaks the retain cycle of tree and queued job.
  func didStart(_ job: PromotableJob) {
    let word = UInt(bitPattern: Unmanaged.passUnretained(job).toOpaque())
    // The caller retains the job, so an equal word means the same job. seqCst: see queueAgain().
    if queued.compareExchange(expected: word, desired: 0, ordering: .sequentiallyConsistent).exchanged {
      release(word)
    }
  }

  /// Called before the caller waits for the task. If the caller works for an app of a higher band, the task
  /// is donated that band; otherwise it gets at least the caller's priority. Returns true if the wait was
  /// counted; the caller must then end it.
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

  /// `candidate` waits for the task: where that stands higher, the task's jobs go there as well, from the one
  /// on that waits for its turn now. Returns whether it has not waited before as one that stands higher.
  ///
  /// Who does not stand higher is noted too: it does once this app has left the foreground. Then what the
  /// task queues from then on goes there as well.
  @discardableResult func donate(to candidate: AppCore, _ producer: OpaquePointer) -> Bool {
    var donor: Donor?
    donors.visit { if $0.app === candidate { donor = $0 } }
    if donor == nil {
      let new = Donor(candidate)
      donors.push(new)
      donor = new
    }
    guard candidate.band > app.band else {
      requeue(with: Task.currentPriority)
      return false
    }
    // seqCst: before the load of `queued`; see queueAgain().
    donations.add(1, ordering: .sequentiallyConsistent)
    // A job that is already queued is donated too.
    queueAgain(producer)
    listeners.tell()
    // relaxed: of several threads one is the first; nothing else depends on it.
    return donor?.hasRaised.exchange(true, ordering: .relaxed) == false
  }

  /// The identity of the task itself, once it has been queued; else 0.
  var identity: UInt64 { root.load(ordering: .relaxed) }

  /// Takes the stored job, so that no other thread uses it meanwhile. The caller receives its reference.
  private func takeQueued() -> Unmanaged<PromotableJob>? {
    // seqCst: see willQueue() and queueAgain().
    UnsafeRawPointer(bitPattern: queued.exchange(0, ordering: .sequentiallyConsistent)).map(
      Unmanaged.fromOpaque)
  }

  /// Queues the task's own job once more, if it waits at a lower rank than `priority` has.
  func requeue(with priority: TaskPriority) {
    guard priority > self.priority, let producer = app.engine.producer(Worker.current(of: app.engine)) else {
      return
    }
    queueAgain(with: priority, producer)
  }

  /// Queues the task's own job once more, if it waits: at the rank of `priority`, or else in the donors'
  /// queues.
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
        // A smaller rank runs earlier.
        if rank < job.rank { job.pushAgain(to: app, base, rank: rank, producer) }
      } else {
        forEachDonor { job.pushAgain(to: $0, job.base, rank: job.rank, producer) }
      }
      // Store the job again, unless a newer one was stored meanwhile; remove it again if it has started.
      // seqCst, both: claim() sets `started`, then removes the job from `queued` if it is there. One side
      // sees the other; otherwise tree and job would retain each other for ever.
      let word = UInt(bitPattern: held.toOpaque())
      if !queued.compareExchange(expected: 0, desired: word, ordering: .sequentiallyConsistent).exchanged {
        held.release()
      } else if job.hasStarted {
        didStart(job)
      }
      // seqCst: a donor that came while the job was taken found `queued` empty, but had incremented
      // `donations` before.
      if donations.load(ordering: .sequentiallyConsistent) == seen { return }
      priority = nil
    }
  }
}

/// An app that waits for a task, or has waited: it donates its band while that is the higher one.
private final class Donor: Linked {
  let app: AppCore
  let hasRaised = Atomic<Bool>(false)
  // Written before the entry is published.
  var below: UInt = 0

  init(_ app: AppCore) { self.app = app }
}

/// A queued job of an `AppTask`. It may have several entries, in other apps or ranks; the first entry that is
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

  /// Queues another entry: in a donor's queue, or at a higher rank.
  func pushAgain(to owner: AppCore, _ base: BasePriority, rank: UInt8, _ producer: OpaquePointer) {
    _ = push(to: owner, owner.raw, owner.band, as: base, rank: rank, producer: producer, stamp: nil, by: nil)
  }

  /// seqCst: pairs with claim(); see TaskTree.queueAgain().
  var hasStarted: Bool { started.load(ordering: .sequentiallyConsistent) }

  /// Claims the right to run the job. True for exactly one caller.
  func claim() -> Bool {
    if started.exchange(true, ordering: .sequentiallyConsistent) { return false }
    tree.didStart(self)
    return true
  }

  /// A worker has taken one of the job's entries.
  override func run(on worker: Worker) {
    let isDonated = worker.app !== app
    if isDonated, !app.enterDonated() { return }
    // A worker of its own app was faster than those of the apps that wait: it is raised where that is
    // allowed.
    if !isDonated { tree.forEachDonor { app.engine.monitor.post(.raise(identity, $0.band)) } }
    if claim() { job.runSynchronously(on: tree.asUnownedTaskExecutor()) }
    if isDonated { app.leaveDonated() }
  }

  override func abandon() {
    if claim() { globalConcurrentExecutor.enqueue(job) }
  }
}
