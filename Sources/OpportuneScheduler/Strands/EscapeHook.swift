internal import COpportune
internal import COpportuneRuntime
internal import OpportuneBase
import Synchronization

/// The runtime's hook on jobs for the global pool. It counts jobs that escape from apps; if the program asks
/// for it, it queues them in an app instead.
///
/// The runtime does not officially support the hook. So it is set only by
/// ``SchedulerConfiguration/countsEscapes`` or ``Scheduler/becomeDefaultExecutor(for:)``. Once set it stays
/// for the life of the process.
enum EscapeHook {
  private static let installed = Atomic<Bool>(false)
  /// The app for tasks that no app's worker has started, retained for ever; 0 for none.
  private static let owner = Atomic<UInt>(0)

  /// Installs the hook. Returns false where the runtime has none.
  static func install() -> Bool {
    if installed.load(ordering: .acquiring) { return true }
    let works = opp_runtime_hook_global { job in EscapeHook.seen(job) }
    installed.store(works, ordering: .releasing)
    return works
  }

  /// Makes the app the default executor. Returns false if another app was named before.
  static func adopt(_ core: AppCore) -> Bool {
    let retained = Unmanaged.passRetained(core)
    let word = UInt(bitPattern: retained.toOpaque())
    // releasing: publishes the app to seen().
    if owner.compareExchange(expected: 0, desired: word, ordering: .acquiringAndReleasing).exchanged {
      return true
    }
    retained.release()
    return false
  }

  /// The tasks seen so far, by id: the address of the owning app's core, or `nobodys`. The table is lossy. A
  /// task that was evicted counts as new: it may be counted twice, or run on the app that resumes it.
  // The table is lock-free.
  private nonisolated(unsafe) static let tasks = opp_table_create(1 << 14)
  private static let nobodys: UInt64 = 1

  /// Called by the runtime on the enqueuing thread. Returns true if the job was taken over.
  ///
  /// Only a task's first enqueue shows its owner. A later one is made by whatever resumes the task: perhaps
  /// an app whose result the task was waiting for, and that is otherwise unrelated.
  private static func seen(_ job: UnsafeMutableRawPointer) -> Bool {
    let worker = opp_thread_worker().map { Unmanaged<Worker>.fromOpaque($0).takeUnretainedValue() }
    let identity = opp_runtime_task_id(job)
    let known = identity == 0 ? 0 : tasks.map { opp_table_get($0, identity) } ?? 0
    guard let named = UnsafeRawPointer(bitPattern: owner.load(ordering: .acquiring)) else {
      guard known == 0 else { return false }
      if identity != 0, let tasks { opp_table_put(tasks, identity, nobodys) }
      if let app = worker?.app { app.statistics.add(.escapes, 1, in: app.band) }
      worker?.engine.noteEscape()
      return false
    }
    var core = Unmanaged<AppCore>.fromOpaque(named).takeUnretainedValue()
    if known == 0 {
      core = worker?.app ?? core
      if identity != 0, let tasks { opp_table_put(tasks, identity, apps.add(core)) }
    } else if let app = apps[known] {
      core = app
    }
    // A job that cannot be queued (the scheduler has ended, the thread is ending) is not passed to the global
    // pool from here: that would call this hook again.
    return core.tryEnqueue(unsafeBitCast(job, to: UnownedJob.self))
  }

  private static let apps = WeakApps()
}

/// Apps by the addresses of their cores, as weak references. Safe on any thread.
private final class WeakApps: @unchecked Sendable {
  private struct Entry { weak var core: AppCore? }

  private let lock = Lock()
  private var entries: [UInt64: Entry] = [:]
  private var pruneAt = 64

  /// Adds an app. Returns its address, which a later app may reuse after this one has ended.
  func add(_ core: AppCore) -> UInt64 {
    let address = UInt64(UInt(bitPattern: Unmanaged.passUnretained(core).toOpaque()))
    lock.withLock {
      guard entries[address]?.core !== core else { return }
      entries[address] = Entry(core: core)
      guard entries.count > pruneAt else { return }
      entries = entries.filter { $0.value.core != nil }
      pruneAt = 2 * entries.count + 64
    }
    return address
  }

  subscript(address: UInt64) -> AppCore? { lock.withLock { entries[address]?.core } }
}

extension Scheduler {
  /// Makes this scheduler the program's default executor.
  ///
  /// `Task { }`, detached tasks and all else that would go to the language's global pool then runs, to its
  /// end, on the app whose work starts it; or on `app` if no app's work does.
  ///
  /// Experimental and off by default: it rests on a hook that the runtime does not officially support. It
  /// holds for the whole process and for its whole life; call it once, early.
  ///
  /// - Throws: ``SchedulerError``: `runtimeHookMissing` where this Swift runtime has no hook;
  ///   `defaultExecutorTaken` if an app was named before.
  public func becomeDefaultExecutor(for app: App) throws(SchedulerError) {
    try becomeDefaultExecutor(for: app, hooked: EscapeHook.install())
  }

  func becomeDefaultExecutor(for app: App, hooked: Bool) throws(SchedulerError) {
    guard hooked else {
      throw SchedulerError(
        .runtimeHookMissing,
        "this Swift runtime does not offer swift_task_enqueueGlobal_hook; use apps' executors")
    }
    guard EscapeHook.adopt(app.core) else {
      throw SchedulerError(.defaultExecutorTaken, "an app of this process is the default executor already")
    }
  }
}
