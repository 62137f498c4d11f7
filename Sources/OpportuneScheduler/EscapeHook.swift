internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// The runtime's hook on what goes to the global pool: counts what escapes from apps, and, where a program asks for
/// it, keeps it.
///
/// The hook is not supported by the runtime's makers, so nothing sets it unless
/// ``SchedulerConfiguration/countsEscapes`` or ``Scheduler/becomeDefaultExecutor(for:)`` asks. Once set it stays for the
/// life of the process.
enum EscapeHook {
  private static let installed = Atomic<Bool>(false)
  /// The app that owns tasks which no app's worker has started, retained for ever; 0 for none.
  private static let owner = Atomic<UInt>(0)

  /// False where the runtime has no such hook.
  static func install() -> Bool {
    if installed.load(ordering: .acquiring) { return true }
    let works = opp_runtime_hook_global { job in EscapeHook.seen(job) }
    installed.store(works, ordering: .releasing)
    return works
  }

  /// From now on keeps what would escape. False if another app has been named before.
  static func adopt(_ core: AppCore) -> Bool {
    let retained = Unmanaged.passRetained(core)
    let word = UInt(bitPattern: retained.toOpaque())
    // releasing: publishes the app to seen().
    if owner.compareExchange(expected: 0, desired: word, ordering: .acquiringAndReleasing).exchanged { return true }
    retained.release()
    return false
  }

  /// Called by the runtime on the thread that enqueues. True if the job was taken over.
  private static func seen(_ job: UnsafeMutableRawPointer) -> Bool {
    let worker = opp_thread_worker().map { Unmanaged<Worker>.fromOpaque($0).takeUnretainedValue() }
    let named = UnsafeRawPointer(bitPattern: owner.load(ordering: .acquiring))
    guard let named else {
      worker?.app?.statistics.add(.escapes, 1)
      worker?.engine.noteEscape()
      return false
    }
    let core = worker?.app ?? Unmanaged<AppCore>.fromOpaque(named).takeUnretainedValue()
    // A scheduler that is gone passes its jobs to the global pool, which must not pass them back.
    guard core.engine.accepts else { return false }
    core.enqueue(unsafeBitCast(job, to: UnownedJob.self))
    return true
  }
}

extension Scheduler {
  /// Makes this scheduler the program's default executor: `Task { }`, detached tasks and whatever else would go to the
  /// language's global pool runs on the app whose work starts it, or on `app` if no app's work does.
  ///
  /// Experimental and off by default: it rests on a hook that the runtime's makers do not support. For the whole process
  /// and for its whole life; call it once, early.
  ///
  /// - Throws: ``SchedulerError``: `runtimeHookMissing` where this Swift runtime has no hook; `defaultExecutorTaken` if an
  ///   app was named before.
  public func becomeDefaultExecutor(for app: App) throws(SchedulerError) {
    guard EscapeHook.install() else {
      throw SchedulerError(
        .runtimeHookMissing, "this Swift runtime does not offer swift_task_enqueueGlobal_hook; use apps' executors")
    }
    guard EscapeHook.adopt(app.core) else {
      throw SchedulerError(.defaultExecutorTaken, "an app of this process is the default executor already")
    }
  }
}
