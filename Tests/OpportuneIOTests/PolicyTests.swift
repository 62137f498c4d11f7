import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct PolicyTests {
  static let ratios = [(100, 0), (90, 10), (80, 20), (75, 25), (50, 50), (3, 7), (1, 99), (0, 1), (17, 5)]

  // R-NET-05, R-NET-04
  @Test(arguments: ratios)
  func everyWindowHasItsShareWithinOne(foreground: Int, background: Int) throws {
    var turn = RatioTurn(try Ratio(foreground: foreground, background: background))
    var sums = [0]
    for _ in 0..<1500 {
      sums.append(sums[sums.count - 1] + (turn.next == .background ? 1 : 0))
      turn.take()
    }
    let whole = foreground + background
    for length in [1, 2, 3, 7, 10, 99, 100, 101, 500, 1000] {
      for start in 0..<(sums.count - length) {
        let served = sums[start + length] - sums[start]
        #expect(
          abs(served * whole - length * background) < whole, "window of \(length) at \(start): \(served)")
      }
    }
  }

  @Test(arguments: [(-1, 5), (5, -1), (0, 0), (1_000_001, 1)])
  func refusesRatios(foreground: Int, background: Int) {
    let error = #expect(throws: IOError.self) { try Ratio(foreground: foreground, background: background) }
    #expect(error?.code == .configuration)
    #expect(error?.message.contains("\(foreground):\(background)") == true)
  }

  // R-DISK-02
  @Test(arguments: [UInt64(1), 7, 1_000, 1_000_003, 999_999_999_999])
  func bucketNeverGivesMoreThanRateAndBurst(rate: UInt64) {
    var generator = SplitMix64(seed: rate)
    let burst = UInt64.random(in: 1...10_000, using: &generator)
    var bucket = TokenBucket(rate: rate, burst: burst, now: 5)
    var now: UInt64 = 5
    var taken: UInt64 = 0
    for _ in 0..<20_000 {
      now += UInt64.random(
        in: 0...(UInt64.random(in: 0...10, using: &generator) == 0 ? 50_000_000 : 300), using: &generator)
      bucket.advance(to: now)
      #expect(bucket.available <= burst)
      taken += bucket.takeUp(to: UInt64.random(in: 0...burst, using: &generator))
      let (high, low) = rate.multipliedFullWidth(by: now - 5)
      let earned = UInt64(1_000_000_000).dividingFullWidth((high, low)).quotient
      #expect(taken <= burst + earned, "rate \(rate), burst \(burst), at \(now)")
    }
  }

  // R-DISK-02
  @Test func bucketLosesNothingHoweverOftenItIsAsked() {
    var often = TokenBucket(rate: 333, burst: 1_000_000, now: 0)
    let answer1 = often.takeUp(to: 1_000_000)
    #expect(answer1 == 1_000_000)
    for now in 1...100_000 as ClosedRange<UInt64> { often.advance(to: now * 30_000) }
    #expect(often.available == 999)  // 333 a second for 3 s, and every fraction kept
    #expect(often.level == 999 * TokenBucket.scale)
  }

  @Test func bucketTellsWhenTokensAreThere() {
    var generator = SplitMix64(seed: 7)
    var bucket = TokenBucket(rate: 1_234_567, burst: 10_000, now: 0)
    var now: UInt64 = 0
    for _ in 0..<1000 {
      let wanted = UInt64.random(in: 1...10_000, using: &generator)
      let wait = bucket.wait(for: wanted)
      if wait > 0 {
        bucket.advance(to: now + wait - 1)
        #expect(bucket.available < wanted)
      }
      now += wait
      bucket.advance(to: now)
      let answer2 = bucket.take(wanted)
      #expect(answer2)
    }
  }

  @Test func bucketBearsClocksThatJump() {
    var bucket = TokenBucket(rate: 1_000_000_000_000, burst: 8_000_000_000, now: 100)
    let answer3 = bucket.take(8_000_000_000)
    #expect(answer3)
    bucket.advance(to: 50)
    #expect(bucket.available == 0)
    bucket.advance(to: .max)
    #expect(bucket.available == 8_000_000_000)
    bucket.giveBack(.max)
    #expect(bucket.available == 8_000_000_000)
    let answer4 = bucket.take(8_000_000_001)
    #expect(!answer4)
  }

  // R-DISK-02
  @Test func adaptiveCapRisesSlowlyAndIsCutAtOnce() {
    var cap = AdaptiveCap(targetNanoseconds: 100, maximum: 16)
    #expect(cap.value == 4)
    for now in 1...UInt64(63) {
      cap.foregroundFinished(sentAt: now, latency: 50, now: now, wasLimiting: true)
    }
    #expect(cap.value == 4)
    cap.foregroundFinished(sentAt: 64, latency: 100, now: 64, wasLimiting: true)
    #expect(cap.value == 5)
    cap.foregroundFinished(sentAt: 65, latency: 101, now: 200, wasLimiting: true)
    #expect(cap.value == 2)
    // Sent before the cut: the same congestion.
    cap.foregroundFinished(sentAt: 66, latency: 500, now: 210, wasLimiting: true)
    #expect(cap.value == 2)
    for now in 300...UInt64(320) {
      cap.foregroundFinished(sentAt: now, latency: 500, now: now, wasLimiting: true)
    }
    #expect(cap.value == 1)
  }

  @Test func adaptiveCapForgivesOneInAHundred() {
    var cap = AdaptiveCap(targetNanoseconds: 100, maximum: 64)
    var misses = 0
    for now in 1...UInt64(20_000) {
      let isLate = now % 110 == 0
      misses += isLate ? 1 : 0
      cap.foregroundFinished(sentAt: now, latency: isLate ? 5_000 : 50, now: now, wasLimiting: true)
    }
    #expect(misses > 150)
    #expect(cap.value == 64)
  }

  @Test func adaptiveCapDoesNotRiseUnused() {
    var cap = AdaptiveCap(targetNanoseconds: 100, maximum: 64)
    for now in 1...UInt64(2000) {
      cap.foregroundFinished(sentAt: now, latency: 5, now: now, wasLimiting: false)
    }
    #expect(cap.value == 4)
    // No foreground at all: by one in five milliseconds.
    var now: UInt64 = 2000
    for _ in 0..<1000 {
      now += 100_000
      cap.backgroundFinished(now: now, wasLimiting: true)
    }
    #expect(cap.value == 24)
  }

  @Test func policiesAreChecked() throws {
    for policy in [DevicePolicy.storage, .network, .uncontrolled] { try policy.validate() }
    let wrong: [(String, DevicePolicy)] = [
      ("depth is 0", DevicePolicy(depth: 0)), ("chunk is 4095", DevicePolicy(chunk: 4095)),
      ("cap is 0", DevicePolicy(cap: .fixed(0))),
      ("bytes.perSecond is 0", DevicePolicy(bytes: .init(perSecond: 0))),
      ("operations.burst is -1", DevicePolicy(operations: .init(perSecond: 5, burst: -1))),
      ("cap.target is 0.0 seconds", DevicePolicy(cap: .adaptive(target: .zero))),
      ("cap.maximum is 9999", DevicePolicy(cap: .adaptive(target: .seconds(1), maximum: 9999))),
    ]
    for (text, policy) in wrong {
      let error = #expect(throws: IOError.self) { try policy.validate() }
      #expect(error?.message.contains(text) == true, "\(text): \(String(describing: error))")
    }
  }
}
