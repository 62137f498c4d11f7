/// The kernel scheduling class of fresh foreground work. (R-CPU-01)
///
/// A value: safe to use from any thread. ``SchedulerConfiguration/validate()`` rejects values out of range.
public enum ForegroundClass: Sendable, Hashable {
  /// `SCHED_OTHER` at the program's own nice value, with a short slice.
  case normal

  /// `SCHED_RR`, bounded twice: before every ordinary thread of the machine, but only briefly.
  ///
  /// Foreground work that was not demoted runs in it, and the thread of an I/O broker that serves its apps.
  /// * A job leaves the class once it has used `quantum` of CPU time, and so does one that has been blocked
  ///   for some quanta. A task that goes on after a yield or a hop goes on where it was.
  /// * All leave it once the class has used `share` of the last 100 ms on any one CPU, and come back as time
  ///   goes on. So in any 100 ms each CPU has the rest of it, less a quantum, for everything else.
  ///
  /// Whoever left it runs as under ``normal``. It needs the privilege to enter `SCHED_RR`: `CAP_SYS_NICE`, or
  /// a limit of real-time priorities (`RLIMIT_RTPRIO`) of 3 or more, of 67 with a real-time pool. Otherwise
  /// RealtimeKit, where that service runs, is asked for the threads of I/O brokers alone; it demands that
  /// `RLIMIT_RTTIME` be lowered to 200 ms, for good. ``SchedulerStatistics/realTimeForeground`` and
  /// `opportune doctor` say what the program gets.
  ///
  /// It helps where foreground jobs are short and few beside other work, and costs that other work time. Work
  /// of the real-time pool stands above it.
  ///
  /// - Parameters:
  ///   - quantum: CPU time of one job, 100 µs to 10 ms; 1 ms by default.
  ///   - share: of each CPU in any 100 ms, 0.05 to 0.9; 0.7 by default. The kernel's own limit,
  ///     `sched_rt_runtime_us`, is 0.95 of a second.
  case realTime(quantum: Duration = .milliseconds(1), share: Double = 0.7)

  /// The accepted quanta of ``realTime(quantum:share:)``: 100 µs to 10 ms.
  public static let quantumRange: ClosedRange<Duration> = .microseconds(100) ... .milliseconds(10)
  /// The accepted shares of ``realTime(quantum:share:)``: 0.05 to 0.9.
  public static let shareRange: ClosedRange<Double> = 0.05...0.9

  func validate() throws(ConfigurationError) {
    guard case .realTime(let quantum, let share) = self else { return }
    try requireInRange(quantum, Self.quantumRange, .realTimeQuantum)
    try requireInRange(share, Self.shareRange, .realTimeShare)
  }
}
