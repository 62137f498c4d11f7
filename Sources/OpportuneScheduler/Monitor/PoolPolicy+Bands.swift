/// Running jobs whose bands change: with their app, or since work of a higher band waits for them. From then
/// on such a job is judged as one that has just begun. (R-CPU-02)
extension PoolPolicy {
  /// How a running job has come to another band than that of its begin.
  struct BandChange: Sendable {
    /// That of its app when it was looked at last, and the highest of those that wait for it.
    var ofApp: Band
    var ofWaiters: Band?
    /// The job as one that began with the change.
    var job: Job
    /// Since somebody waits for it the job stands as one that was never lowered, until it is again.
    var isAsFresh = false
    /// How long it had been off the CPU before, in nanoseconds.
    var offBefore: UInt64 = 0
  }

  /// Looks at a worker whose job's app may have changed its band, since the job began or since the last such
  /// change. Who is waited for stays as high as those who wait.
  package static func bandSteps(
    for worker: Seen, _ notes: inout Notes, now: UInt64, _ sight: some WorkerSight
  ) -> [Step] {
    guard let job = worker.job, let band = sight.bandOfApp else { return [] }
    let change = notes.change(of: job)
    guard band != change?.ofApp ?? job.band else { return [] }
    var next = change ?? BandChange(ofApp: band, job: job)
    next.ofApp = band
    let stands = max(band, next.ofWaiters ?? band)
    guard stands <= job.band || sight.canStand(in: stands) else {
      notes.change = next
      return sight.isOfAnotherPool(in: stands) ? [.leavePool(worker.slot)] : []
    }
    let step = Step.setBand(worker.slot, stands, depth: worker.depth)
    guard notes.become(next, in: stands, depth: worker.depth, now: now, sight) else { return [] }
    return sight.isOfAnotherPool(in: stands) ? [step, .leavePool(worker.slot)] : [step]
  }

  /// Looks at a worker whose job is awaited by work of `band`. A job that stands as high already stays as it
  /// is, lowered or not, also when its app goes. So does one whose thread cannot be raised, and is judged as
  /// before.
  package static func raiseStep(
    for worker: Seen, _ notes: inout Notes, to band: Band, now: UInt64, _ sight: some WorkerSight
  ) -> Step? {
    guard let job = worker.job else { return nil }
    var next = notes.change(of: job) ?? BandChange(ofApp: job.band, job: job)
    next.ofWaiters = max(band, next.ofWaiters ?? band)
    guard band > job.band, sight.canStand(in: band) else {
      notes.change = next
      return nil
    }
    next.isAsFresh = true
    _ = notes.become(next, in: band, depth: 0, now: now, sight)
    return .setBand(worker.slot, band, depth: 0)
  }
}

extension PoolPolicy.Notes {
  func change(of job: PoolPolicy.Job) -> PoolPolicy.BandChange? {
    change.flatMap { $0.job.sequence == job.sequence ? $0 : nil }
  }

  /// The worker as it stands by now, of one whose job is as it began.
  package func asOfNow(_ worker: PoolPolicy.Seen) -> PoolPolicy.Seen {
    guard let begun = worker.job, let change = change(of: begun) else { return worker }
    var worker = worker
    worker.job = change.job
    worker.job?.isInClass = begun.isInClass
    if change.isAsFresh { worker.depth = 0 }
    return worker
  }

  /// Returns whether the job is of another band than before.
  fileprivate mutating func become(
    _ next: PoolPolicy.BandChange, in band: Band, depth: Int, now: UInt64, _ sight: some WorkerSight
  ) -> Bool {
    var next = next
    let changes = next.job.band != band
    if changes {
      next.offBefore = offCPU(job: next.job.sequence)
      running = nil
      (next.job.band, next.job.depth, next.job.start) = (band, depth, now)
      if let usage = sight.usage { (next.job.cpuBefore, next.job.waitBefore) = usage }
      next.job.switchesBefore = sight.switches
    }
    change = next
    return changes
  }
}
