/// An app: it owns work, belongs to one band, and can be suspended.
///
/// Task priority orders the work within an app; the band orders the apps. Changing the band, suspending and
/// resuming are one atomic step each, however much is queued.
///
/// Keep the app for as long as you submit work to it. Queued jobs and executors retain it. All members may be
/// used from any thread.
public final class App: Sendable {
  let core: AppCore

  /// The executor for tasks of this app: `Task(executorPreference: app.executor) { … }`, or
  /// `withTaskExecutorPreference`.
  ///
  /// Child tasks (`async let`, task groups) inherit it. `Task { }` and `Task.detached` do not: the language
  /// sends those to the global pool. Use `task(name:priority:operation:)` instead.
  ///
  /// A task of another app that enters through `withTaskExecutorPreference` while this app is suspended waits
  /// until the app is resumed. If the waiting task is foreground work, the scheduler logs a warning after one
  /// second. Three waits are not detected:
  /// - The app was suspended only after the task had entered.
  /// - The task came from a strand's actor.
  /// - The wait is `Task.value` of a task that was started with this executor. Use `AppTask.value`, which
  ///   is detected.
  ///
  /// A task that leaves a default actor while others wait for that actor may be delayed until the actor's
  /// next message ends. The delay is at most a little more than one ``QuantumPolicy/quantum``, and occurs
  /// even if cores are idle. An actor on a strand causes no such delay.
  public let executor: AppExecutor

  init(core: AppCore) {
    self.core = core
    executor = AppExecutor(core)
  }

  /// The name given at creation; for people.
  public var name: String { core.name }

  /// The app's current band. Change it with ``setBand(_:)``.
  public var band: Band { core.band }

  /// Moves the app to another band, in one step that does not depend on how much it has queued. (R-CPU-10)
  ///
  /// Queued jobs follow. Jobs that are running: going to the background they are lowered within a moment, and
  /// others take their place in the pool; coming to the foreground they are raised where the process may do
  /// that, else they go on as they are and the app's next job is a foreground one.
  ///
  /// - Throws: ``SchedulerError`` with code `poolDisabled` where the configuration has no pool for `band`.
  public func setBand(_ band: Band) throws(SchedulerError) {
    try core.engine.requirePool(for: band)
    core.setBand(band)
  }

  /// Whether the app's jobs may run.
  public enum Activity: Sendable, Hashable {
    /// The app's jobs run as its band allows.
    case active
    /// The app was suspended, and a slice that was running then has not ended yet. Also for a moment while a
    /// worker that was about to take a job of the app finds out that it may not.
    case suspending
    /// The app is suspended and executes nothing.
    case suspended
  }

  /// The app's current activity.
  public var activity: Activity {
    guard core.state.suspended else { return .active }
    return core.isQuiet ? .suspended : .suspending
  }

  /// Band and suspension, read together. The generation changes with each change of either.
  package var moment: (band: Band, isSuspended: Bool, generation: UInt64) {
    let state = core.state
    return (Band(rawValue: state.band) ?? .background, state.suspended, state.generation)
  }

  /// Suspends the app: after this call returns no further job of it is chosen to run. (R-FTS-09)
  ///
  /// A running slice continues to its end, and so does a job that a worker has already taken; of a strand, at
  /// most the next job. Use ``untilSuspended()`` to wait for that. Jobs that are queued meanwhile wait.
  ///
  /// Jobs of default actors are the exception. They serve every user of the actor, so they run although the
  /// app is suspended.
  ///
  /// A task that awaits an actor on one of the app's strands, or the value of one of its tasks, waits until
  /// the app is resumed. If that task is foreground work of another app and waits longer than one second, the
  /// scheduler logs both apps, once. To avoid such a wait:
  /// - Let the foreground resume the app before it asks.
  /// - Put a service that others need into an app of its own, or into a default actor, and do not suspend
  ///   that.
  /// - Look at ``activity`` first, or race the answer against ``clock`` in two separate tasks and drop the
  ///   later one. Cancelling the waiting task does not end its wait.
  public func suspend() { core.suspend() }

  /// Resumes the app: all that is queued runs, in order.
  public func resume() { core.resume() }

  /// Waits until no slice of the app runs any more, or until it is resumed, or the caller's task is
  /// cancelled; ``activity`` tells which. Returns at once if it is not suspended.
  ///
  /// If the app is suspended then, ``statistics`` counts every job that has run.
  ///
  /// A task of the app itself that awaits this continues only when the app is resumed, as at any other
  /// suspension point.
  public func untilSuspended() async {
    guard core.state.suspended, !core.isQuiet else { return }
    let (wait, core) = (Wait(), core)
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard wait.begin(continuation) else { return continuation.resume() }
        core.engine.monitor.post(.waitForQuiet(core, wait))
      }
    } onCancel: {
      wait.end()
      // It forgets the wait, and with it the app.
      core.engine.monitor.post(.checkWaiters)
    }
  }

  /// Queues a closure. It runs once; if the scheduler is shut down first, `cancelled` is called once instead.
  ///
  /// - Parameters:
  ///   - priority: the rank among the app's own jobs; `nil` is `.medium`.
  ///   - cancelled: called instead of `body` if `body` will never run; on any thread.
  ///   - body: what to run.
  /// - Throws: ``SchedulerError``: `shutDown`, `threadEnding`, `outOfMemory`; nothing is queued then.
  public func submit(
    priority: TaskPriority? = nil, onCancel cancelled: (@Sendable () -> Void)? = nil,
    _ body: @escaping @Sendable () -> Void
  ) throws(SchedulerError) {
    try core.submit(priority.map(BasePriority.init) ?? .medium, body, cancelled: cancelled)
  }

  /// Makes a strand: a serial executor whose jobs run one after the other, on any free worker of the app. Use
  /// it as the executor of an actor, or submit closures to it.
  ///
  /// - Parameters:
  ///   - name: for people.
  ///   - priority: its place among the app's own work; `nil` is `.medium`.
  ///   - ceiling: the band below which its jobs are never run, whoever queued them; `nil` is the app's own.
  ///     State that the foreground needs as well as the background belongs on a strand with the ceiling
  ///     `.foreground`: no job that has begun with it is left without a CPU. A suspended app's strand stands
  ///     still all the same. The first of an app counts as one more app of
  ///     ``SchedulerConfiguration/maximumApps``.
  /// - Throws: ``SchedulerError``: `outOfMemory`; with a ceiling also `tooManyApps`, and `poolDisabled` where
  ///   the configuration has no pool for it.
  public func makeStrand(
    named name: String, priority: TaskPriority? = nil, ceiling: Band? = nil
  ) throws(SchedulerError) -> Strand {
    try Strand(app: core, name: name, priority: priority ?? .medium, ceiling: ceiling)
  }

  /// Starts a task whose whole tree stays on this app's executor, and which can be raised while it is queued.
  ///
  /// Work of a higher band or priority that awaits `AppTask.value` donates its band or priority to the
  /// task.
  ///
  /// - Parameters:
  ///   - name: for people and tools.
  ///   - priority: `nil` is the priority of the caller.
  @discardableResult
  public func task<Success: Sendable>(
    name: String? = nil, priority: TaskPriority? = nil,
    operation: sending @escaping @isolated(any) () async -> Success
  ) -> AppTask<Success, Never> {
    AppTask(core, name: name, priority: priority, operation: operation)
  }

  /// Starts a task that may throw, else as one that does not. An error that nobody asks for is dropped.
  ///
  /// - Parameters:
  ///   - name: for people and tools.
  ///   - priority: `nil` is the priority of the caller.
  @discardableResult
  public func task<Success: Sendable>(
    name: String? = nil, priority: TaskPriority? = nil,
    operation: sending @escaping @isolated(any) () async throws -> Success
  ) -> AppTask<Success, any Error> {
    AppTask(core, name: name, priority: priority, operation: operation)
  }

  /// A clock on the scheduler's own coalesced timers: `try await app.clock.sleep(for: .seconds(1))`.
  ///
  /// Unlike `Task.sleep` it starts no extra threads, and a timer does not wake a suspended app.
  public var clock: AppClock { AppClock(core.engine) }

  /// CPU time used by the app's jobs since the app was made, running jobs included.
  ///
  /// Zero without ``SchedulerConfiguration/collectsStatistics``. The call asks the monitor's thread, so keep
  /// it out of hot paths. Up to 1 millisecond for each worker may be missing.
  public func cpuTime() async -> Duration {
    guard core.statistics.isCollecting else { return .zero }
    let nanoseconds = await withCheckedContinuation { core.engine.monitor.post(.cpuTime(core, $0)) }
    return .nanoseconds(Int64(clamping: nanoseconds))
  }

  /// Counters of the app since it was made: jobs, CPU time, waiting times.
  ///
  /// Of each worker that is still with the app, up to 63 jobs and 1 millisecond of CPU time may be missing.
  /// Once ``activity`` is `suspended`, nothing is.
  public var statistics: AppStatistics { AppStatistics(core.record) }
}
