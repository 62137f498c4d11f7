internal import OpportuneBase

/// How long a running job was off the CPU without waiting for a CPU, as the monitor finds it out by looks
/// from outside, and since when its present quantum counts. A plain value; the caller measures.
///
/// Time off the CPU is wall-clock time minus CPU time minus run-queue wait. The kernel adds a wait only when
/// the wait is over, so the difference has errors. It is too high while the thread waits for a CPU. It is too
/// low, even negative, if the thread waited when the slice began. Two corrections follow: the lowest value
/// seen is the zero point, and the value does not rise without a voluntary context switch since the switches
/// were last read, because the thread was not blocked then.
package struct OffCPUTime: Sendable {
  /// Voluntary context switches when they were last read.
  private var switches: Int64
  /// Time off the CPU, as far as known; and the zero point of that measurement.
  private var off: UInt64 = 0
  private var zero: Int64 = 0
  /// The first look finds the zero point: before, nothing is known of waits for a CPU before the slice.
  private var isFirst = true
  /// CPU time and time off the CPU at the last look that found the job to have blocked.
  private var judgedCPU: UInt64 = 0
  private var judgedOff: UInt64 = 0

  package init(switches: Int64) { self.switches = switches }

  /// CPU time of the present quantum and those after it, in nanoseconds, of a slice that has used `used`.
  package func cpu(used: UInt64) -> UInt64 { used.saturatingSubtract(judgedCPU) }

  /// Time off the CPU since the present quantum began, in nanoseconds.
  package var offCPU: UInt64 { off - judgedOff }

  /// Time off the CPU since the slice began, in nanoseconds.
  package var offCPUOfSlice: UInt64 { off }

  /// Whether a look may find that the job has used its quantum, or has blocked, or is the first. It cannot
  /// have been off the CPU for longer than the time that it has not used. If false,
  /// ``look(used:wall:waited:by:switches:)`` would find neither.
  package func mayMatter(used: UInt64, wall: UInt64, by rule: BlockingRule) -> Bool {
    if isFirst { return true }
    let (cpu, most) = (cpu(used: used), Int64(clamping: wall - used) - zero)
    let off = UInt64(clamping: most).saturatingSubtract(judgedOff)
    return cpu >= rule.quantum || rule.isBlocking(offCPU: off, cpu: cpu)
  }

  /// A look at the slice.
  ///
  /// - Parameters:
  ///   - used: CPU time of the slice in nanoseconds, at most `wall`.
  ///   - wall: nanoseconds since the slice began.
  ///   - waited: nanoseconds for which it has waited for a CPU, waits that are over.
  ///   - rule: what is looked for.
  ///   - switches: reads how often the thread has given up the CPU voluntarily; called where that matters.
  package mutating func look(
    used: UInt64, wall: UInt64, waited: UInt64, by rule: BlockingRule, switches read: () -> Int64
  ) {
    let uncounted = Int64(wall - used) - Int64(clamping: waited)
    zero = min(zero, uncounted)
    isFirst = false
    let most = UInt64(clamping: uncounted - zero)
    let cpu = cpu(used: used)
    if most <= off {
      off = most
    } else if cpu >= rule.quantum
      || rule.isBlocking(offCPU: most.saturatingSubtract(judgedOff), cpu: cpu)
    {
      let now = read()
      if now != switches { off = most }
      switches = now
    }
    judgedOff = min(judgedOff, off)
    if rule.isBlocking(offCPU: off - judgedOff, cpu: cpu) { (judgedCPU, judgedOff) = (used, off) }
  }
}
