internal import OpportuneBase

/// When a thread is demoted, by how much, and what undoes it. (R-CPU-06, R-CPU-07, R-CPU-08)
///
/// A thread that uses ``quantum`` of CPU time without blocking is lowered by ``step`` levels. Blocking starts
/// a new quantum and restores levels as ``recovery-swift.property`` says. A plain value: safe to use from any
/// thread. ``SchedulerConfiguration/validate()`` rejects values out of range.
public struct QuantumPolicy: Sendable, Hashable {
  /// How blocking affects a demoted thread.
  public enum Recovery: Sendable, Hashable, CaseIterable, Codable {
    /// The thread gets its original level back.
    case full
    /// The thread is raised by one ``QuantumPolicy/step``.
    case oneStep
    /// The level is not restored. Blocking still starts a new quantum.
    case never
  }

  /// The accepted values of ``quantum``: 1 ms to 500 ms.
  public static let quantumRange: ClosedRange<Duration> = .milliseconds(1) ... .milliseconds(500)
  /// The accepted values of ``step``: 1 to 63 levels.
  public static let stepRange: ClosedRange<Int> = 1...63
  /// The accepted values of ``blockingGap``: 250 µs to 1 s. 250 µs is the resolution at which an account
  /// stores time.
  public static let blockingGapRange: ClosedRange<Duration> = .microseconds(250) ... .seconds(1)
  /// The accepted values of ``offCPUShare``: 0.01 to 0.125.
  public static let offCPUShareRange: ClosedRange<Double> = 0.01...0.125

  /// CPU time that a thread may use without blocking before it is lowered; 1 ms to 500 ms, 10 ms by default.
  /// Rounded to whole nanoseconds.
  public var quantum: Duration {
    get { .nanoseconds(quantumNanoseconds) }
    set { quantumNanoseconds = newValue.clampedNanoseconds }
  }

  /// The number of levels that a full quantum costs; 1 to 63, 1 by default. (R-CPU-07)
  public var step: Int

  /// What blocking restores; the original level by default.
  public var recovery: Recovery

  /// How long a thread must have nothing queued or running for that to count as blocking; 250 µs to 1 s, 1 ms
  /// by default. A read of a file by the I/O broker must take as long, wherever it waits. Rounded to whole
  /// nanoseconds.
  public var blockingGap: Duration {
    get { .nanoseconds(blockingGapNanoseconds) }
    set { blockingGapNanoseconds = newValue.clampedNanoseconds }
  }

  /// The share of a quantum that a running job must be off the CPU, without waiting for a CPU, for that to
  /// count as blocking; 0.01 to 0.125, 0.05 by default.
  public var offCPUShare: Double

  // Stored as integers: accounts are updated at every slice, and reading a Duration takes a 128-bit division.
  private(set) var quantumNanoseconds: Int64
  private(set) var blockingGapNanoseconds: Int64

  /// Makes a policy; each parameter has its default.
  public init(
    quantum: Duration = .milliseconds(10), step: Int = 1, recovery: Recovery = .full,
    blockingGap: Duration = .milliseconds(1), offCPUShare: Double = 0.05
  ) {
    quantumNanoseconds = quantum.clampedNanoseconds
    self.step = step
    self.recovery = recovery
    blockingGapNanoseconds = blockingGap.clampedNanoseconds
    self.offCPUShare = offCPUShare
  }

  var blockingRule: BlockingRule {
    BlockingRule(quantum: UInt64(max(1, quantumNanoseconds)), share: offCPUShare)
  }

  func validate() throws(ConfigurationError) {
    try requireInRange(quantum, Self.quantumRange, .quantum)
    try requireInRange(step, Self.stepRange, .step)
    try requireInRange(blockingGap, Self.blockingGapRange, .blockingGap)
    try requireInRange(offCPUShare, Self.offCPUShareRange, .offCPUShare)
  }
}

/// When time off the CPU, without waiting for a CPU, counts as blocking: where it is more than a share of a
/// quantum, or of the CPU time that was used where that is more. The quantum begins anew then. The one rule
/// of accounts and of looks at running jobs. (R-CPU-08)
package struct BlockingRule: Sendable {
  /// In nanoseconds.
  let quantum: UInt64
  let share: Double

  package init(quantum: UInt64, share: Double) { (self.quantum, self.share) = (quantum, share) }

  func isBlocking(offCPU: UInt64, cpu: UInt64) -> Bool {
    Double(offCPU) > share * Double(max(quantum, cpu))
  }
}
