internal import COpportune
import Dispatch
internal import OpportuneBase
import Synchronization

/// A job of a strand that could not be queued.
final class LooseJob: Linked {
  let entry: JobEntry
  // Written before the job is published.
  var below: UInt = 0

  init(_ entry: JobEntry) { self.entry = entry }
}

/// Running a strand without a worker: the scheduler has ended, memory is short, a thread is ending, or this
/// is the child of a fork(). Such jobs still run one after the other. Closures are cancelled once the
/// scheduler is closed.
extension Strand {
  /// Runs a job that cannot be queued. If the strand has a runner, the job runs after the runner's turn.
  func runElsewhere(_ entry: JobEntry) {
    loose.push(LooseJob(entry))
    // seqCst: the push to `loose` precedes this load. A runner reads `loose` after leave(), so one of the two
    // sees the other.
    if app.engine.isForked || !hasRunner { runElsewhere(all: false) }
  }

  /// Runs waiting jobs in the global pool.
  ///
  /// - Parameter all: whether the strand's queue is included. As long as there are workers, they run what is
  ///   in the queue; a suspended app's queue waits.
  func runElsewhere(all: Bool = true) {
    app.engine.noteEscape()
    if app.engine.isForked { return runInChild() }
    DispatchQueue.global().async { [self] in
      // A current runner looks at `loose` again after it has left.
      guard becomeRunner(in: app.band, takesOwn: all) else { return }
      runLoose()
      if !all, app.engine.isOpen, let producer = app.engine.producer(nil) { return leave(producer) }
      var job = opp_job()
      while opp_queue_take(queue, &job) { run(JobEntry(job)) }
      _ = leave()
      _ = waiting.takeAll()
      if !opp_queue_is_empty(queue) || !loose.isEmpty { runElsewhere() }
    }
  }

  private func runLoose() {
    for job in loose.takeAll().reversed() { run(job.entry) }
  }

  /// Runs `loose` on the calling thread, in the child of a fork(). The global pool has no threads there. A
  /// runner of the parent continues in the parent only, and the parent also runs what is in the queue.
  private func runInChild() {
    // Called from within one of the strand's jobs: the loop that runs this job looks at `loose` again.
    if isIsolatingCurrentContext() == true { return }
    // seqCst, both: a thread that finds `runsInChild` set has pushed before. The thread that set it looks at
    // `loose` once more after it has cleared it.
    while !loose.isEmpty, !runsInChild.exchange(true, ordering: .sequentiallyConsistent) {
      runner.store(opp_thread_number(), ordering: .relaxed)
      runLoose()
      runner.store(0, ordering: .relaxed)
      runsInChild.store(false, ordering: .sequentiallyConsistent)
    }
  }
}
