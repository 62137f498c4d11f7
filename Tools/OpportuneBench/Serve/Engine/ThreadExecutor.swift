/// Runs a task on the thread that calls, which blocks while the task waits: so that plain threads run the
/// same code as tasks do. A task that waits for nothing runs to its end without coming here again.
final class ThreadExecutor: TaskExecutor, @unchecked Sendable {
  private let monitor = Monitor()
  // Both protected by `monitor`.
  private var jobs: [UnownedJob] = []
  private var isOver = false

  static func run(_ body: @escaping @Sendable () async -> Void) {
    let executor = ThreadExecutor()
    Task(executorPreference: executor) {
      await body()
      executor.end()
    }
    executor.drain()
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    monitor.withLock { jobs.append(job) }
    monitor.signal()
  }

  private func end() {
    monitor.withLock { isOver = true }
    monitor.signal()
  }

  private func drain() {
    while let job = next() { job.runSynchronously(on: asUnownedTaskExecutor()) }
  }

  private func next() -> UnownedJob? {
    monitor.withLock {
      while jobs.isEmpty, !isOver { monitor.wait() }
      return jobs.isEmpty ? nil : jobs.removeFirst()
    }
  }
}
