import Synchronization

/// An async mutex without priority inversion: the holder inherits the band of its waiters.
///
/// ```swift
/// let index = try OpportuneLock(Index(), named: "index", in: scheduler)
/// let hits = try await index.withLock { $0.find(word) }
/// ```
///
/// Unlike a mutex it keeps no thread while it waits, and its critical section may itself await. Unlike an
/// actor it is not re-entered while that awaits.
///
/// *Inheritance.* While a task of a higher band waits, the holder's jobs are queued in that band as well as
/// in the holder's own app. A job of the holder that is running is raised, where the process may do that. A
/// holder that waits for another such lock inside of its critical section passes the band on to that lock's
/// holder. An inherited band is kept until the section ends, even if the waiting task is cancelled.
///
/// *Ceiling.* With a ceiling all critical sections run in that band at least, whoever calls. They go on even
/// if the caller's app is suspended meanwhile, so no task waits for a section that gets no CPU. Keep such
/// sections short: they compete with the foreground's own work.
///
/// The next holder is the first waiter of the highest band. As with any lock, a task that takes a lock which
/// it already holds waits for ever, and so do two tasks that take two locks in opposite orders; such a wait
/// can be cancelled. A suspended app that holds a lock without a ceiling keeps the waiters waiting until it
/// is resumed.
///
/// Safe to use from any thread and any task. A task that belongs to no app counts as foreground work.
public final class OpportuneLock<Value>: @unchecked Sendable {
  // Sendable: only the holder of the lock accesses the value.
  let core: LockCore
  private let storage: UnsafeMutablePointer<Value>

  /// - Parameters:
  ///   - value: what it guards.
  ///   - name: for people.
  ///   - scheduler: whose apps use it.
  ///   - ceiling: the band below which no critical section runs; `nil` is the band of the caller or of the
  ///     highest waiter. A lock with a ceiling counts as an app of ``SchedulerConfiguration/maximumApps``.
  /// - Throws: ``SchedulerError``, with a ceiling only: `tooManyApps`, `outOfMemory`, and `poolDisabled`
  ///   where the configuration has no pool for it.
  public init(
    _ value: sending Value, named name: String = "lock", in scheduler: Scheduler, ceiling: Band? = nil
  ) throws(SchedulerError) {
    core = try LockCore(scheduler.engine, name: name, ceiling: ceiling)
    storage = .allocate(capacity: 1)
    storage.initialize(to: value)
  }

  deinit {
    storage.deinitialize(count: 1)
    storage.deallocate()
  }

  /// The name it was made with.
  public var name: String { core.name }

  /// Waits for the lock, calls `body` with the guarded value, and releases the lock.
  ///
  /// - Parameter body: the critical section; it runs on the executor of the caller's app, or at the ceiling.
  /// - Returns: what `body` returns.
  /// - Throws: what `body` throws; `CancellationError` where the caller's task is cancelled while it waits,
  ///   and then `body` was not called.
  public func withLock<Result: Sendable>(
    _ body: @Sendable (inout Value) async throws -> Result
  ) async throws -> Result {
    let section = core.makeSection()
    defer { section.end() }
    // Already for the wait: otherwise a task that is handed the lock would resume in its own band.
    return try await section.run {
      try await core.acquire(section)
      do {
        let result = try await LockSection.$current.withValue(section) { try await body(&storage.pointee) }
        core.release()
        return result
      } catch {
        core.release()
        throw error
      }
    }
  }
}
