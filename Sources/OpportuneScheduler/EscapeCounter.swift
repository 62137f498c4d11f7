internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// Counts tasks that leave an app for the global pool: `Task { }` inside its work, and the like. Off by default, as it
/// hangs on a hook that the runtime's makers do not support.
enum EscapeCounter {
  private static let installed = Atomic<Bool>(false)

  /// For the whole process; the worker that enqueues tells whose escape it is.
  static func install(_ engine: Engine) {
    guard !installed.exchange(true, ordering: .sequentiallyConsistent) else { return }
    let works = opp_runtime_hook_global { _ in
      if let pointer = opp_thread_worker() {
        let worker = Unmanaged<Worker>.fromOpaque(pointer).takeUnretainedValue()
        worker.app?.statistics.add(.escapes, 1)
        worker.engine.noteEscape()
      }
      return false
    }
    if !works { engine.logger.warning("this Swift runtime has no enqueue hook: escapes are not counted") }
  }
}
