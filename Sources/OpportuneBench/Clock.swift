import Glibc

/// A point of `CLOCK_MONOTONIC`, or a span of it, in nanoseconds.
public typealias Nanoseconds = UInt64

/// The clocks that the bench reads. All answers are in nanoseconds.
enum Clock {
  /// `CLOCK_MONOTONIC` now.
  static func now() -> Nanoseconds { read(CLOCK_MONOTONIC) }

  /// CPU time that the calling thread has used.
  static func threadCPU() -> Nanoseconds { read(CLOCK_THREAD_CPUTIME_ID) }

  /// CPU time that all threads of this process have used.
  static func processCPU() -> Nanoseconds { read(CLOCK_PROCESS_CPUTIME_ID) }

  /// Sleeps until `deadline` of `CLOCK_MONOTONIC`; returns at once where it has passed.
  static func sleep(until deadline: Nanoseconds) {
    var until = timespec(
      tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
    while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nil) == EINTR {}
  }

  private static func read(_ clock: clockid_t) -> Nanoseconds {
    var time = timespec()
    clock_gettime(clock, &time)
    return Nanoseconds(time.tv_sec) &* 1_000_000_000 &+ Nanoseconds(time.tv_nsec)
  }
}

/// The saturating difference of two readings, so that a clock read on another core never wraps.
func elapsed(from start: Nanoseconds, to end: Nanoseconds) -> Nanoseconds {
  end > start ? end - start : 0
}
