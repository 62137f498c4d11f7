internal import COpportune
import Synchronization

/// A task that was started by ``App/task(name:priority:operation:)``.
public struct AppTask<Success: Sendable>: Sendable {
  /// The task itself.
  public let task: Task<Success, any Error>
  private let job: PromotableJob

  init(
    _ core: AppCore, _ executor: AppExecutor, name: String?, priority: TaskPriority?,
    operation: sending @escaping @isolated(any) () async throws -> Success
  ) {
    let job = PromotableJob(app: core)
    let starter = PromotableStarter(job, executor)
    task = Task(name: name, executorPreference: starter, priority: priority) {
      try await withTaskExecutorPreference(executor) { try await operation() }
    }
    self.job = job
  }

  /// What the task returns. Whoever awaits it from an app of a higher band lends it that band while it is queued, so
  /// that the foreground does not wait for the background's turn.
  ///
  /// - Throws: what the task throws.
  public var value: Success {
    get async throws {
      job.lend()
      return try await task.value
    }
  }

  /// The same as a `Result`.
  public var result: Result<Success, any Error> {
    get async {
      job.lend()
      return await task.result
    }
  }

  /// Tells the task that nobody needs it any more.
  public func cancel() { task.cancel() }

  /// Whether ``cancel()`` was called.
  public var isCancelled: Bool { task.isCancelled }
}

/// The first job of such a task while it is queued. It can be queued a second time, in a higher band; the first to be
/// taken runs it.
final class PromotableJob: @unchecked Sendable {
  let app: AppCore
  private(set) var identity: UInt64 = 0
  private enum State: UInt8, AtomicRepresentable { case new, queued, started }
  private let state = Atomic<State>(.new)
  private let lentBand = Atomic<UInt8>(0)
  // Written before the job is queued, taken by whoever moves `state` to started.
  private var job: UnownedJob?
  private var rank: UInt8 = 0

  init(app: AppCore) { self.app = app }

  /// Queues the job in its own app. False where it cannot be.
  func queue(_ job: UnownedJob, identity: UInt64, rank: UInt8, source: OpaquePointer, stamp: UInt64?) -> Bool {
    self.job = job
    self.identity = identity
    self.rank = rank
    state.store(.queued, ordering: .releasing)
    return push(to: app, source: source, stamp: stamp)
  }

  private func push(to place: AppCore, source: OpaquePointer, stamp: UInt64?) -> Bool {
    let retained = Unmanaged.passRetained(self)
    let entry = JobEntry(.promotable, retained.toOpaque(), queuedAt: stamp)
    if place.push(entry, to: place.raw, rank: rank, source: source, by: nil) { return true }
    retained.release()
    return false
  }

  /// The caller is about to wait for the task: if it works for an app of a higher band, the job goes there too.
  func lend() {
    guard state.load(ordering: .acquiring) == .queued, let worker = Worker.current(of: app.engine),
      let source = worker.source, let lender = worker.app, lender.band > app.band, !app.state.suspended,
      lentBand.exchange(lender.band.rawValue, ordering: .relaxed) < lender.band.rawValue
    else { return }
    _ = push(to: lender, source: source, stamp: nil)
  }

  private func claim() -> UnownedJob? {
    // acquiring: pairs with queue().
    guard state.compareExchange(expected: .queued, desired: .started, ordering: .acquiringAndReleasing).exchanged
    else { return nil }
    return job
  }

  /// A worker has taken one of its entries.
  func run(on worker: Worker) {
    if app.state.suspended, worker.app !== app { return }  // its own entry waits for the app
    claim()?.runSynchronously(on: app.unownedExecutor)
  }

  func abandon() {
    if let job = claim() { globalConcurrentExecutor.enqueue(job) }
  }
}

/// The executor that a promotable task begins on: its first job is queued as a ``PromotableJob``, all further ones go
/// to the app's executor.
final class PromotableStarter: TaskExecutor, @unchecked Sendable {
  private let first: PromotableJob
  private let executor: AppExecutor
  private let isFirst = Atomic<Bool>(true)

  init(_ first: PromotableJob, _ executor: AppExecutor) {
    self.first = first
    self.executor = executor
  }

  func enqueue(_ job: consuming ExecutorJob) {
    if isFirst.exchange(false, ordering: .relaxed) {
      first.app.enqueueFirst(UnownedJob(job), as: first)
    } else {
      executor.enqueue(job)
    }
  }
}
