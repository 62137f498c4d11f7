/// The task executor of an ``App``. Keeps its app alive.
public final class AppExecutor: TaskExecutor {
  private let core: AppCore

  init(_ core: AppCore) {
    self.core = core
    core.bind(asUnownedTaskExecutor())
  }

  /// Queues a job; called by the runtime. Never refuses: once the scheduler is shut down, jobs go to the global pool.
  public func enqueue(_ job: consuming ExecutorJob) { core.enqueue(UnownedJob(job)) }
}
