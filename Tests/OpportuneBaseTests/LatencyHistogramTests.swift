import OpportuneBase
import TestSupport
import Testing

@Suite(.bounded) struct LatencyHistogramTests {
  @Test func quantilesAreAtMostAnEighthTooLong() {
    var generator = SplitMix64(seed: 3)
    var histogram = LatencyHistogram()
    #expect(histogram.quantile(0.5) == nil)
    var times: [UInt64] = []
    for _ in 0..<5000 {
      let time = UInt64(1) << UInt64.random(in: 11...38, using: &generator)
      times.append(time + UInt64.random(in: 0..<time, using: &generator))
      histogram.record(times[times.count - 1])
    }
    times.sort()
    for share in [0.01, 0.5, 0.9, 0.99, 1] {
      let exact = times[max(0, Int((Double(times.count) * share).rounded(.up)) - 1)]
      let told = histogram.quantile(share)?.unsignedNanoseconds ?? 0
      #expect(told >= exact && told <= exact + exact / 8 + 1, "\(share): \(told) for \(exact)")
    }
    #expect(histogram.quantile(.nan) == nil)
    #expect(histogram.quantile(-.infinity) == histogram.quantile(0))
    #expect(histogram.quantile(.infinity) == histogram.quantile(1))
    histogram.record(0)
    histogram.record(.max)
    #expect(histogram.count == 5002)
  }

  @Test func aHistogramIsPrintedAsItsQuantiles() {
    var histogram = LatencyHistogram()
    #expect("\(histogram)" == "0 times")
    histogram.record(1_000)
    #expect("\(histogram)" == "1 time: p50 1 µs, p99 1 µs, max 1 µs")
    for _ in 0..<9 { histogram.record(1_000_000) }
    #expect("\(histogram)".hasPrefix("10 times: p50 1048 µs"))
  }

  @Test func histogramsAreTakenApart() {
    var generator = SplitMix64(seed: 9)
    var (before, after) = (LatencyHistogram(), LatencyHistogram())
    var times: [UInt64] = []
    for number in 0..<1000 {
      let time = UInt64(1) << UInt64.random(in: 11...38, using: &generator)
      let value = time + UInt64.random(in: 0..<time, using: &generator)
      after.record(value)
      if number < 500 { before.record(value) } else { times.append(value) }
    }
    after.subtract(before)
    #expect(after.count == 500)
    times.sort()
    var place = 0
    for (middle, count) in after.middles {
      for time in times[place..<place + Int(count)] {
        #expect(middle.distance(to: time).magnitude <= time / 16 + 1, "\(middle) for \(time)")
      }
      place += Int(count)
    }
    #expect(place == 500)
  }
}
