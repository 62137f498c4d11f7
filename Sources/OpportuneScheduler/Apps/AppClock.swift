internal import COpportune
internal import OpportuneBase
import Synchronization

/// A clock that sleeps on the scheduler's own timers: one-shot, coalesced within their tolerance, on the
/// monitor's thread. The instants are of `SuspendingClock`'s kind: `CLOCK_MONOTONIC`, which stands still
/// while the machine is suspended.
public struct AppClock: Clock {
  /// A point on `CLOCK_MONOTONIC`.
  public struct Instant: InstantProtocol, Sendable, Hashable {
    let nanoseconds: Int64

    /// The instant so much later.
    public func advanced(by duration: Duration) -> Instant {
      Instant(nanoseconds: nanoseconds.saturatingAdd(duration.clampedNanoseconds))
    }

    /// How much later the other is.
    public func duration(to other: Instant) -> Duration {
      .nanoseconds(other.nanoseconds) - .nanoseconds(nanoseconds)
    }

    public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.nanoseconds < rhs.nanoseconds }
  }

  private let engine: Engine

  init(_ engine: Engine) { self.engine = engine }

  /// The time on `CLOCK_MONOTONIC`.
  public var now: Instant { Instant(nanoseconds: Int64(clamping: opp_now_ns())) }

  /// What the clock can tell apart; timers fire within their tolerance.
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Sleeps until `deadline`, or up to `tolerance` longer, by default the configuration's `timerTolerance`.
  ///
  /// - Throws: `CancellationError` when the task is cancelled, at once. After the scheduler's shutdown, and
  ///   in the child of a `fork()`, the sleep ends early.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    try Task.checkCancellation()
    let tolerance = tolerance ?? engine.configuration.timerTolerance
    let timer = SleepTimer(
      deadline: UInt64(max(0, deadline.nanoseconds)), tolerance: tolerance.unsignedNanoseconds)
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard timer.begin(continuation) else { return continuation.resume() }
        if engine.isClosed || engine.isForked { return timer.end() }
        Worker.current(of: engine)?.willSleep(timer)
        engine.monitor.add(timer)
      }
    } onCancel: {
      timer.end()
      if !engine.isForked { engine.monitor.cancel(timer) }
    }
    Worker.current(of: engine)?.hasSlept(timer)
    try Task.checkCancellation()
  }
}

/// One sleep.
final class SleepTimer: Wait, @unchecked Sendable {
  let deadline: UInt64
  let tolerance: UInt64
  /// When the task went to sleep.
  let began = opp_now_ns()
  /// Whether it slept until the deadline.
  let hasFired = Atomic<Bool>(false)
  var latest: UInt64 { deadline.saturatingAdd(tolerance) }
  /// The monitor's own: where it keeps the timer.
  var place: TimerHeap<SleepTimer>.ID?

  init(deadline: UInt64, tolerance: UInt64) {
    self.deadline = deadline
    self.tolerance = tolerance
  }
}
