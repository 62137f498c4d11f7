import Benchmark

private actor Counter {
  private var count = 0
  func increment() { count &+= 1 }
}

/// One round trip of a task to an actor that nobody else uses. The default executor enters a free actor without
/// an enqueue; a task executor is handed two jobs for it.
func registerHop() {
  Benchmark("hop_default_executor", configuration: configuration(operations: 1_000)) { benchmark in
    let counter = Counter()
    for _ in benchmark.scaledIterations {
      await counter.increment()
    }
  }
}
