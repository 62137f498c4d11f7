import TestSupport
import Testing

@testable import OpportuneScheduler

private let ms: UInt64 = 1_000_000

@Suite(.bounded) struct DemotionAccountTests {
  @Test func instantsBeyondTheRangeAreItsEnds() {
    let now = AppClock.Instant(nanoseconds: 1)
    #expect(now.advanced(by: .seconds(Int64.max)).nanoseconds == .max)
    #expect(AppClock.Instant(nanoseconds: -2).advanced(by: .seconds(Int64.min)).nanoseconds == .min)
  }

  // R-CPU-06, R-CPU-07
  @Test func fullQuantumLowersByOne() {
    var account = DemotionAccount()
    let policy = QuantumPolicy()
    #expect(account.slice(cpu: 10 * ms - 1, offCPU: 0, idleBefore: 0, policy: policy) == .none)
    #expect(account.slice(cpu: 1, offCPU: 0, idleBefore: 0, policy: policy) == .lower(by: 1))
    #expect(account.depth == 1)
    #expect(account.cpuNanoseconds == 0)
  }

  // R-CPU-07
  @Test(arguments: [1, 2, 5, 63])
  func fullQuantumLowersByTheStep(step: Int) {
    var account = DemotionAccount()
    let policy = QuantumPolicy(step: step)
    #expect(account.slice(cpu: 10 * ms, offCPU: 0, idleBefore: 0, policy: policy) == .lower(by: step))
    let rest = min(step, 63 - step)
    let second = account.slice(cpu: 10 * ms, offCPU: 0, idleBefore: 0, policy: policy)
    #expect(second == (rest > 0 ? .lower(by: rest) : .none))
  }

  // R-CPU-06, R-CPU-08
  @Test func nineMillisecondsAndAYieldIsDemoted() {
    var account = DemotionAccount()
    var lowered = 0
    for _ in 0..<100 {
      // Re-enqueued at once: queued all the time, and off the CPU only while it waited for one.
      if case .lower(let by) = account.slice(cpu: 9 * ms, offCPU: 0, idleBefore: 0, policy: QuantumPolicy()) {
        lowered += by
      }
    }
    #expect(lowered == 63)
    #expect(account.depth == 63)
  }

  // R-CPU-08
  @Test func nineMillisecondsAndABlockingReadIsNot() {
    var inside = DemotionAccount()
    var between = DemotionAccount()
    for _ in 0..<100 {
      #expect(inside.slice(cpu: 9 * ms, offCPU: 2 * ms, idleBefore: 0, policy: QuantumPolicy()) == .none)
      #expect(between.slice(cpu: 9 * ms, offCPU: 0, idleBefore: 1 * ms, policy: QuantumPolicy()) == .none)
    }
    #expect(inside.depth == 0 && between.depth == 0)
  }

  // R-CPU-08
  @Test func aGapShorterThanTheRuleIsNotBlocking() {
    var account = DemotionAccount()
    let policy = QuantumPolicy(blockingGap: .milliseconds(3))
    _ = account.slice(cpu: 9 * ms, offCPU: 0, idleBefore: 0, policy: policy)
    #expect(account.slice(cpu: 1 * ms, offCPU: 0, idleBefore: 3 * ms - 1, policy: policy) == .lower(by: 1))
    #expect(account.slice(cpu: 0, offCPU: 0, idleBefore: 3 * ms, policy: policy) == .restore(by: 1))
  }

  // R-CPU-08
  @Test func offCPUCountsFromTheShareOn() {
    var atShare = DemotionAccount()
    #expect(
      atShare.slice(cpu: 10 * ms, offCPU: ms / 2, idleBefore: 0, policy: QuantumPolicy()) == .lower(by: 1))
    var above = DemotionAccount()
    #expect(above.slice(cpu: 10 * ms, offCPU: ms / 2 + 1, idleBefore: 0, policy: QuantumPolicy()) == .none)
    var wider = DemotionAccount()
    let policy = QuantumPolicy(offCPUShare: 0.1)
    #expect(wider.slice(cpu: 10 * ms, offCPU: ms / 2 + 1, idleBefore: 0, policy: policy) == .lower(by: 1))
  }

  // R-CPU-08
  @Test func offCPUAddsUpWithinAQuantumAndNotBeyond() {
    var many = DemotionAccount()
    for _ in 0..<100 {  // 6 % of the time
      #expect(many.slice(cpu: ms / 2, offCPU: 30_000, idleBefore: 0, policy: QuantumPolicy()) == .none)
    }
    var few = DemotionAccount()
    var lowered = 0
    for _ in 0..<100 {  // 4 %
      if few.slice(cpu: ms / 2, offCPU: 20_000, idleBefore: 0, policy: QuantumPolicy()) != .none {
        lowered += 1
      }
    }
    #expect(lowered == 5)
  }

  // R-CPU-06
  @Test func aHogIsNotForgivenForWhatItLostOverManyQuanta() {
    var account = DemotionAccount()
    #expect(account.running(cpu: 1000 * ms, offCPU: 2 * ms, policy: QuantumPolicy()) == .lower(by: 63))
    var reader = DemotionAccount()
    #expect(reader.running(cpu: 1000 * ms, offCPU: 60 * ms, policy: QuantumPolicy()) == .none)
  }

  // R-CPU-08
  @Test(arguments: QuantumPolicy.Recovery.allCases)
  func blockingRestoresByTheRule(recovery: QuantumPolicy.Recovery) {
    let policy = QuantumPolicy(step: 2, recovery: recovery)
    for inside in [false, true] {
      var account = DemotionAccount()
      _ = account.slice(cpu: 39 * ms, offCPU: 0, idleBefore: 0, policy: policy)
      #expect(account.depth == 6)
      let verdict =
        inside
        ? account.running(cpu: 0, offCPU: 1 * ms * 10, policy: policy)
        : account.began(idleBefore: ms, policy: policy)
      switch recovery {
      case .full: #expect(verdict == .restore(by: 6) && account.depth == 0)
      case .oneStep: #expect(verdict == .restore(by: 2) && account.depth == 4)
      case .never: #expect(verdict == .none && account.depth == 6)
      }
      #expect(account.cpuNanoseconds == 0, "a new quantum begins whatever the rule")
    }
  }

  @Test func oneStepNeverRaisesAboveTheStart() {
    var account = DemotionAccount(depth: 3, at: 0)
    let policy = QuantumPolicy(step: 5, recovery: .oneStep)
    #expect(account.began(idleBefore: ms, policy: policy) == .restore(by: 3))
    #expect(account.began(idleBefore: ms, policy: policy) == .none)
  }

  @Test func verdictIsTheNetChange() {
    var account = DemotionAccount(depth: 5, at: 0)
    #expect(
      account.slice(cpu: 20 * ms, offCPU: 0, idleBefore: ms, policy: QuantumPolicy()) == .restore(by: 3))
    #expect(account.slice(cpu: 20 * ms, offCPU: 0, idleBefore: ms, policy: QuantumPolicy()) == .none)
    #expect(account.slice(cpu: 40 * ms, offCPU: 0, idleBefore: ms, policy: QuantumPolicy()) == .lower(by: 2))
  }

  @Test func depthStopsAtTheBottomOfTheBand() {
    var account = DemotionAccount()
    let policy = QuantumPolicy(recovery: .oneStep)
    #expect(
      account.slice(cpu: 1000 * ms, offCPU: 0, idleBefore: 0, policy: policy, depthMax: 22) == .lower(by: 22))
    #expect(account.slice(cpu: 10 * ms, offCPU: 0, idleBefore: 0, policy: policy, depthMax: 22) == .none)
    // The first recovery is felt at once: nothing below the band has to be climbed out of.
    #expect(account.began(idleBefore: ms, policy: policy) == .restore(by: 1))
    #expect(account.depth == 21)
    // A band that has become shorter restores nothing by itself.
    #expect(account.slice(cpu: 10 * ms, offCPU: 0, idleBefore: 0, policy: policy, depthMax: 4) == .none)
    #expect(account.depth == 21)
  }

  // R-CPU-06
  @Test func monitorLowersSeveralTimesInsideOneSlice() {
    var account = DemotionAccount()
    #expect(account.running(cpu: 35 * ms, offCPU: 0, policy: QuantumPolicy()) == .lower(by: 3))
    #expect(account.running(cpu: 5 * ms, offCPU: 0, policy: QuantumPolicy()) == .lower(by: 1))
    #expect(account.slice(cpu: 9 * ms, offCPU: 0, idleBefore: 0, policy: QuantumPolicy()) == .none)
    #expect(account.depth == 4)
  }

  // R-CPU-06
  @Test(arguments: 1...200 as ClosedRange<UInt64>)
  func slicingTheSameUseDifferentlyGivesTheSameDemotion(seed: UInt64) {
    var generator = SplitMix64(seed: seed)
    let policy = QuantumPolicy(
      quantum: .microseconds(Int.random(in: 1000...20_000, using: &generator)),
      step: Int.random(in: 1...4, using: &generator))
    let total = UInt64.random(in: 1...400 * ms, using: &generator)
    var whole = DemotionAccount()
    _ = whole.slice(cpu: total, offCPU: 0, idleBefore: 0, policy: policy)

    var pieces = DemotionAccount()
    var change = 0
    var left = total
    while left > 0 {
      let piece = min(left, UInt64.random(in: 1...30 * ms, using: &generator))
      left -= piece
      let verdict =
        Bool.random(using: &generator)
        ? pieces.running(cpu: piece, offCPU: 0, policy: policy)
        : pieces.slice(cpu: piece, offCPU: 0, idleBefore: 0, policy: policy)
      switch verdict {
      case .none: break
      case .lower(let by): change += by
      case .restore(let by): change -= by
      }
    }
    #expect(pieces == whole)
    #expect(change == whole.depth)
  }

  // R-CPU-08
  /// However much it has used before: of a slice whose quanta the monitor has seen, what came after is known.
  @Test(arguments: QuantumPolicy.Recovery.allCases)
  func whoBlocksAfterItsLastQuantumIsRestored(recovery: QuantumPolicy.Recovery) {
    let policy = QuantumPolicy(recovery: recovery)
    func depth(offCPU: UInt64, seen offSeen: UInt64) -> Int {
      var account = DemotionAccount()
      _ = account.slice(
        from: 0, seen: 4, cpu: 44 * ms, offCPU: offCPU, offSeen: offSeen, policy: policy)
      return account.depth
    }
    let restored = [.full: 0, .oneStep: 3, .never: 4][recovery]
    #expect(depth(offCPU: 3 * ms, seen: 0) == restored)
    #expect(depth(offCPU: 4 * ms, seen: 1 * ms) == restored)
    #expect(depth(offCPU: 3 * ms, seen: 3 * ms) == 4, "all of it before, and little of each quantum")
    #expect(depth(offCPU: 20 * ms, seen: 20 * ms) == restored, "so much that its share of the rest is enough")
  }

  @Test(arguments: 1...100 as ClosedRange<UInt64>)
  func evenlySpreadTimeOffTheCPUDoesNotMakeSlicingMatter(seed: UInt64) {
    var generator = SplitMix64(seed: seed)
    for (rate, isBlocking) in [(2 as UInt64, false), (8, true)] {  // per cent of CPU time; the rule says 5
      var account = DemotionAccount()
      for _ in 0..<100 {
        let cpu = UInt64.random(in: ms...30 * ms, using: &generator)
        _ = account.running(cpu: cpu, offCPU: cpu * rate / 100, policy: QuantumPolicy())
      }
      #expect((account.depth == 0) == isBlocking)
    }
  }

  @Test func hugeAndInvalidReportsAreSurvived() {
    var account = DemotionAccount()
    let odd = QuantumPolicy(quantum: .zero, step: .max, blockingGap: .seconds(-1), offCPUShare: .nan)
    for policy in [QuantumPolicy(), odd] {
      _ = account.slice(cpu: .max, offCPU: .max, idleBefore: .max, policy: policy)
      _ = account.running(cpu: .max, offCPU: 1, policy: policy, depthMax: .min)
      _ = account.running(cpu: .max, offCPU: .max / 32, policy: policy, depthMax: .max)
      #expect((0...63).contains(account.depth))
    }
    #expect(DemotionAccount(depth: .max, at: .max).depth == 63)
    #expect(DemotionAccount(depth: .min, at: 0).depth == 0)
  }
}

@Suite(.bounded) struct DemotionAccountBitsTests {
  @Test func freshAccountIsZero() {
    #expect(DemotionAccount().bits == 0)
    #expect(DemotionAccount(bits: 0) == DemotionAccount())
  }

  @Test func everyWordSurvivesTheRoundTrip() {
    var generator = SplitMix64(seed: 1)
    let words = [0, .max, 1, 1 << 63] + (0..<10_000).map { _ in generator.next() }
    for word in words { #expect(DemotionAccount(bits: word).bits == word) }
  }

  @Test func largestValidUseIsKept() {
    let policy = QuantumPolicy(quantum: QuantumPolicy.quantumRange.upperBound, offCPUShare: 0.125)
    var account = DemotionAccount(depth: 63, at: 77 * ms)
    _ = account.running(cpu: 500 * ms - 1, offCPU: 500 * ms / 8, policy: policy)
    let copy = DemotionAccount(bits: account.bits)
    #expect(copy.depth == 63)
    #expect(abs(Int64(copy.cpuNanoseconds) - Int64(account.cpuNanoseconds)) <= 64)
    #expect(abs(Int64(copy.offCPUNanoseconds) - Int64(account.offCPUNanoseconds)) <= 8192)
    #expect(copy.idle(until: 80 * ms) == 3 * ms)
  }

  // R-CPU-06
  @Test func hogOfTinySlicesIsDemotedThroughTheWord() {
    // 100 ms of CPU time in slices of a hop's length, kept in the table between them.
    var word: UInt64 = 0
    for _ in 0..<250_000 {
      var account = DemotionAccount(bits: word)
      _ = account.slice(cpu: 400, offCPU: 0, idleBefore: 0, policy: QuantumPolicy())
      word = account.bits
    }
    #expect((9...11).contains(DemotionAccount(bits: word).depth))
  }

  @Test func idleTimeIsMeasuredFromTheEndOfTheSlice() {
    var account = DemotionAccount()
    account.ended(at: 1000 * ms)
    #expect(account.idle(until: 1000 * ms) == 0)
    #expect(account.idle(until: 1001 * ms) == 1 * ms)
    #expect(account.idle(until: 999 * ms) == 0, "queued while it still ran")
    #expect(account.idle(until: 61_000 * ms) == 60_000 * ms)
  }

  @Test func idleTimeSurvivesTheWrap() {
    let wrap: UInt64 = (1 << 24) * 250_000
    var account = DemotionAccount()
    account.ended(at: wrap - ms)
    #expect(account.idle(until: wrap + ms) == 2 * ms)
  }

  // R-CPU-06
  @Test func inheritedDemotionIsNotTakenForIdleness() {
    let now = 3600 * 1000 * ms
    var child = DemotionAccount(depth: 7, at: now)
    #expect(child.began(idleBefore: child.idle(until: now), policy: QuantumPolicy()) == .none)
    #expect(child.depth == 7)
  }
}
