import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

/// The policy of the real-time foreground, in virtual time.
@Suite(.bounded) struct RealTimeBudgetTests {
  private static let ms: UInt64 = 1_000_000
  private static let start: UInt64 = 1_000_000_000_000

  /// As it would answer then, without the change that a later time makes.
  private func mostUsed(_ budget: RealTimeBudget, at time: UInt64) -> UInt64 {
    var later = budget
    return later.mostUsed(at: time)
  }

  private func isLeft(_ budget: RealTimeBudget, at time: UInt64) -> Bool {
    mostUsed(budget, at: time) < budget.limit
  }

  // R-CPU-01
  @Test func theClassLeavesAfterItsShareAndComesBack() {
    var budget = RealTimeBudget(share: 0.7, cpus: 1)
    var now = Self.start
    var used: UInt64 = 0
    while isLeft(budget, at: now) {
      now += Self.ms
      used += Self.ms
      budget.add(Self.ms, on: 0, at: now)
    }
    #expect(used == 70 * Self.ms)
    let back = budget.returns(after: now)
    #expect(back > now && back <= now + RealTimeBudget.period)
    #expect(!isLeft(budget, at: back - 1))
    #expect(isLeft(budget, at: back))
    // After a pause of a period all of it is there again.
    #expect(mostUsed(budget, at: now + RealTimeBudget.period + RealTimeBudget.slot) == 0)
  }

  // R-CPU-01
  @Test(arguments: [0.05, 0.3, 0.7, 0.9])
  func noWindowHasMoreThanItsShare(share: Double) {
    let cpus = 3
    var budget = RealTimeBudget(share: share, cpus: cpus)
    var random = SplitMix64(seed: 26)
    var now = Self.start
    // What each CPU gave in each look.
    var looks: [(at: UInt64, used: [UInt64])] = []
    let longest = Self.ms
    for _ in 0..<4000 {
      // Hogs on all CPUs, quiet times, and everything between.
      let elapsed = 1 + random.next() % longest
      let isIn = isLeft(budget, at: now)
      now += elapsed
      let used = (0..<cpus).map { _ in
        isIn ? [elapsed, random.next() % (elapsed + 1), 0][Int.random(in: 0..<3, using: &random)] : 0
      }
      for cpu in 0..<cpus { budget.add(used[cpu], on: cpu, at: now) }
      looks.append((now, used))
      if random.next() % 64 == 0 { now += random.next() % (60 * Self.ms) }
    }
    var most: UInt64 = 0
    var (first, sums) = (0, [UInt64](repeating: 0, count: cpus))
    for last in looks.indices {
      for cpu in 0..<cpus { sums[cpu] += looks[last].used[cpu] }
      while looks[first].at + RealTimeBudget.period <= looks[last].at {
        for cpu in 0..<cpus { sums[cpu] -= looks[first].used[cpu] }
        first += 1
      }
      most = max(most, sums.max() ?? 0)
    }
    // One look may begin with the last of it.
    #expect(most <= UInt64(share * Double(RealTimeBudget.period)) + longest)
    #expect(most > UInt64(share * Double(RealTimeBudget.period)) / 2, "it was used")
  }

  @Test func aHogAloneGetsItsShareInTheLongRun() {
    var budget = RealTimeBudget(share: 0.7, cpus: 2)
    var (now, used) = (Self.start, UInt64(0))
    let end = now + 10 * 1000 * Self.ms
    while now < end {
      guard isLeft(budget, at: now) else {
        now = budget.returns(after: now)
        continue
      }
      now += Self.ms
      used += Self.ms
      budget.add(Self.ms, on: 1, at: now)
    }
    #expect(Double(used) / Double(end - Self.start) > 0.6)
    #expect(Double(used) / Double(end - Self.start) <= 0.7)
  }

  @Test func oneCPUIsNotPaidForByAnother() {
    var budget = RealTimeBudget(share: 0.5, cpus: 4)
    for step in 0..<50 { budget.add(Self.ms, on: 2, at: Self.start + UInt64(step) * Self.ms) }
    #expect(!isLeft(budget, at: Self.start + 50 * Self.ms), "of one CPU half is gone, of four an eighth")
    var other = RealTimeBudget(share: 0.5, cpus: 4)
    other.add(30 * Self.ms, on: 3, at: Self.start)
    other.addAnywhere(20 * Self.ms, at: Self.start)
    #expect(!isLeft(other, at: Self.start), "what has no known CPU counts where it weighs most")
  }

  @Test func strangeTimesAndNumbersAreTaken() {
    var budget = RealTimeBudget(share: 0.1, cpus: 0)
    budget.add(10 * Self.ms, on: 99, at: Self.start)
    #expect(!isLeft(budget, at: 0), "a clock that goes back changes nothing")
    #expect(!isLeft(budget, at: Self.start))
    #expect(isLeft(budget, at: .max))
    budget.add(10 * Self.ms, on: -1, at: .max)
    #expect(!isLeft(budget, at: .max))
  }

  // R-CPU-01
  @Test func aJobLeavesAfterItsQuantum() {
    let policy = RealTimeQuantum(quantum: Self.ms)
    // A job that runs all the time, looked at when the policy says.
    var (used, looks) = (UInt64(0), 0)
    while case .stays(let time) = policy.judge(used: used, still: 0) {
      used += time
      looks += 1
    }
    #expect(used == Self.ms && looks == 1)
    // One that was looked at for another's sake leaves not much later.
    used = Self.ms - 1
    while case .stays(let time) = policy.judge(used: used, still: 0) { used += time }
    #expect(used <= Self.ms + Self.ms / 4)
  }

  @Test func aBlockedJobIsLookedAtAFewTimesOnly() {
    let policy = RealTimeQuantum(quantum: Self.ms)
    var (still, looks) = (UInt64(0), 0)
    while case .stays(let time) = policy.judge(used: 20_000, still: still) {
      still += time
      looks += 1
    }
    #expect((2...8).contains(looks))
    #expect(still >= policy.patience)
  }

  @Test func aTaskThatYieldsGoesOnWhereItWas() {
    let policy = RealTimeQuantum(quantum: Self.ms)
    #expect(policy.admits(usedBefore: 0) && policy.admits(usedBefore: Self.ms - 1))
    #expect(!policy.admits(usedBefore: Self.ms))
  }

  @Test func aServerThatNeverSleepsIsOut() {
    let policy = RealTimeQuantum(quantum: Self.ms)
    #expect(policy.keepsServer(used: 300_000, elapsed: Self.ms, isIn: true))
    #expect(!policy.keepsServer(used: Self.ms, elapsed: Self.ms, isIn: true))
    #expect(!policy.keepsServer(used: 700_000, elapsed: Self.ms, isIn: false), "not yet")
    #expect(policy.keepsServer(used: 300_000, elapsed: Self.ms, isIn: false))
    #expect(policy.keepsServer(used: 100, elapsed: 100, isIn: true), "too short to tell")
  }
}
