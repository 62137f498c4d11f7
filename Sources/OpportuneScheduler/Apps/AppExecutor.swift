/// The task executor of an ``App``. It retains its app.
public final class AppExecutor: TaskExecutor {
  let core: AppCore

  init(_ core: AppCore) {
    self.core = core
    core.bind(asUnownedTaskExecutor())
  }

  /// Queues a job; called by the runtime. Never refuses: once the scheduler is shut down, jobs go to the
  /// global pool.
  public func enqueue(_ job: consuming ExecutorJob) {
    // The runtime passes this object unretained. The job may run and release the last reference to the app
    // before this call returns.
    let held = Unmanaged.passRetained(core)
    defer { held.release() }
    let job = UnownedJob(job)
    held._withUnsafeGuaranteedRef { $0.enqueue(job) }
  }
}
