import OpportuneBase
import Synchronization

/// What all jobs of one window share.
final class WindowState: Sendable {
  /// Set at the window's end: jobs return at their next look, chains submit no further link.
  let isStopping = Atomic<Bool>(false)
  /// Accepted jobs that have not ended.
  let outstanding = Atomic<Int>(0)
  /// Work done by background jobs and hogs: iterations, or bytes indexed.
  let work = Atomic<UInt64>(0)
  /// CPU time inside background jobs and hogs, in nanoseconds.
  let backgroundCPU = Atomic<UInt64>(0)
  let refused = Atomic<Int>(0)
  /// Where results of computations go, so that no compiler drops them.
  let sink = Atomic<UInt64>(0)
  /// The lock of a scenario in which both sides take one. It guards nothing: what it costs is waiting.
  let shared = Mutex(())

  /// Submits one accounted job. Whether it was accepted.
  @discardableResult
  func submit(_ job: @escaping Job, with submit: (@escaping Job) -> Bool) -> Bool {
    outstanding.add(1, ordering: .relaxed)
    let accepted = submit {
      job()
      self.outstanding.subtract(1, ordering: .releasing)
    }
    if !accepted {
      outstanding.subtract(1, ordering: .relaxed)
      refused.add(1, ordering: .relaxed)
    }
    return accepted
  }

  /// Waits until every accepted job has ended; false after `limit` nanoseconds.
  func drain(limit: Nanoseconds = 30_000_000_000) -> Bool {
    let deadline = SystemClock.now() + limit
    while outstanding.load(ordering: .acquiring) != 0 {
      if SystemClock.now() > deadline { return false }
      SystemClock.sleep(until: SystemClock.now() + 500_000)
    }
    return true
  }
}
