import Opportune

extension Comparison {
  /// An empty task: spawned, run, finished. The rival is the default executor.
  static let spawning: [Entry] =
    [1, 2, 4].map { producers in
      Entry("spawn_inside_\(producers)") { try spawning { await spawnInside($0, producers, on: $1) } }
    }
    + [1, 2, 4].map { producers in
      Entry("spawn_outside_\(producers)") { try spawning { await spawnOutside($0, producers, on: $1) } }
    }
    + [
      Entry("spawn_await") { try spawning { await spawnAwait($0, on: $1) } },
      Entry("spawn_app_task") {
        let fixture = try Fixture()
        return Comparison(
          ours: { operations in
            try await Task(executorPreference: fixture.app.executor) {
              for _ in 0..<operations { await fixture.app.task {}.value }
            }.value
          },
          rival: { operations in await spawnAwait(operations, on: globalConcurrentExecutor) })
      },
    ]

  private static func spawning(
    _ spawn: @escaping @Sendable (_ operations: Int, _ executor: any TaskExecutor) async -> Void
  ) throws -> Comparison {
    let fixture = try Fixture()
    return Comparison(
      ours: { await spawn($0, fixture.app.executor) },
      rival: { await spawn($0, globalConcurrentExecutor) })
  }
}

/// So many tasks at once, on the executor themselves, each spawn their share into a group.
private func spawnInside(_ operations: Int, _ producers: Int, on executor: any TaskExecutor) async {
  await withDiscardingTaskGroup { group in
    for _ in 0..<producers {
      group.addTask(executorPreference: executor) {
        await withDiscardingTaskGroup { group in
          for _ in 0..<operations / producers { group.addTask(executorPreference: executor) {} }
        }
      }
    }
  }
}

/// So many threads that belong to no executor each spawn their share of tasks.
private func spawnOutside(_ operations: Int, _ producers: Int, on executor: any TaskExecutor) async {
  let latch = Latch(operations / producers * producers)
  await onThreads(producers + 1) { number in
    guard number < producers else { return latch.wait() }
    for _ in 0..<operations / producers {
      Task.detached(executorPreference: executor) { latch.countDown() }
    }
  }
}

/// One after the other, each awaited by a task on the same executor.
private func spawnAwait(_ operations: Int, on executor: any TaskExecutor) async {
  await Task(executorPreference: executor) {
    for _ in 0..<operations { await Task(executorPreference: executor) {}.value }
  }.value
}
