/// A user application, as far as the scheduler is concerned: it owns work, has a band, and may be suspended.
///
/// What belongs to one app is ordered by task priority within the app; which app goes first is decided by its
/// band. Moving an app to another band, suspending and resuming it are one atomic step each, however much is
/// queued.
///
/// Keep the app for as long as work is to be submitted to it; queued work and executors keep it alive by
/// themselves. All members may be used from any thread.
public final class App: Sendable {
  let core: AppCore

  /// The executor to give tasks to: `Task(executorPreference: app.executor) { … }`, or
  /// `withTaskExecutorPreference`.
  ///
  /// Child tasks (`async let`, task groups) stay on it; `Task { }` and `Task.detached` inside do not: the
  /// language sends those to the global pool. Use ``task(name:priority:operation:)`` for those.
  ///
  /// A task of another app that goes to it by `withTaskExecutorPreference` while this app is suspended waits
  /// until that is resumed; where it is foreground work, the scheduler warns of it after a second. It does
  /// not where the app was suspended after that, where the task came from a strand's actor, and where a task
  /// that was started with this executor is awaited by `Task.value`, which tells nobody: ``AppTask/value``
  /// does.
  ///
  /// A task that leaves a default actor while others wait for the actor may have to wait until the actor's
  /// next message has ended, a ``QuantumPolicy/quantum`` and some at most, also where cores are idle. An
  /// actor on a strand keeps nobody.
  public let executor: AppExecutor

  init(core: AppCore) {
    self.core = core
    executor = AppExecutor(core)
  }

  /// The name it was made with, for people.
  public var name: String { core.name }

  /// The band that it is in now. Settable by ``setBand(_:)``.
  public var band: Band { core.band }

  /// Moves the app to another band, in one step that does not depend on how much it has queued. (R-CPU-10)
  ///
  /// Queued jobs follow, or stay in their old place, as ``SchedulerConfiguration/queuedJobs-swift.property``
  /// says. Jobs that are running: going to the background they are lowered within a moment, and others take
  /// their place in the pool; coming to the foreground they are raised where the process may do that, else
  /// they go on as they are and the app's next job is a foreground one.
  ///
  /// - Throws: ``SchedulerError`` with code `poolDisabled` where the configuration has no pool for `band`.
  public func setBand(_ band: Band) throws(SchedulerError) {
    try core.engine.requirePool(for: band)
    core.setBand(band)
  }

  /// Whether the app runs.
  public enum Activity: Sendable, Hashable {
    /// Its jobs run as its band allows.
    case active
    /// It was suspended; a slice that was running then has not ended yet.
    case suspending
    /// It was suspended and executes nothing.
    case suspended
  }

  /// Whether it runs now.
  public var activity: Activity {
    guard core.state.suspended else { return .active }
    return core.isQuiet ? .suspended : .suspending
  }

  /// Band and suspension as they were together at one moment. The generation is another after each change of
  /// either.
  package var moment: (band: Band, isSuspended: Bool, generation: UInt64) {
    let state = core.state
    return (Band(rawValue: state.band) ?? .background, state.suspended, state.generation)
  }

  /// Suspends the app: from the return of this call on none of its jobs is chosen to run. Slices that run go
  /// on to their end, and so does the one that a worker has in its hand, of a strand the next at most; wait
  /// for that with ``untilSuspended()``. Jobs that are queued meanwhile wait. (R-FTS-09)
  ///
  /// Jobs of default actors are the exception: they serve whoever uses the actor, so they run in spite of it.
  ///
  /// Who awaits an actor on one of its strands, or the value of one of its tasks, waits until it is resumed.
  /// Where that is the foreground of another app, and for longer than a second, the scheduler's logger is
  /// told of both, once. Have the foreground resume the app before it asks, ask what is not suspended (an app
  /// of its own for a service that others need, or a default actor), or not wait: look at ``activity`` first,
  /// or race the answer against ``clock`` in tasks of its own, and drop the one that comes too late; to
  /// cancel who waits does not end the wait.
  public func suspend() { core.suspend() }

  /// Resumes the app: all that is queued runs, in order.
  public func resume() { core.resume() }

  /// Waits until no slice of the app runs any more, or until it is resumed, or the caller's task is
  /// cancelled; ``activity`` tells which. Returns at once if it is not suspended, and in the child of a
  /// `fork()`, where nothing of it runs.
  ///
  /// A task of the app itself that awaits this goes on only when the app is resumed, as it would from any
  /// other suspension point.
  public func untilSuspended() async {
    guard core.state.suspended, !core.isQuiet, !core.engine.isForked else { return }
    let (wait, core) = (Wait(), core)
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard wait.begin(continuation) else { return continuation.resume() }
        core.engine.monitor.post(.waitForQuiet(core, wait))
      }
    } onCancel: {
      wait.end()
      // It forgets the wait, and with it the app.
      if !core.engine.isForked { core.engine.monitor.post(.checkWaiters) }
    }
  }

  /// Queues a closure. It runs once; or, if the scheduler is shut down first, `cancelled` is called once.
  ///
  /// - Parameters:
  ///   - priority: its place among the app's own jobs; `nil` is `.medium`.
  ///   - cancelled: called instead of `body` if that will never run, on any thread.
  ///   - body: what to run.
  /// - Throws: ``SchedulerError``: `shutDown`, `forked`, `threadEnding`, `outOfMemory`; nothing is queued
  ///   then.
  public func submit(
    priority: TaskPriority? = nil, onCancel cancelled: (@Sendable () -> Void)? = nil,
    _ body: @escaping @Sendable () -> Void
  ) throws(SchedulerError) {
    try core.submit(priority.map(BasePriority.init) ?? .medium, body, cancelled: cancelled)
  }

  /// A strand: jobs one after the other, on whichever worker is free. The executor of an actor, or a place
  /// for closures.
  ///
  /// - Parameters:
  ///   - name: for people.
  ///   - priority: its place among the app's own work; `nil` is `.medium`.
  /// - Throws: ``SchedulerError`` with code `outOfMemory`.
  public func makeStrand(named name: String, priority: TaskPriority? = nil) throws(SchedulerError) -> Strand {
    try Strand(app: core, name: name, priority: priority ?? .medium)
  }

  /// Starts a task whose whole tree stays on this app's executor, and which can be raised while it is queued:
  /// who awaits ``AppTask/value`` from work of a higher band or priority donates it that.
  ///
  /// - Parameters:
  ///   - name: for people and tools.
  ///   - priority: `nil` is the priority of the caller.
  @discardableResult
  public func task<Success: Sendable>(
    name: String? = nil, priority: TaskPriority? = nil,
    operation: sending @escaping @isolated(any) () async throws -> Success
  ) -> AppTask<Success> {
    AppTask(core, name: name, priority: priority, operation: operation)
  }

  /// Sleeps on the scheduler's own coalesced timers: `try await app.clock.sleep(for: .seconds(1))`. Unlike
  /// `Task.sleep` it starts no other threads, and a suspended app is not woken by it.
  public var clock: AppClock { AppClock(core.engine) }

  /// CPU time used by the app's jobs since it was made, those that run now included; zero without
  /// ``SchedulerConfiguration/collectsStatistics``. Asks the monitor, so not for hot paths. Up to a
  /// millisecond for each worker may be missing.
  public func cpuTime() async -> Duration {
    guard core.statistics.isCollecting else { return .zero }
    guard !core.engine.isForked else { return statistics.cpuTime }
    let nanoseconds = await withCheckedContinuation { core.engine.monitor.post(.cpuTime(core, $0)) }
    return .nanoseconds(Int64(clamping: nanoseconds))
  }

  /// What the app has done and waited for, since it was made.
  public var statistics: AppStatistics { AppStatistics(core.record) }
}
