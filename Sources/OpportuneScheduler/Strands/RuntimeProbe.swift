internal import COpportuneRuntime

/// Tests once whether the runtime's jobs have the layout that `opp_runtime.h` assumes. If not, the kind of a
/// job is unknown: jobs of default actors are then suspended with their app, and demotion knows slices only.
enum RuntimeProbe {
  static let knowsJobLayout = look {}

  /// - Parameter body: what the inspected job does.
  static func look(_ body: @escaping @Sendable () -> Void) -> Bool {
    let probe = ProbeExecutor()
    _ = Task(executorPreference: probe, priority: .medium) { body() }
    return probe.sawTask
  }

  /// Inspects its one job and runs it at once on the calling thread. Not a Dispatch thread: where /proc is
  /// not mounted, Dispatch may terminate a program that hands it a job, and a diagnosis must work there too.
  private final class ProbeExecutor: TaskExecutor, @unchecked Sendable {
    // Written by the enqueue inside `Task.init`, on the same thread that reads it afterwards.
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
