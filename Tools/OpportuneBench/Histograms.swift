import Histogram
import OpportuneBase

/// Percentiles of one quantity, in microseconds.
package struct Percentiles: Sendable, Equatable, Codable {
  package var p50 = 0.0
  package var p90 = 0.0
  package var p99 = 0.0
  package var p999 = 0.0
  package var max = 0.0
}

/// A point of a percentile curve.
package struct CurvePoint: Sendable, Equatable {
  /// Share of the samples above the value: 0.01 is the 99th percentile.
  package let shareAbove: Double
  /// Microseconds.
  package let value: Double
}

/// An HDR histogram of times: recorded in nanoseconds, three significant digits, read in microseconds.
struct TimeHistogram: Sendable {
  /// Longest time that keeps its value: ten minutes.
  private static let longest: UInt64 = 600_000_000_000
  private var histogram = Histogram<UInt64>(
    lowestDiscernibleValue: 1, highestTrackableValue: TimeHistogram.longest,
    numberOfSignificantValueDigits: .three)

  var count: UInt64 { histogram.totalCount }

  mutating func record(_ time: Nanoseconds) { histogram.record(min(max(time, 1), Self.longest)) }

  mutating func add(_ other: TimeHistogram) { histogram.add(other.histogram) }

  var percentiles: Percentiles {
    guard count > 0 else { return Percentiles() }
    return Percentiles(
      p50: value(50), p90: value(90), p99: value(99), p999: value(99.9),
      max: Double(histogram.max) / 1000)
  }

  /// From the median to the largest sample, evenly on a logarithmic scale of the share above.
  var curve: [CurvePoint] {
    guard count > 0 else { return [] }
    var points: [CurvePoint] = []
    var share = 0.9
    while share >= 0.5 / Double(count) {
      points.append(CurvePoint(shareAbove: share, value: value(100 * (1 - share))))
      share *= 0.8
    }
    return points
  }

  private func value(_ percentile: Double) -> Double {
    Double(min(histogram.valueAtPercentile(percentile), histogram.max)) / 1000
  }
}

/// The three times of every interactive job, and how many never started.
struct LatencyAccount: Sendable {
  /// Submit to start.
  var latency = TimeHistogram()
  /// The generator's own: intended start to submit.
  var lateness = TimeHistogram()
  /// Intended start to finish.
  var intendedFinish = TimeHistogram()
  var unfinished = 0
  var samples = 0

  /// Counts `samples` of a window that ended at `end`, except those that `isLeftOut` by their intended start.
  ///
  /// What had not started by then counts with what it has waited, and as unfinished; what had started and not
  /// finished counts with what has passed since its intended start. What the generator never came to submit
  /// has no latency; it counts as unfinished, and in the lateness.
  mutating func count(
    _ samples: [Sample], windowEnd end: Nanoseconds, isLeftOut: (Nanoseconds) -> Bool = { _ in false }
  ) {
    for sample in samples where sample.intended < end && !isLeftOut(sample.intended) {
      let hasStarted = sample.started != 0 && sample.started <= end
      let hasFinished = hasStarted && sample.finished != 0 && sample.finished <= end
      let isSubmitted = sample.submitted != 0 && sample.submitted <= end
      self.samples += 1
      if !hasStarted { unfinished += 1 }
      if isSubmitted {
        latency.record(elapsed(from: sample.submitted, to: hasStarted ? sample.started : end))
      }
      lateness.record(elapsed(from: sample.intended, to: isSubmitted ? sample.submitted : end))
      intendedFinish.record(elapsed(from: sample.intended, to: hasFinished ? sample.finished : end))
    }
  }

  mutating func add(_ other: LatencyAccount) {
    latency.add(other.latency)
    lateness.add(other.lateness)
    intendedFinish.add(other.intendedFinish)
    unfinished += other.unfinished
    samples += other.samples
  }
}
