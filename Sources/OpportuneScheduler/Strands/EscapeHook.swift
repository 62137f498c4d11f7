internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// The runtime's hook on jobs for the global pool. It counts jobs that escape from apps.
///
/// The runtime does not officially support the hook. So it is set only by
/// ``SchedulerConfiguration/countsEscapes``. Once set it stays for the life of the process.
enum EscapeHook {
  private static let installed = Atomic<Bool>(false)

  /// Installs the hook. Returns false where the runtime has none.
  static func install() -> Bool {
    if installed.load(ordering: .acquiring) { return true }
    let works = opp_runtime_hook_global { job in EscapeHook.seen(job) }
    installed.store(works, ordering: .releasing)
    return works
  }

  /// The tasks seen so far, by id. The table is lossy: a task that was evicted counts as new, and may be
  /// counted twice.
  // The table is lock-free.
  private nonisolated(unsafe) static let tasks = opp_table_create(1 << 14)

  /// Called by the runtime on the enqueuing thread.
  ///
  /// Only a task's first enqueue shows its owner. A later one is made by whatever resumes the task: perhaps
  /// an app whose result the task was waiting for, and that is otherwise unrelated.
  private static func seen(_ job: UnsafeMutableRawPointer) {
    let identity = opp_runtime_task_id(job)
    if identity != 0, let tasks {
      guard opp_table_get(tasks, identity) == 0 else { return }
      opp_table_put(tasks, identity, 1)
    }
    guard let context = opp_thread_worker() else { return }
    let worker = Unmanaged<Worker>.fromOpaque(context).takeUnretainedValue()
    if let app = worker.app { app.statistics.add(.escapes, 1, in: app.band) }
    worker.engine.noteEscape()
  }
}
