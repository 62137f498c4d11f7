internal import OpportuneBase

/// The state from which the demotion of one thread or one task is decided.
///
/// A pure value: it has no clock and no lock, and the same reports give the same verdicts. The caller
/// measures, reports and carries out the verdict. Where several threads report, the caller serialises them.
///
/// What counts (R-CPU-06, R-CPU-08):
/// * CPU time adds up over slices. Yields, actor hops and re-enqueues do not end a quantum.
/// * A full quantum lowers the level by the policy's step. CPU time beyond the quantum carries over into the
///   next one.
/// * Blocking starts a new quantum and restores levels by the policy's rule. Two things count as blocking.
///   One is a gap before a slice in which nothing was queued or running. The other is time off the CPU
///   without waiting for a CPU, if it exceeds the policy's share of a quantum; such time adds up within a
///   quantum. Where one report covers more CPU time than a quantum, its time off the CPU is assumed to be
///   spread evenly.
///
/// So the depth does not depend on whether time is reported in one piece or in many.
package struct DemotionAccount: Sendable, Hashable {
  /// The result of a report, which the caller carries out: the net change of ``DemotionAccount/depth``.
  package enum Verdict: Sendable, Hashable {
    /// The level stays.
    case none
    /// Lower the level by this many steps, 1 to 63.
    case lower(by: Int)
    /// Raise the level by this many steps, 1 to 63.
    case restore(by: Int)
  }

  /// The greatest depth, 63 levels.
  package static let depthMax = Level.count - 1

  /// CPU time used in the current quantum, in nanoseconds; always less than a quantum after a report.
  package private(set) var cpuNanoseconds: UInt64 = 0

  /// Time off the CPU in the current quantum, in nanoseconds.
  package private(set) var offCPUNanoseconds: UInt64 = 0

  /// The number of levels by which the thread or task is lowered now, 0 to 63.
  package private(set) var depth: Int = 0

  /// When the last slice ended, in units of 250 µs, a quarter of a millisecond: 24 bits that wrap around
  /// after 70 minutes.
  private var lastEnd: UInt32 = 0

  /// An account of something that has not run yet.
  package init() {}

  /// An account that starts at a depth: the jobs of a demoted job start at that job's level.
  ///
  /// - Parameters:
  ///   - depth: clamped to 0 to 63.
  ///   - now: the time of submission, nanoseconds of a monotonic clock. Without it the job would appear to
  ///     have been idle since that clock's start.
  package init(depth: Int, at now: UInt64) {
    self.depth = min(max(0, depth), Self.depthMax)
    ended(at: now)
  }

  /// Reports that a slice has ended.
  ///
  /// - Parameters:
  ///   - cpu: CPU time in nanoseconds, minus what ``running(cpu:offCPU:policy:depthMax:)`` has reported of
  ///     this slice.
  ///   - offCPU: nanoseconds off the CPU without waiting for a CPU, minus what was reported before.
  ///   - idleBefore: nanoseconds before this slice in which nothing was queued or running, see
  ///     ``idle(until:)``.
  ///   - policy: the rules.
  ///   - depthMax: the limit of the depth, clamped to 0 to 63; see ``Bands/depthMax(of:rank:)``. At the
  ///     bottom of the band further steps would change nothing, and recovery must not have to undo them.
  /// - Returns: the net change of level. The caller carries it out.
  package mutating func slice(
    cpu: UInt64, offCPU: UInt64, idleBefore: UInt64, policy: QuantumPolicy, depthMax: Int = Self.depthMax
  ) -> Verdict {
    let before = depth
    blockedBefore(idleBefore, policy)
    consume(cpu: cpu, offCPU: offCPU, policy: policy, depthMax: depthMax)
    return verdict(since: before)
  }

  /// Reports what a running slice has used since the last report about it; called by the monitor. Several
  /// quanta lower several times.
  ///
  /// The gap before the slice must have been reported when it began: by
  /// ``slice(cpu:offCPU:idleBefore:policy:depthMax:)`` with zero time, or by ``began(idleBefore:policy:)``,
  /// which is equivalent.
  ///
  /// - Parameters:
  ///   - cpu: CPU time in nanoseconds since the last report.
  ///   - offCPU: nanoseconds off the CPU without waiting for a CPU since the last report.
  ///   - policy: the rules.
  ///   - depthMax: as for a slice that has ended.
  /// - Returns: the net change of level. The caller carries it out.
  package mutating func running(
    cpu: UInt64, offCPU: UInt64, policy: QuantumPolicy, depthMax: Int = Self.depthMax
  ) -> Verdict {
    let before = depth
    consume(cpu: cpu, offCPU: offCPU, policy: policy, depthMax: depthMax)
    return verdict(since: before)
  }

  /// Reports that a slice begins, so that its level is right from the start. The end of the slice is then
  /// reported with `idleBefore: 0`.
  ///
  /// - Parameters:
  ///   - idleBefore: nanoseconds before this slice in which nothing was queued or running.
  ///   - policy: the rules.
  /// - Returns: `.none` or a restoration.
  package mutating func began(idleBefore: UInt64, policy: QuantumPolicy) -> Verdict {
    let before = depth
    blockedBefore(idleBefore, policy)
    return verdict(since: before)
  }

  /// Reports a slice that has ended, and whose first quanta the monitor has already seen and answered by
  /// demotion.
  ///
  /// - Parameters:
  ///   - begun: the depth at which the slice began. A later slice of the task may have ended before it, on
  ///     another thread, and have left ``depth`` deeper than that.
  ///   - seen: the depth to which the monitor has lowered the slice while it ran; ignored if less than
  ///     `begun`.
  ///   - cpu: CPU time of the whole slice in nanoseconds.
  ///   - offCPU: nanoseconds of the whole slice off the CPU without waiting for a CPU.
  ///   - offSeen: as many of them as the monitor knew of when it lowered the slice last. The rest came after
  ///     those quanta: a job that blocks when it is demoted has blocked, however much it has used before.
  ///   - policy: the rules.
  ///   - depthMax: as for ``slice(cpu:offCPU:idleBefore:policy:depthMax:)``.
  /// - Returns: the net change from `seen`.
  package mutating func slice(
    from begun: Int, seen: Int, cpu: UInt64, offCPU: UInt64, offSeen: UInt64, policy: QuantumPolicy,
    depthMax: Int = Self.depthMax
  ) -> Verdict {
    let seen = min(seen, Self.depthMax)
    let quanta = UInt64(max(0, seen - max(0, begun)) / max(1, policy.step))
    depth = max(depth, seen)
    let (counted, overflow) = quanta.multipliedReportingOverflow(
      by: UInt64(max(1, policy.quantumNanoseconds)))
    let rest = cpu.saturatingSubtract(overflow ? .max : counted)
    // The rest of the slice gets its proportional share of the time off the CPU, or all that came after.
    let share = quanta == 0 || cpu == 0 ? 1 : Double(rest) / Double(cpu)
    let off =
      share < 1
      ? max(UInt64(Double(offCPU) * share), offCPU.saturatingSubtract(offSeen)) : offCPU
    return slice(cpu: rest, offCPU: off, idleBefore: 0, policy: policy, depthMax: depthMax)
  }

  private mutating func blockedBefore(_ idle: UInt64, _ policy: QuantumPolicy) {
    if idle >= UInt64(max(0, policy.blockingGapNanoseconds)) { block(policy) }
  }

  private mutating func consume(cpu: UInt64, offCPU: UInt64, policy: QuantumPolicy, depthMax: Int) {
    let rule = policy.blockingRule
    let cpuTotal = cpuNanoseconds.saturatingAdd(cpu)
    let offTotal = offCPUNanoseconds.saturatingAdd(offCPU)
    if rule.isBlocking(offCPU: offTotal, cpu: cpuTotal) {
      block(policy)
      return
    }
    let (quanta, rest) = cpuTotal.quotientAndRemainder(dividingBy: rule.quantum)
    cpuNanoseconds = rest
    offCPUNanoseconds = offTotal
    guard quanta > 0 else { return }
    // rest < cpuTotal, so the product divided by cpuTotal fits.
    offCPUNanoseconds = cpuTotal.dividingFullWidth(offTotal.multipliedFullWidth(by: rest)).quotient
    let deepest = max(depth, min(max(0, depthMax), Self.depthMax))
    let steps = Int(min(quanta, UInt64(Self.depthMax))) * min(max(0, policy.step), Self.depthMax)
    depth = min(deepest, depth + steps)
  }

  private mutating func block(_ policy: QuantumPolicy) {
    cpuNanoseconds = 0
    offCPUNanoseconds = 0
    switch policy.recovery {
    case .full: depth = 0
    case .oneStep: depth -= min(depth, max(0, policy.step))
    case .never: break
    }
  }

  private func verdict(since before: Int) -> Verdict {
    if depth > before { return .lower(by: depth - before) }
    return depth < before ? .restore(by: before - depth) : .none
  }
}

// MARK: - Time of the last slice

extension DemotionAccount {
  /// Records when a slice ended.
  ///
  /// - Parameter now: nanoseconds of a monotonic clock. Stored in units of 250 µs, a quarter of a
  ///   millisecond, modulo 70 minutes.
  package mutating func ended(at now: UInt64) { lastEnd = Self.quarters(now) }

  /// The time since the last slice ended, with an error below 250 µs, a quarter of a millisecond. Multiples
  /// of 70 minutes are lost, which costs at most one restoration.
  ///
  /// - Parameter now: nanoseconds of the same clock, at which a job of the task was queued again.
  /// - Returns: nanoseconds; 0 where `now` lies slightly before the end, because the job was queued while the
  ///   slice still ran.
  package func idle(until now: UInt64) -> UInt64 {
    let passed = (Self.quarters(now) &- lastEnd) & Self.lastEndMask
    // The upper half of the range is the past: the job was queued before the slice had ended.
    guard passed <= Self.lastEndMask / 2 else { return 0 }
    return UInt64(passed) * Self.quarterNanoseconds
  }

  private static let quarterNanoseconds: UInt64 = 250_000
  private static let lastEndMask: UInt32 = 0xFF_FFFF

  private static func quarters(_ now: UInt64) -> UInt32 {
    UInt32(truncatingIfNeeded: now / quarterNanoseconds) & lastEndMask
  }
}

// MARK: - One word

// The account as one word, which the C core's table keeps for each task. The widths follow from the limits of
// QuantumPolicy: a quantum of 500 ms fits into 22 bits of 128 ns, an eighth of it into 12 bits of 16.4 us.
//
//     bits  0-23  last end, in units of 250 us (a quarter of a millisecond); wraps after 70 minutes
//     bits 24-29  depth
//     bits 30-51  CPU time of the current quantum, in units of 128 ns; tiny slices do not round to 0
//     bits 52-63  time off the CPU in the current quantum, in units of 16.384 us; less in one slice is noise
extension DemotionAccount {
  /// Decodes ``bits``. Every word is a valid account; 0 is a fresh one.
  package init(bits: UInt64) {
    lastEnd = UInt32(truncatingIfNeeded: bits) & Self.lastEndMask
    depth = Int((bits >> 24) & 0x3F)
    cpuNanoseconds = ((bits >> 30) & 0x3F_FFFF) << 7
    offCPUNanoseconds = (bits >> 52) << 14
  }

  /// The account encoded in one word. CPU time is rounded to the nearest 128 ns, time off the CPU to the
  /// nearest 16 µs. Both saturate far above what a valid policy lets them reach.
  package var bits: UInt64 {
    let cpu = min((cpuNanoseconds.saturatingAdd(64)) >> 7, 0x3F_FFFF)
    let offCPU = min((offCPUNanoseconds.saturatingAdd(8192)) >> 14, 0xFFF)
    return UInt64(lastEnd) | UInt64(depth) << 24 | cpu << 30 | offCPU << 52
  }
}
