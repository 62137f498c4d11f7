// Micro-benchmarks of the Swift layer: each operation beside a plain rival, in turns within the same run.
//
// Goals: compare each operation with a plain rival on the same machine at the same time, and notice when a
// change makes one dearer. Not goals: boasting, and latency under load, which is `opportune bench latency`.
// The C core's queues are measured by `scripts/bench-core`.
//
// Each iteration does a number of operations our way and the rival's, one right after the other, beginning
// with each in turn. So the third metric, the ratio, is of two neighbours in time, and other load falls on
// both.

import Benchmark
import Foundation
import Operations

private let ours = BenchmarkMetric.custom("opportune, ns per operation", useScalingFactor: false)
private let rival = BenchmarkMetric.custom("rival, ns per operation", useScalingFactor: false)
private let ratio = BenchmarkMetric.custom("opportune / rival, %", useScalingFactor: false)

/// `OPPORTUNE_BENCH_SMOKE=1` runs every benchmark for a moment: enough to see that it works, too short to
/// measure anything.
private let isSmoke = ProcessInfo.processInfo.environment["OPPORTUNE_BENCH_SMOKE"] == "1"
private let operations = isSmoke ? 40 : Comparison.batch

let benchmarks: @Sendable () -> Void = {
  let configuration = Benchmark.Configuration(
    metrics: [ours, rival, ratio],
    warmupIterations: isSmoke ? 0 : 3,
    maxDuration: isSmoke ? .milliseconds(20) : .seconds(2),
    maxIterations: isSmoke ? 2 : 1_000)
  for entry in Comparison.all {
    Benchmark(
      entry.name, configuration: configuration,
      closure: { benchmark, comparison in try await measure(benchmark, comparison) },
      setup: entry.make)
  }
}

private func measure(_ benchmark: Benchmark, _ comparison: Comparison) async throws {
  let clock = ContinuousClock()
  for iteration in benchmark.scaledIterations {
    var times = [Duration](repeating: .zero, count: 2)
    for turn in 0..<2 {
      let isOurs = (turn + benchmark.currentIteration + iteration) % 2 == 0
      times[isOurs ? 0 : 1] = try await clock.measure {
        try await (isOurs ? comparison.ours : comparison.rival)(operations)
      }
    }
    let nanoseconds = times.map {
      Double($0.components.attoseconds) / 1e9 + Double($0.components.seconds) * 1e9
    }
    benchmark.measurement(ours, Int(nanoseconds[0] / Double(operations)))
    benchmark.measurement(rival, Int(nanoseconds[1] / Double(operations)))
    benchmark.measurement(ratio, Int(100 * nanoseconds[0] / max(nanoseconds[1], 1)))
  }
}
