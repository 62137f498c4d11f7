/// How much CPU time the real-time foreground may use: on no CPU more than a share of any 100 ms.
///
/// Pure: times are given by the caller, who reports use at most a look after it was used. Use is kept by CPU
/// in slots of 5 ms. Any 100 ms touch at most 21 slots, so the sum over the last 21 bounds the use in each
/// window that ends now. A share of the sum over all CPUs would not do: threads that move about could keep
/// one CPU to themselves.
struct RealTimeBudget: Sendable, Equatable {
  /// All times in nanoseconds.
  static let period: UInt64 = 100_000_000
  static let slot: UInt64 = 5_000_000
  private static let slots = Int(period / slot) + 1

  /// Of each CPU in any ``period``.
  let limit: UInt64
  private let cpus: Int
  /// By slot, then by CPU: a ring in which `current` is the newest slot.
  private var used: [UInt64]
  private var sums: [UInt64]
  private var current: UInt64 = 0

  /// - Parameters:
  ///   - share: 0 to 1; clamped.
  ///   - cpus: at least 1; clamped.
  init(share: Double, cpus: Int) {
    limit = UInt64(max(0, min(1, share)) * Double(Self.period))
    self.cpus = max(1, cpus)
    used = [UInt64](repeating: 0, count: Self.slots * self.cpus)
    sums = [UInt64](repeating: 0, count: self.cpus)
  }

  /// Forgets the slots that have left the window. A clock that goes back changes nothing.
  private mutating func advance(to now: UInt64) {
    let target = now / Self.slot
    guard target > current else { return }
    for _ in 0..<min(target - current, UInt64(Self.slots)) {
      current += 1
      let start = Int(current % UInt64(Self.slots)) * cpus
      for cpu in 0..<cpus {
        sums[cpu] -= used[start + cpu]
        used[start + cpu] = 0
      }
    }
    // After a longer pause all slots are empty, in whatever order.
    current = target
  }

  /// Counts CPU time that was used on `cpu`; a number beyond the known ones counts as the last.
  mutating func add(_ time: UInt64, on cpu: Int, at now: UInt64) {
    advance(to: now)
    let cpu = max(0, min(cpu, cpus - 1))
    used[Int(current % UInt64(Self.slots)) * cpus + cpu] += time
    sums[cpu] += time
  }

  /// Counts CPU time whose CPU is not known: where it weighs most.
  mutating func addAnywhere(_ time: UInt64, at now: UInt64) {
    advance(to: now)
    let most = sums.indices.max { sums[$0] < sums[$1] } ?? 0
    add(time, on: most, at: now)
  }

  /// Use of the CPU that has given most, in the window that ends now.
  mutating func mostUsed(at now: UInt64) -> UInt64 {
    advance(to: now)
    return sums.max() ?? 0
  }

  /// Whether the class may be used now.
  mutating func isLeft(at now: UInt64) -> Bool { mostUsed(at: now) < limit }

  /// When it may be used if nothing is added until then: `now`, or the start of a slot.
  func returns(after now: UInt64) -> UInt64 {
    var later = self
    var time = now
    while !later.isLeft(at: time), time <= now + 2 * Self.period { time = (time / Self.slot + 1) * Self.slot }
    return time
  }
}

/// When a single job, or a thread that serves jobs, leaves the real-time foreground. Pure.
struct RealTimeQuantum: Sendable, Equatable {
  enum Verdict: Sendable, Equatable {
    case leaves
    /// To be looked at again in that time, in nanoseconds.
    case stays(UInt64)
  }

  /// CPU time of one job, in nanoseconds.
  let quantum: UInt64

  /// How long a job may be off the CPU: then looks at it end, so it must not come back with the class.
  var patience: UInt64 { 4 * quantum }

  /// A later look than at a quarter of a quantum would not be worth its wake-up.
  private var interval: UInt64 { max(1, quantum / 4) }

  /// - Parameters:
  ///   - used: CPU time that the job has used.
  ///   - still: for how long it has used none.
  func judge(used: UInt64, still: UInt64) -> Verdict {
    guard used < quantum, still < patience else { return .leaves }
    return .stays(max(interval, quantum - used))
  }

  /// Whether a task goes on in the class, by the CPU time that it has used since it last blocked.
  func admits(usedBefore: UInt64) -> Bool { usedBefore < quantum }

  /// Whether a thread that serves all jobs is in the class after a look: not while it has run all the time
  /// for a quantum or longer.
  ///
  /// - Parameters:
  ///   - used: CPU time since the last look.
  ///   - elapsed: time since the last look.
  ///   - isIn: whether it is in the class now. It comes back once it has slept half of the time.
  func keepsServer(used: UInt64, elapsed: UInt64, isIn: Bool) -> Bool {
    guard elapsed >= quantum / 2 else { return isIn }
    return isIn ? used < elapsed - elapsed / 8 : used < elapsed / 2
  }
}
