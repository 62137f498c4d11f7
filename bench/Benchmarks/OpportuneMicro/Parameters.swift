import Benchmark
import Foundation

/// `OPPORTUNE_BENCH_SMOKE=1` runs every benchmark for a moment: enough to see that it works, too short to
/// measure anything.
let isSmoke = ProcessInfo.processInfo.environment["OPPORTUNE_BENCH_SMOKE"] == "1"

/// A size that is small in a smoke run: `parameter(smoke: 64, full: 100_000)`.
func parameter(smoke: Int, full: Int) -> Int { isSmoke ? smoke : full }

/// The configuration of a benchmark whose closure does `operations` operations at each iteration. The table
/// shows values per operation.
func configuration(operations: Int) -> Benchmark.Configuration {
  let scale: BenchmarkScalingFactor =
    switch operations {
    case 1: .one
    case 1_000: .kilo
    case 1_000_000: .mega
    default: preconditionFailure("\(operations) operations: only 1, 1,000 and 1,000,000 can be scaled")
    }
  return Benchmark.Configuration(
    metrics: [.wallClock, .throughput],
    warmupIterations: isSmoke ? 0 : 10,
    scalingFactor: scale,
    maxDuration: isSmoke ? .milliseconds(20) : .seconds(3),
    maxIterations: isSmoke ? 3 : 100_000)
}
