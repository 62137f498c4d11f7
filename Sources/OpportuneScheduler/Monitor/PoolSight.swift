/// What ``PoolPolicy`` is shown of a pool. Only for the monitor's thread.
package protocol PoolSight {
  /// The settings.
  var rules: PoolPolicy.Rules { get }
  /// How many workers there are, and how many of them are counted among the demoted.
  var workerCount: Int { get }
  var demotedCount: Int { get }
  /// How many jobs the workers have begun and ended; for comparison.
  var progress: UInt64 { get }
  /// How many of their jobs were ordinary, and the CPU time of those in nanoseconds.
  var ordinaryJobs: (count: UInt64, time: UInt64) { get }
  /// The total CPU time of the workers, in nanoseconds.
  var cpuOfWorkers: UInt64 { get }
  /// Whether there is room for one more demoted job that has not begun yet: of a known hog; of one that was
  /// lowered once, or is held back for its origin.
  var hasRoomForKnown: Bool { get }
  var hasRoomForLoweredOnce: Bool { get }
  /// Whether any work waits; whether fresh work does, demoted work, and such as was lowered once.
  var somethingWaits: Bool { get }
  var freshWaits: Bool { get }
  var demotedWaits: Bool { get }
  var loweredOnceWaits: Bool { get }
}

/// What ``PoolPolicy`` asks of a worker beside what it is shown. Each answer costs several times the one
/// before, so none is asked for in advance.
package protocol WorkerSight {
  associatedtype Pool: PoolSight
  var pool: Pool { get }
  /// The worker as it stands by now, with what its ``PoolPolicy/Notes`` know of its job.
  var seen: PoolPolicy.Seen { get }
  /// Whether the origin of the worker's job is suspected of hogs.
  var isSuspected: Bool { get }
  /// CPU time of the worker's thread so far, in nanoseconds; nil where it cannot be read.
  var cpuTime: UInt64? { get }
  /// The same clock, and for how long the thread has waited for a CPU, or so shortly for something else that
  /// it does not count as blocking, in nanoseconds; nil where they cannot be read.
  var usage: (cpu: UInt64, wait: UInt64)? { get }
  /// How often the thread has given up the CPU voluntarily.
  var switches: Int64 { get }
  /// The band that the app of the worker's job has now; nil where the job is of none. It may have changed
  /// since the job began.
  var bandOfApp: Band? { get }
  /// Whether the thread would stand as one of that band if it were told to; where the process may not raise
  /// it, it stays where it is.
  func canStand(in band: Band) -> Bool
  /// Whether jobs of the worker's job's kind are another pool's once they are of that band.
  func isOfAnotherPool(in band: Band) -> Bool
  /// How deep the worker's job is to be lowered that began at `first`, after what it has used; nanoseconds.
  func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int
  /// What kind of job it is inside of, as ``LockWatch`` has it; empty where it is inside none.
  var kind: LockWatch.Kinds { get }
  /// What the worker's thread waits for.
  var blocking: PoolPolicy.Blocking { get }
  /// How many other workers of the pool, whose tokens were handed on while they waited for the lock of the
  /// memory map, still do.
  var replacedOnMap: Int { get }
}

/// A pool with its workers, and who carries out what the policy says. The order of a look is here, and only
/// here: the monitor's and that of the model in virtual time.
package protocol PolicedPool: PoolSight {
  associatedtype Worker: WorkerSight
  associatedtype Failure: Error
  var policy: PoolPolicy { get set }
  /// All that were ever in use. A pool may grow within a look; who came meanwhile is seen in the next.
  var slots: Range<Int> { get }
  /// The worker of a slot, nil where there is none, and what the policy remembers of it.
  func worker(_ slot: Int) -> Worker?
  func notes(of slot: Int) -> PoolPolicy.Notes
  mutating func setNotes(of slot: Int, to notes: PoolPolicy.Notes)
  /// Carries out a step, about that worker or about the pool. Returns false where it is refused.
  mutating func carryOut(_ step: PoolPolicy.Step, _ worker: Worker?) throws(Failure) -> Bool
}

extension PolicedPool {
  /// A look at a pool in which something may wait while all run tokens are in use.
  package mutating func lookAtStall(now: UInt64) throws(Failure) {
    for slot in slots {
      guard let worker = worker(slot), let step = policy.trialStep(for: worker.seen, rules, worker) else {
        continue
      }
      _ = try carryOut(step, step.slot == nil ? nil : worker)
    }
    guard freshWaits else {
      _ = try carryOut(.setStalled(false), nil)
      return
    }
    var look = policy.beginLook(at: self, now: now)
    var spares: [Worker] = []
    for slot in slots {
      guard let worker = worker(slot) else { continue }
      try show(worker, in: &look)
      if worker.seen.stance == .spare { spares.append(worker) }
    }
    for step in policy.end(look, rules) {
      _ = try carryOut(step, spares.first { $0.seen.slot == step.slot })
    }
  }

  private mutating func show(_ worker: Worker, in look: inout PoolPolicy.StallLook) throws(Failure) {
    var refused: PoolPolicy.Step?
    while let step = ask(
      worker, { $0.step(in: &look, for: worker.seen, &$1, after: refused, worker) })
    {
      if try carryOut(step, worker) { return policy.carriedOut(in: &look) }
      refused = step
    }
  }

  /// Asks the policy about a worker, and keeps what it remembers of that.
  private mutating func ask<Answer>(
    _ worker: Worker, _ question: (inout PoolPolicy, inout PoolPolicy.Notes) -> Answer
  ) -> Answer {
    var notes = notes(of: worker.seen.slot)
    defer { setNotes(of: worker.seen.slot, to: notes) }
    return question(&policy, &notes)
  }

  /// The look at running jobs, once a quantum. Returns the kinds of jobs that are inside workers.
  package mutating func lookAtJobs(now: UInt64) throws(Failure) -> LockWatch.Kinds {
    var kinds: LockWatch.Kinds = []
    for slot in slots {
      guard var worker = worker(slot) else { continue }
      let steps = ask(worker) { $0.quantumSteps(for: worker.seen, &$1, now: now, worker) }
      for step in steps { _ = try carryOut(step, worker) }
      guard worker.seen.job != nil else { continue }
      if !steps.isEmpty, let after = self.worker(slot) { worker = after }
      kinds.formUnion(worker.kind)
      guard demotedWaits,
        let step = ask(worker, { $0.roomStep(for: worker.seen, &$1, now: now, worker) })
      else { continue }
      _ = try carryOut(step, worker)
    }
    if let step = policy.extraRoomStep(for: self), try carryOut(step, nil) { policy.madeExtraRoom() }
    if let step = policy.floodStep(for: self, now: now) { _ = try carryOut(step, nil) }
    if rules.pool == .background {
      try lookAtStall(now: now)
    } else if !kinds.isEmpty {
      _ = try carryOut(.wakeIfReady, nil)
    }
    return kinds
  }

  /// Apps have changed their bands: their running jobs follow.
  package mutating func followBands(now: UInt64) throws(Failure) {
    for slot in slots {
      guard let worker = worker(slot) else { continue }
      let steps = ask(worker) { _, notes in PoolPolicy.bandSteps(for: worker.seen, &notes, now: now, worker) }
      for step in steps { _ = try carryOut(step, worker) }
    }
  }

  /// Work of `band` waits for that job, which the worker of this slot was seen inside of.
  package mutating func raise(_ slot: Int, job sequence: UInt64, to band: Band, now: UInt64) throws(Failure) {
    guard let worker = worker(slot), worker.seen.job?.sequence == sequence else { return }
    let step = ask(worker) { _, notes in
      PoolPolicy.raiseStep(for: worker.seen, &notes, to: band, now: now, worker)
    }
    if let step { _ = try carryOut(step, worker) }
  }
}
