internal import COpportune
import Synchronization

/// The real-time foreground of one scheduler: what its workers, its monitor and the threads that serve it
/// share. The policy is in ``ClassPolicy``; the monitor measures and carries out.
///
/// A worker takes the class itself as it begins a job, and keeps it from job to job, so that a job which ends
/// within its quantum costs no system call. The monitor takes it away: from a running job by the report's
/// `setPriority`, from all others by `isOpen`, which each worker reads before a job.
final class RealTimeForeground: @unchecked Sendable {
  // Sendable: the C counters are atomic.
  /// The least standing in the class. Workers of the real-time pool, and the monitor, are above both.
  static let priority = KernelPriority.realTimeForeground(1)
  /// Of a thread that serves the foreground: it wakes workers, and must not wait for them.
  static let serverPriority = KernelPriority.realTimeForeground(2)
  /// How far the real-time pool's workers stand above their usual priorities, where there is this class.
  static let steps = 2

  let policy: RealTimeQuantum
  let share: Double
  private let use: OpaquePointer

  /// Workers may take the class. Closed until the monitor stands above it, and while the share is used up.
  /// relaxed, all accesses: a worker that reads the old value is seen by the next look.
  let isOpen = Atomic<Bool>(false)

  /// Statistics: jobs that left the class while they ran, and how often the share was used up.
  let left = Atomic<UInt64>(0)
  let exhausted = Atomic<UInt64>(0)

  /// CPU time in the class that a worker may use without a sleep, in nanoseconds. The kernel counts the same
  /// against `RLIMIT_RTTIME`, and ends the process beyond it; a change of class does not restart its count.
  let mostWithoutSleep: UInt64

  /// nil where `choice` is the normal class, or memory is short.
  init?(_ choice: ForegroundClass) {
    guard case .realTime(let quantum, let share) = choice, let use = opp_cpu_use_create() else { return nil }
    policy = RealTimeQuantum(quantum: UInt64(quantum.clampedNanoseconds))
    self.share = share
    self.use = use
    let limit = opp_rt_time_limit_us()
    mostWithoutSleep = limit == .max ? .max : limit * 1000 / 4
  }

  deinit { opp_cpu_use_destroy(use) }

  var cpus: Int { Int(opp_cpu_use_cpus(use)) }

  /// CPU time in the class on `cpu` so far.
  func used(on cpu: Int) -> UInt64 { opp_cpu_use_read(use, UInt32(cpu)) }

  /// Counts a job of the calling worker that has ended in the class.
  func add(_ cpu: UInt64) { opp_cpu_use_add(use, cpu) }

  /// Counts what a running job has used, for the monitor.
  func add(_ cpu: UInt64, on number: Int32) { opp_cpu_use_add_on(use, number, cpu) }
}

/// A thread outside the scheduler that its foreground's work passes through, such as an I/O broker's. It is
/// in the real-time foreground while its object exists, as far as the bounds allow.
package final class ForegroundServer: @unchecked Sendable {
  // Sendable: constants, and a mutex.
  private let thread = opp_thread_id()
  private let meter: OpaquePointer?
  private let engine: Engine
  private let hasLeft = Mutex(false)
  /// Somebody of the foreground may be in the class: the monitor wants to look.
  let isWatched = Atomic<Bool>(false)

  /// Made by the thread itself. nil where the scheduler has no such class.
  init?(_ engine: Engine) {
    guard engine.realTime != nil else { return nil }
    meter = opp_thread_meter_create()
    self.engine = engine
    engine.monitor.post(.serves(self))
  }

  deinit { if let meter { opp_thread_meter_destroy(meter) } }

  /// The thread has woken up: it will be looked at. No system call as long as an earlier look is due.
  package func woke() { if isWatched.load(ordering: .relaxed) { engine.monitor.armClass() } }

  /// The thread ends, or serves no more. Called on it.
  package func leave() {
    // From here on its number may become another thread's.
    hasLeft.withLock {
      $0 = true
      _ = engine.priority(of: .foreground).apply(to: 0)
    }
    engine.monitor.post(.servesNoMore(self))
  }

  /// Its scheduler is shut down.
  package var isOver: Bool { engine.isClosed }

  var threadID: Int32 { thread }

  /// CPU time so far, in nanoseconds; nil where it cannot be read.
  var cpuTime: UInt64? {
    var cpu: UInt64 = 0
    guard let meter, opp_thread_meter_cpu(meter, &cpu) == 0 else { return nil }
    return cpu
  }

  /// The monitor's: changes the thread's class, unless it has left.
  func apply(_ priority: KernelPriority) -> Bool {
    hasLeft.withLock { !$0 && priority.apply(to: thread) }
  }
}

extension App {
  /// Tells the app's scheduler that the calling thread serves its foreground. nil where that has no class of
  /// its own for it. The thread calls `woke()` after each sleep, and `leave()` before it ends.
  package func serveForeground() -> ForegroundServer? { ForegroundServer(core.engine) }
}
