// Micro-benchmarks: the cost of one operation at a time.
//
// Goals: compare each operation with a plain rival in the same run, on the same machine, and notice when a
// change makes one dearer. Not goals: boasting, and latency under load, which is `opportune bench latency`.
//
// One file per subject; each has a function that registers its benchmarks, called below. A name says the load:
// what is done, by whom, beside what (`spawn_default_executor`, `hop_default_executor`).

import Benchmark

let benchmarks: @Sendable () -> Void = {
  Benchmark.defaultConfiguration = configuration(operations: 1_000)
  registerSpawn()
  registerHop()
  registerDispatch()
}
