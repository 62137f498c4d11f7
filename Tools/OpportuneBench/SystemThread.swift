import COpportune
import Glibc
import OpportuneBase

/// Kernel scheduling class of a thread that the bench starts.
enum KernelClass: Sendable, Equatable {
  /// `SCHED_OTHER`, nice 0.
  case normal
  /// `SCHED_IDLE`: only what others leave.
  case idle
  /// `SCHED_FIFO` or `SCHED_RR` at the lowest real-time priority; need privilege.
  case fifo, roundRobin

  fileprivate var policy: (number: Int32, priority: Int32) {
    switch self {
    case .normal: (0, 0)
    case .idle: (5, 0)
    case .fifo: (1, 1)
    case .roundRobin: (2, 1)
    }
  }

  /// Puts the calling thread into this class. Returns 0 or an errno.
  func applyToCaller() -> Int32 {
    var parameters = sched_param()
    parameters.sched_priority = policy.priority
    return sched_setscheduler(opp_thread_id(), policy.number, &parameters) == 0 ? 0 : errno
  }
}

/// A thread of the bench's own, joined by `join()`.
final class SystemThread: Sendable {
  private let ended = Gate()

  /// Starts `body` on a new thread. Throws where the process may have no more threads, or where the class is
  /// refused; then `body` has not run.
  init(
    named name: String, kernelClass: KernelClass = .normal, _ body: @escaping @Sendable () -> Void
  ) throws(BenchError) {
    let outcome = Outcome()
    let ended = self.ended
    let failure = Self.launch(named: name) {
      let code = kernelClass == .normal ? 0 : kernelClass.applyToCaller()
      outcome.complete(code)
      if code == 0 { body() }
      ended.open()
    }
    guard failure == 0 else {
      throw BenchError.failed("thread '\(name)' could not start", failure)
    }
    let refusal = outcome.wait()
    guard refusal == 0 else {
      throw BenchError(
        .unavailable,
        "thread '\(name)' could not enter class \(kernelClass): \(errorText(refusal))")
    }
  }

  /// Starts it in a real-time class where that is allowed, so that a load does not delay who measures; else
  /// as an ordinary thread, whose lateness shows what that costs.
  static func measuring(
    named name: String, _ body: @escaping @Sendable () -> Void
  ) throws(BenchError) -> (thread: SystemThread, isRealTime: Bool) {
    do throws(BenchError) {
      return (try SystemThread(named: name, kernelClass: .fifo, body), true)
    } catch {
      guard error.code == .unavailable else { throw error }
      return (try SystemThread(named: name, body), false)
    }
  }

  /// Waits until the body has returned.
  func join() { ended.wait() }

  /// Starts a detached thread of the kernel's name "bench-" and as much of `name` as makes 15 bytes; a thread
  /// has its creator's else, such as a worker's that is measured. Returns 0 or an errno.
  static func launch(named name: String, _ body: @escaping @Sendable () -> Void) -> Int32 {
    // The core starts threads that take no signals. Programs that this one starts must.
    var signals = sigset_t()
    pthread_sigmask(SIG_SETMASK, nil, &signals)
    let box = Unmanaged.passRetained(
      Body { [signals] in
        var signals = signals
        pthread_sigmask(SIG_SETMASK, &signals, nil)
        body()
      })
    let result = opp_thread_start(
      "bench-" + name, 512 << 10,
      { context in
        if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
      }, box.toOpaque())
    if result != 0 { box.release() }
    return -result
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// The errno that a starting thread hands to the thread that started it.
  private final class Outcome: @unchecked Sendable {
    private let gate = Gate()
    private var code: Int32 = 0  // published by the gate

    func complete(_ code: Int32) {
      self.code = code
      gate.open()
    }

    func wait() -> Int32 {
      gate.wait()
      return code
    }
  }
}

/// Lets the calling thread's timers fire within a nanosecond of their time rather than 50 microseconds.
/// Where `/proc` does not allow it the timers stay coarse, and the generator's own lateness shows it.
func sharpenTimersOfCaller() {
  let file = open("/proc/\(opp_thread_id())/timerslack_ns", O_WRONLY | O_CLOEXEC)
  guard file >= 0 else { return }
  _ = write(file, "1", 1)
  close(file)
}
