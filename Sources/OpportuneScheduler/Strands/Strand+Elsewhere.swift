internal import COpportune
import Dispatch
internal import OpportuneBase

/// A job of a strand that could not be queued.
final class LooseJob: Linked {
  let entry: JobEntry
  // Written before the job is published.
  var below: UInt = 0

  init(_ entry: JobEntry) { self.entry = entry }
}

/// Where no worker runs a job of a strand: the scheduler is gone, memory is short, or a thread is ending.
/// Such jobs still run one after the other; closures are cancelled once the scheduler is closed.
extension Strand {
  /// Runs a job that cannot be queued. If the strand has a runner, the job runs after the runner's turn.
  func runElsewhere(_ entry: JobEntry) {
    loose.push(LooseJob(entry))
    // seqCst: after that push; a runner looks at `loose` after it has left, so one of us has it run.
    if !hasRunner { runElsewhere(all: false) }
  }

  /// Runs waiting jobs in the global pool.
  ///
  /// - Parameter all: whether the strand's queue is included. As long as there are workers, they run what is
  ///   in the queue; a suspended app's queue waits.
  func runElsewhere(all: Bool = true) {
    app.engine.noteEscape()
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
}
