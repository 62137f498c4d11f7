internal import Glibc

/// A point of `CLOCK_MONOTONIC`, or a span of time, in nanoseconds.
package typealias Nanoseconds = UInt64

/// The kernel's clocks, for code without the C core, whose `opp_now_ns` reads the same clock.
package enum SystemClock {
  /// `CLOCK_MONOTONIC` now.
  package static func now() -> Nanoseconds { read(CLOCK_MONOTONIC) }

  /// CPU time that the calling thread has used.
  package static func threadCPU() -> Nanoseconds { read(CLOCK_THREAD_CPUTIME_ID) }

  /// CPU time that all threads of this process have used.
  package static func processCPU() -> Nanoseconds { read(CLOCK_PROCESS_CPUTIME_ID) }

  /// Sleeps until `deadline` of `CLOCK_MONOTONIC`; returns at once where it has passed.
  package static func sleep(until deadline: Nanoseconds) {
    var until = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
    while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nil) == EINTR {}
  }

  private static func read(_ clock: clockid_t) -> Nanoseconds {
    var time = timespec()
    clock_gettime(clock, &time)
    return Nanoseconds(time.tv_sec) &* 1_000_000_000 &+ Nanoseconds(time.tv_nsec)
  }
}

extension Duration {
  /// Whole nanoseconds, rounded towards zero; the nearest `Int64` for durations of more than 292 years.
  package var clampedNanoseconds: Int64 { Int64(clamping: wholeNanoseconds) }

  /// Whole nanoseconds, clamped to `UInt64`: 0 for a negative duration, the maximum for more than 584 years.
  package var unsignedNanoseconds: Nanoseconds { Nanoseconds(clamping: wholeNanoseconds) }

  /// Seconds, for people and reports.
  package var inSeconds: Double { Double(clampedNanoseconds) / 1e9 }

  /// For people, to the nanosecond and in a unit that fits: "250 µs", "1.5 ms", "0 s".
  package var inUnits: String {
    let count = wholeNanoseconds
    let units: [(name: String, size: Int128)] = [("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)]
    let unit =
      count == 0 ? units[0] : units.first { count.magnitude >= $0.size.magnitude } ?? ("ns", 1)
    var fraction = String((count % unit.size).magnitude + unit.size.magnitude).dropFirst()
    while fraction.last == "0" { fraction.removeLast() }
    return "\(count / unit.size)\(fraction.isEmpty ? "" : ".")\(fraction) \(unit.name)"
  }

  private var wholeNanoseconds: Int128 {
    let (seconds, attoseconds) = components
    return Int128(seconds) * 1_000_000_000 + Int128(attoseconds / 1_000_000_000)
  }
}
