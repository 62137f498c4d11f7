import Benchmark
import Dispatch

/// The same through Dispatch: a block to a global queue, and a signal back to the thread that sent it.
func registerDispatch() {
  Benchmark("round_trip_dispatch_async", configuration: configuration(operations: 1_000)) { benchmark in
    let queue = DispatchQueue.global(qos: .userInteractive)
    let done = DispatchSemaphore(value: 0)
    for _ in benchmark.scaledIterations {
      queue.async { done.signal() }
      done.wait()
    }
  }
}
