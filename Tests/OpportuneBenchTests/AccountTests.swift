import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct LatencyAccountTests {
  private func sample(_ intended: UInt64, _ submitted: UInt64, _ started: UInt64, _ finished: UInt64)
    -> Sample
  {
    Sample(intended: intended, submitted: submitted, started: started, finished: finished)
  }

  // R-CARD-06
  @Test func theThreeTimesAreMeasuredFromTheirOwnStarts() {
    var account = LatencyAccount()
    account.count([sample(1_000_000, 1_200_000, 1_230_000, 2_000_000)], windowEnd: 9_000_000)
    #expect(isNear(account.latency.percentiles.p50, 30))
    #expect(isNear(account.lateness.percentiles.p50, 200))
    #expect(isNear(account.intendedFinish.percentiles.p50, 1000))
    #expect(account.unfinished == 0)
  }

  // R-CARD-06
  @Test func theLatestHundredthHasTimesOfItsOwn() {
    let samples =
      (1...101).map { sample($0, $0 * 1000, $0 * 1010, 0) } + [sample(9, 0, 0, 0), sample(9, 9, 0, 0)]
    let latest = [
      LateStart(submittedNs: 101_000, startedNs: 102_010),
      LateStart(submittedNs: 100_000, startedNs: 101_000),
    ]
    #expect(LateStart.latest(of: samples) == latest)
    #expect(LateStart.latest(of: [sample(9, 9, 0, 0)]).isEmpty)
  }

  // R-CARD-06
  @Test func whatNeverStartedCountsWithWhatItHasWaited() {
    var account = LatencyAccount()
    account.count(
      [sample(1_000_000, 1_000_000, 0, 0), sample(2_000_000, 2_000_000, 6_500_000, 6_600_000)],
      windowEnd: 6_000_000)
    #expect(account.unfinished == 2)
    #expect(account.samples == 2)
    #expect(isNear(account.latency.percentiles.max, 5000))
    #expect(isNear(account.latency.percentiles.p50, 4000))
  }

  @Test func startedButNotFinishedIsNotUnfinished() {
    var account = LatencyAccount()
    account.count([sample(1_000_000, 1_000_000, 1_010_000, 0)], windowEnd: 5_000_000)
    #expect(account.unfinished == 0)
    #expect(isNear(account.intendedFinish.percentiles.max, 4000))
  }

  @Test func neverSubmittedIsLatenessAndUnfinishedButNoLatency() {
    var account = LatencyAccount()
    account.count([sample(1_000_000, 0, 0, 0)], windowEnd: 5_000_000)
    #expect(account.unfinished == 1)
    #expect(account.latency.count == 0)
    #expect(isNear(account.lateness.percentiles.max, 4000))
  }

  @Test func leftOutAndLaterSamplesDoNotCount() {
    var account = LatencyAccount()
    account.count(
      [sample(1_000, 1_000, 2_000, 3_000), sample(9_000, 9_000, 9_500, 9_600), sample(70_000, 0, 0, 0)],
      windowEnd: 60_000, isLeftOut: { $0 < 5_000 })
    #expect(account.samples == 1)
  }

  @Test func percentilesOfAKnownDistribution() {
    var histogram = TimeHistogram()
    for value in 1...1000 { histogram.record(UInt64(value) * 1000) }
    let percentiles = histogram.percentiles
    #expect(isNear(percentiles.p50, 500))
    #expect(isNear(percentiles.p90, 900))
    #expect(isNear(percentiles.p99, 990))
    #expect(isNear(percentiles.p999, 999))
    #expect(isNear(percentiles.max, 1000))
    let curve = histogram.curve
    #expect(
      zip(curve, curve.dropFirst()).allSatisfy { $0.value <= $1.value && $0.shareAbove > $1.shareAbove })
  }

  @Test func anEmptyHistogramIsAllZeroes() {
    #expect(TimeHistogram().percentiles == Percentiles())
    #expect(TimeHistogram().curve.isEmpty)
  }

  /// Within the histogram's three digits.
  private func isNear(_ value: Double, _ expected: Double) -> Bool {
    abs(value - expected) <= expected * 0.002
  }
}

@Suite(.bounded) struct BackgroundKeptTests {
  // R-CARD-06
  @Test func allOfWhatIsLeftIsOne() throws {
    let alone = WindowUsage(work: 1000, capacity: 200, process: 200, backgroundJobs: 200)
    let beside = WindowUsage(work: 750, capacity: 200, process: 200, backgroundJobs: 150)
    #expect(try abs(#require(BackgroundKept.share(beside: beside, alone: alone)) - 1) < 1e-9)
  }

  @Test func spinningCountsAsForeground() throws {
    let alone = WindowUsage(work: 1000, capacity: 200, process: 200, backgroundJobs: 200)
    // Half of the machine idle although there was work: half is kept.
    let idle = WindowUsage(work: 500, capacity: 200, process: 100, backgroundJobs: 100)
    #expect(try abs(#require(BackgroundKept.share(beside: idle, alone: alone)) - 0.5) < 1e-9)
    // The same half spent spinning is the foreground's.
    let spinning = WindowUsage(work: 500, capacity: 200, process: 200, backgroundJobs: 100)
    #expect(try abs(#require(BackgroundKept.share(beside: spinning, alone: alone)) - 1) < 1e-9)
  }

  @Test func theCostOfRunningBackgroundIsNotTheForegrounds() throws {
    let alone = WindowUsage(work: 1000, capacity: 200, process: 200, backgroundJobs: 160)
    let beside = WindowUsage(work: 500, capacity: 200, process: 200, backgroundJobs: 80)
    #expect(try abs(#require(BackgroundKept.share(beside: beside, alone: alone)) - 1) < 1e-9)
  }

  @Test func otherProgramsTakeFromNobodysShare() throws {
    let alone = WindowUsage(work: 1000, capacity: 200, process: 200, backgroundJobs: 200)
    let beside = WindowUsage(work: 500, capacity: 200, process: 100, backgroundJobs: 100, others: 100)
    #expect(try abs(#require(BackgroundKept.share(beside: beside, alone: alone)) - 1) < 1e-9)
  }

  @Test func noWorkAloneIsUnknown() {
    #expect(BackgroundKept.share(beside: WindowUsage(), alone: WindowUsage()) == nil)
    #expect(BackgroundKept.interval([]) == nil)
  }

  @Test func theIntervalHoldsEveryRepeat() throws {
    let alone = WindowUsage(work: 1000, capacity: 200, process: 200, backgroundJobs: 200)
    let pairs = [400.0, 500, 450].map { work in
      (
        beside: WindowUsage(work: work, capacity: 200, process: 200, backgroundJobs: 100), alone: alone
      )
    }
    let kept = try #require(BackgroundKept.interval(pairs))
    #expect(abs(kept.value - 0.9) < 1e-9 && abs(kept.low - 0.8) < 1e-9 && abs(kept.high - 1) < 1e-9)
  }
}

@Suite(.bounded) struct NoiseTests {
  private func slice(at second: UInt64, stolen: UInt64 = 0, canary: Double = 1) -> Slice {
    var begin = UsageReading()
    begin.time = second * 100_000_000
    var end = begin
    end.time += 100_000_000
    end.stolen += stolen
    end.canary = canary
    return Slice(begin: begin, end: end)
  }

  // R-CARD-06
  @Test func oneRuleDecides() {
    let rule = NoiseRule()
    #expect(rule.admits(slice(at: 1, stolen: 10_000_000), cores: 2))
    #expect(!rule.admits(slice(at: 1, stolen: 20_000_000), cores: 2))
    #expect(!rule.admits(slice(at: 1, canary: 2), cores: 2))
  }

  @Test func leftOutTimesBeginALittleEarlier() throws {
    let ranges = NoiseRule().leftOut([slice(at: 10), slice(at: 11, canary: 3)], cores: 2)
    #expect(ranges == [1_090_000_000..<1_200_000_000])
  }

  @Test func overThirtyPercentIsInvalid() {
    var report = NoiseReport()
    let good = (0..<7).map { slice(at: $0) }
    report.count(good + (7..<10).map { slice(at: $0, canary: 9) }, rule: NoiseRule(), cores: 2)
    #expect(report.isValid)
    report.count([slice(at: 10, canary: 9)], rule: NoiseRule(), cores: 2)
    #expect(!report.isValid)
  }

  @Test func procStatIsRead() throws {
    let ticks = try #require(NoiseMeter.parse("cpu  10 2 30 400 5 6 7 80 0 0\ncpu0 1 1 1\n"))
    #expect(ticks.busy == 55 && ticks.stolen == 80)
    #expect(NoiseMeter.parse("") == nil)
    #expect(NoiseMeter.parse("cpu  1 2 3") == nil)
    #expect(NoiseMeter.parse("intr 1") == nil)
  }
}
