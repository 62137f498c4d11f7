/// The task executor of an ``App``. Keeps its app alive.
public final class AppExecutor: TaskExecutor {
  private let core: AppCore

  init(_ core: AppCore) {
    self.core = core
    core.bind(asUnownedTaskExecutor())
  }

  /// Queues a job; called by the runtime. Never refuses: once the scheduler is shut down, jobs go to the
  /// global pool.
  public func enqueue(_ job: consuming ExecutorJob) {
    // The runtime lends this reference. The job may end, and with it what keeps the app, before this thread
    // goes on.
    let held = Unmanaged.passRetained(core)
    defer { held.release() }
    let job = UnownedJob(job)
    held._withUnsafeGuaranteedRef { $0.enqueue(job) }
  }
}
