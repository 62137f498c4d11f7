import Synchronization

/// An async mutex that inverts no priorities: who holds it inherits the band of who waits for it.
///
/// ```swift
/// let index = try OpportuneLock(Index(), named: "index", in: scheduler)
/// let hits = try await index.withLock { $0.find(word) }
/// ```
///
/// Unlike a mutex it keeps no thread while it waits, and its critical section may itself await. Unlike an
/// actor it is not re-entered while that awaits.
///
/// *Inheritance.* While somebody of a higher band waits, the holder's jobs are queued there as well as in the
/// holder's own app, and a job of its that is running is raised where the process may do that. It goes on
/// along a chain: who holds what the holder waits for inherits too, where it waits inside of its section for
/// another such lock. What is inherited is kept until the section's end, also where the one who waited is
/// cancelled.
///
/// *Ceiling.* With a ceiling all critical sections are run in that band at least, whoever calls, and go on
/// though the caller's app is suspended meanwhile; so nobody ever waits for a section that has no CPU. Keep
/// such sections short: they compete with the foreground's own work.
///
/// The highest band that waits comes next, in it who came first. Who takes a lock that it holds already, or
/// two locks that another takes in the other order, waits for ever, as with any lock; such a wait can be
/// cancelled. A suspended app that holds a lock without a ceiling keeps everybody waiting until it is
/// resumed.
///
/// Safe to use from any thread and any task, of an app or not; what is of none counts as foreground work.
public final class OpportuneLock<Value>: @unchecked Sendable {
  // Sendable: the value is touched by who holds the lock alone.
  let core: LockCore
  private let storage: UnsafeMutablePointer<Value>

  /// - Parameters:
  ///   - value: what it guards.
  ///   - name: for people.
  ///   - scheduler: whose apps use it.
  ///   - ceiling: the band below which no critical section is run; `nil` is that of who calls, or waits. Such
  ///     a lock counts as one more app of ``SchedulerConfiguration/maximumApps``.
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

  /// Waits for the lock, calls `body` with what it guards, and lets go.
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
    // Already to wait: who is handed the lock would else come to it in the caller's own band.
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
