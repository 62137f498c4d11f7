internal import COpportune
internal import OpportuneBase
import Synchronization

/// A clock that sleeps on the scheduler's own timers.
///
/// The timers are one-shot, coalesced within their tolerance, and fire on the monitor's thread. Like
/// `SuspendingClock` it reads `CLOCK_MONOTONIC`, which does not advance while the machine is suspended.
public struct AppClock: Clock {
  /// A point on `CLOCK_MONOTONIC`.
  public struct Instant: InstantProtocol, Sendable, Hashable {
    let nanoseconds: Int64

    /// The instant that lies `duration` later.
    public func advanced(by duration: Duration) -> Instant {
      Instant(nanoseconds: nanoseconds.saturatingAdd(duration.clampedNanoseconds))
    }

    /// The duration from this instant to `other`.
    public func duration(to other: Instant) -> Duration {
      .nanoseconds(other.nanoseconds) - .nanoseconds(nanoseconds)
    }

    public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.nanoseconds < rhs.nanoseconds }
  }

  private let engine: Engine

  init(_ engine: Engine) { self.engine = engine }

  /// The time on `CLOCK_MONOTONIC`.
  public var now: Instant { Instant(nanoseconds: Int64(clamping: opp_now_ns())) }

  /// The unit of the clock, 1 nanosecond. Timers fire within their tolerance.
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Sleeps until `deadline`, or up to `tolerance` longer; by default the configuration's `timerTolerance`.
  ///
  /// - Throws: `CancellationError` when the task is cancelled, at once. After the scheduler's shutdown the
  ///   sleep ends early.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    try Task.checkCancellation()
    let tolerance = tolerance ?? engine.configuration.timerTolerance
    let timer = SleepTimer(
      deadline: UInt64(max(0, deadline.nanoseconds)), tolerance: tolerance.unsignedNanoseconds)
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard timer.begin(continuation) else { return continuation.resume() }
        if engine.isClosed { return timer.end() }
        Worker.current(of: engine)?.willSleep(timer)
        engine.monitor.add(timer)
      }
    } onCancel: {
      timer.end()
      engine.monitor.cancel(timer)
    }
    Worker.current(of: engine)?.hasSlept(timer)
    try Task.checkCancellation()
  }
}

/// One sleep of one task.
final class SleepTimer: Wait, @unchecked Sendable {
  let deadline: UInt64
  let tolerance: UInt64
  /// When the sleep began, in nanoseconds.
  let began = opp_now_ns()
  /// Whether the sleep lasted until its deadline.
  let hasFired = Atomic<Bool>(false)
  var latest: UInt64 { deadline.saturatingAdd(tolerance) }
  /// The timer's entry in the monitor's heap. Accessed by the monitor's thread only.
  var timerID: TimerHeap<SleepTimer>.ID?

  init(deadline: UInt64, tolerance: UInt64) {
    self.deadline = deadline
    self.tolerance = tolerance
  }
}
