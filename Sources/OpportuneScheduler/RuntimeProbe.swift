internal import COpportuneRuntime

/// Tests, once, that jobs are laid out as `opp_runtime.h` believes. Where they are not, jobs have no kind: default
/// actors' jobs are then suspended with their app, and demotion knows slices only.
enum RuntimeProbe {
  static let knowsJobLayout: Bool = {
    let probe = ProbeExecutor()
    let task = Task(executorPreference: probe, priority: .medium) {}
    defer { task.cancel() }
    return probe.sawTask
  }()

  /// Looks at the first job that it is given, and passes all on.
  private final class ProbeExecutor: TaskExecutor, @unchecked Sendable {
    // Written by the enqueue inside `Task.init`, on the thread that reads it afterwards.
    private(set) var sawTask = false
    private var isFirst = true

    func enqueue(_ job: UnownedJob) {
      if isFirst {
        isFirst = false
        let pointer = unsafeBitCast(job, to: UnsafeRawPointer.self)
        sawTask =
          Int32(opp_runtime_job_kind(pointer)) == OPP_RUNTIME_JOB_TASK && opp_runtime_task_id(pointer) != 0
          && opp_runtime_job_priority(pointer) == job.priority.rawValue && job.priority.rawValue != 0
      }
      globalConcurrentExecutor.enqueue(job)
    }

    func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }
  }
}
