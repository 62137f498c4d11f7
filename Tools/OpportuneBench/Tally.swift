import OpportuneBase

/// What one contender did in one scenario, over all repeats.
struct Tally: Sendable {
  let scenario: Scenario
  let contender: ContenderKind
  var beside = LatencyAccount()
  var foregroundAlone = LatencyAccount()
  var pairs: [(beside: WindowUsage, alone: WindowUsage)] = []
  var refused = 0
  var footprint = Footprint()
  var timeline: [TimelinePoint] = []
  var latestStarts: [LateStart] = []

  mutating func countBeside(_ window: WindowOutcome, rule: NoiseRule, cores: Int, runStart: Nanoseconds) {
    let leftOut = rule.leftOut(window.slices, cores: cores)
    beside.count(window.samples, windowEnd: window.end) { time in leftOut.contains { $0.contains(time) } }
    refused += window.refused
    footprint.count(window.slices)
    let samples = window.samples.filter { $0.submitted != 0 }.map { sample in
      let hasStarted = sample.started != 0 && sample.started <= window.end
      let end = hasStarted ? sample.started : window.end
      return (intended: sample.intended, latency: elapsed(from: sample.submitted, to: end))
    }
    timeline += rule.timeline(samples, in: window.slices, cores: cores, runStart: runStart)
    latestStarts += LateStart.latest(of: window.samples)
  }

  mutating func countForegroundAlone(_ window: WindowOutcome, rule: NoiseRule, cores: Int) {
    let leftOut = rule.leftOut(window.slices, cores: cores)
    foregroundAlone.count(window.samples, windowEnd: window.end) { time in
      leftOut.contains { $0.contains(time) }
    }
    refused += window.refused
  }
}

/// When a job that started late was submitted and started, by `CLOCK_MONOTONIC`: to look it up in a trace.
package struct LateStart: Sendable, Equatable, Encodable {
  package let submittedNs: UInt64
  package let startedNs: UInt64

  /// The latest hundredth of those that have started.
  static func latest(of samples: [Sample]) -> [LateStart] {
    let started = samples.filter { $0.submitted != 0 && $0.started != 0 }
    return started.latestHundredth { $0.started &- $0.submitted }.map {
      LateStart(submittedNs: $0.submitted, startedNs: $0.started)
    }
  }
}

extension Array {
  /// The latest first; at least one where there are any.
  func latestHundredth(by lateness: (Element) -> Nanoseconds) -> ArraySlice<Element> {
    sorted { lateness($0) > lateness($1) }.prefix((count + 99) / 100)
  }
}

/// What the process cost the kernel while a contender ran, the generator of the load included.
package struct Footprint: Sendable, Equatable {
  private var switches = 0.0
  private var seconds = 0.0
  private var resident: UInt64 = 0

  mutating func count(_ slices: [Slice]) {
    for slice in slices {
      switches += Double(slice.end.switches &- slice.begin.switches)
      seconds += slice.seconds
      resident = max(resident, slice.end.resident)
    }
  }

  /// Context switches a second, and the most memory that was resident, in mebibytes.
  package var switchesPerSecond: Double { seconds > 0 ? switches / seconds : 0 }
  package var residentMebibytes: Double { Double(resident) / 1_048_576 }
}

/// About 100 ms of the run, for the timeline. Latencies in microseconds.
package struct TimelinePoint: Sendable, Equatable {
  /// Since the run's begin.
  package let second: Double
  package let median: Double
  package let max: Double
  /// The host took the CPU: not in the percentiles.
  package let isLeftOut: Bool
}

extension NoiseRule {
  /// Of each slice in which something was intended: the median and the longest of what that took.
  func timeline(
    _ samples: [(intended: Nanoseconds, latency: Nanoseconds)], in slices: [Slice], cores: Int,
    runStart: Nanoseconds
  ) -> [TimelinePoint] {
    slices.compactMap { slice in
      var histogram = TimeHistogram()
      for sample in samples
      where (slice.begin.time..<max(slice.begin.time, slice.end.time)).contains(sample.intended) {
        histogram.record(sample.latency)
      }
      guard histogram.count > 0 else { return nil }
      let percentiles = histogram.percentiles
      return TimelinePoint(
        second: Double(elapsed(from: runStart, to: slice.begin.time)) / 1e9, median: percentiles.p50,
        max: percentiles.max, isLeftOut: !admits(slice, cores: cores))
    }
  }

  /// Times whose interactive jobs are left out: disturbed slices, and the 10 ms before each, since what was
  /// submitted then may have been caught by the disturbance.
  func leftOut(_ slices: [Slice], cores: Int) -> [Range<Nanoseconds>] {
    slices.filter { !admits($0, cores: cores) }.map { slice in
      slice.begin.time - min(slice.begin.time, 10_000_000)..<max(slice.begin.time, slice.end.time)
    }
  }

  /// The usage of the slices that count.
  func usage(_ slices: [Slice], cores: Int) -> WindowUsage {
    var total = WindowUsage()
    for slice in slices where admits(slice, cores: cores) { total += slice.usage(cores: cores) }
    return total
  }
}
