import Benchmark

/// Spawn, run and finish an empty task, and learn that it has finished.
func registerSpawn() {
  Benchmark("spawn_default_executor", configuration: configuration(operations: 1_000)) { benchmark in
    for _ in benchmark.scaledIterations {
      await Task.detached {}.value
    }
  }

  Benchmark("spawn_group_default_executor", configuration: configuration(operations: 1_000)) { benchmark in
    await withDiscardingTaskGroup { group in
      for _ in benchmark.scaledIterations {
        group.addTask {}
      }
    }
  }
}
