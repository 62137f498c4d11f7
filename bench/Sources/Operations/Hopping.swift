import Dispatch
import Opportune

extension Comparison {
  /// A task that leaves where it is and comes back: to an actor, to a strand, to the queue, to another
  /// executor.
  static let hopping: [Entry] = [
    // Rival: the default executor, which enters a free actor without an enqueue.
    Entry("hop_actor") {
      let fixture = try Fixture()
      let ours = Counter()
      let rival = Counter()
      return Comparison(
        ours: { operations in
          await on(fixture.app.executor) { for _ in 0..<operations { await ours.increment() } }
        },
        rival: { operations in
          await on(globalConcurrentExecutor) { for _ in 0..<operations { await rival.increment() } }
        })
    },
    // Rival: a default actor on the default executor.
    Entry("hop_strand") {
      let fixture = try Fixture()
      let ours = StrandCounter(try fixture.app.makeStrand(named: "strand"))
      let rival = Counter()
      return Comparison(
        ours: { operations in
          await on(fixture.app.executor) { for _ in 0..<operations { await ours.increment() } }
        },
        rival: { operations in
          await on(globalConcurrentExecutor) { for _ in 0..<operations { await rival.increment() } }
        })
    },
    // Rival: the default executor.
    Entry("yield") {
      let fixture = try Fixture()
      return Comparison(
        ours: { operations in
          await on(fixture.app.executor) { for _ in 0..<operations { await Task.yield() } }
        },
        rival: { operations in
          await on(globalConcurrentExecutor) { for _ in 0..<operations { await Task.yield() } }
        })
    },
    // Rival: from the default executor to an executor on a Dispatch queue.
    Entry("hop_executor") {
      let here = try Fixture()
      let there = try here.scheduler.makeApp(named: "there")
      let queue = DispatchExecutor()
      return Comparison(
        ours: { operations in
          await on(here.app.executor) {
            for _ in 0..<operations { await withTaskExecutorPreference(there.executor) {} }
          }
        },
        rival: { operations in
          await on(globalConcurrentExecutor) {
            for _ in 0..<operations { await withTaskExecutorPreference(queue) {} }
          }
        })
    },
  ]
}

private func on(_ executor: any TaskExecutor, _ body: @escaping @Sendable () async -> Void) async {
  await Task(executorPreference: executor, operation: body).value
}

/// The plainest executor of one's own: a concurrent queue of Dispatch.
private final class DispatchExecutor: TaskExecutor {
  private let queue = DispatchQueue(label: "bench", attributes: .concurrent)

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
