internal import COpportuneRuntime

/// Tests, once, that jobs are laid out as `opp_runtime.h` believes. Where they are not, jobs have no kind:
/// default actors' jobs are then suspended with their app, and demotion knows slices only.
enum RuntimeProbe {
  static let knowsJobLayout = look {}

  /// - Parameter body: what the job does that is looked at.
  static func look(_ body: @escaping @Sendable () -> Void) -> Bool {
    let probe = ProbeExecutor()
    _ = Task(executorPreference: probe, priority: .medium) { body() }
    return probe.sawTask
  }

  /// Looks at its one job, and runs it at once on its caller's thread: where /proc is not mounted, Dispatch
  /// may end a program that hands it a job, and a diagnosis is made there too.
  private final class ProbeExecutor: TaskExecutor, @unchecked Sendable {
    // Written by the enqueue inside `Task.init`, on the thread that reads it afterwards.
    private(set) var sawTask = false

    func enqueue(_ job: UnownedJob) {
      let pointer = unsafeBitCast(job, to: UnsafeRawPointer.self)
      sawTask =
        Int32(opp_runtime_job_kind(pointer)) == OPP_RUNTIME_JOB_TASK && opp_runtime_task_id(pointer) != 0
        && opp_runtime_job_priority(pointer) == job.priority.rawValue && job.priority.rawValue != 0
      job.runSynchronously(on: asUnownedTaskExecutor())
    }

    func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }
  }
}
