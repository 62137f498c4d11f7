internal import COpportune
import Dispatch
internal import OpportuneBase
import Synchronization

/// A job of a strand that is in no queue.
final class LooseJob: Linked {
  let entry: JobEntry
  // Set before it is published.
  var below: UInt = 0

  init(_ entry: JobEntry) { self.entry = entry }
}

/// Where no worker runs a job of a strand: the scheduler is gone, memory is short, a thread is ending, or
/// this is the child of a fork(). Such jobs still run one after the other; closures are cancelled once the
/// scheduler is closed.
extension Strand {
  /// Runs a job that cannot be queued; after who runs the strand now, if anybody does.
  func runElsewhere(_ entry: JobEntry) {
    loose.push(LooseJob(entry))
    // seqCst: after that push; a runner looks at `loose` after it has left, so one of us has it run.
    if app.engine.isForked || !hasRunner { runElsewhere(all: false) }
  }

  /// Runs what waits, in the global pool.
  ///
  /// - Parameter all: whether the queue is meant too; what is in it is the workers' as long as there are any,
  ///   and a suspended app's waits.
  func runElsewhere(all: Bool = true) {
    app.engine.noteEscape()
    if app.engine.isForked { return runInChild() }
    DispatchQueue.global().async { [self] in
      // Who runs it looks again when he has left.
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

  /// In the child of a fork() the global pool has no threads, and who ran the strand in the parent goes on
  /// there alone: the caller's thread runs what was enqueued here. What is in the queue is the parent's to
  /// run.
  private func runInChild() {
    // From within one of its jobs, after which that is looked at again.
    if isIsolatingCurrentContext() == true { return }
    // seqCst, both: whoever finds somebody at work has pushed before, and that one looks once more
    // afterwards.
    while !loose.isEmpty, !runsInChild.exchange(true, ordering: .sequentiallyConsistent) {
      runner.store(opp_thread_number(), ordering: .relaxed)
      runLoose()
      runner.store(0, ordering: .relaxed)
      runsInChild.store(false, ordering: .sequentiallyConsistent)
    }
  }
}
