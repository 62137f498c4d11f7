internal import OpportuneBase

/// The look at running jobs, once a quantum: those that have used up their quantum are demoted. (R-CPU-06)
extension PoolPolicy {
  /// A running job between two looks.
  struct Running: Sendable {
    let sequence: UInt64
    /// The depth at the first look, and the depth now.
    let first: Int
    var depth: Int
    /// Time off the CPU, to tell a job that blocks from a hog; and what there was before the job came to
    /// another band.
    var time: OffCPUTime
    let offBefore: UInt64

    init(_ job: Job, depth: Int, offBefore: UInt64) {
      (sequence, first) = (job.sequence, job.depth)
      self.depth = max(job.depth, depth)
      (time, self.offBefore) = (OffCPUTime(switches: job.switchesBefore), offBefore)
    }
  }

  /// Looks at the job that a worker is inside of. The steps are carried out in this order, whichever of them
  /// are refused.
  package func quantumSteps(
    for worker: Seen, _ notes: inout Notes, now: UInt64, _ sight: some WorkerSight
  ) -> [Step] {
    let (slot, rules) = (worker.slot, sight.pool.rules)
    guard let job = worker.job else {
      notes.running = nil
      return []
    }
    guard job.band != .background, let clock = sight.cpuTime else { return [] }
    var known = notes.running(job, depth: worker.depth)
    defer { notes.running = known }
    let wall = now > job.start ? now - job.start : 0
    // Each reading costs several times the one before, so each is made only where the answer may depend on
    // it.
    guard known.time.mayMatter(used: min(wall, clock &- job.cpuBefore), wall: wall, by: rules.blocking),
      let usage = sight.usage
    else { return [] }
    let used = min(wall, usage.cpu &- job.cpuBefore)
    known.time.look(
      used: used, wall: wall, waited: usage.wait &- job.waitBefore, by: rules.blocking,
      switches: { sight.switches })
    let (cpu, offCPU) = (known.time.cpu(used: used), known.time.offCPU)
    guard cpu >= rules.quantum else { return [] }
    var steps: [Step] = []
    // A demoted foreground hog in the background pool must not keep its run token from background work. (law
    // 3)
    if rules.pool == .background, sight.pool.somethingWaits { steps.append(.sink(slot)) }
    let depth = sight.depth(from: known.first, cpu: cpu, offCPU: offCPU)
    // Its job was replaced because it blocked, and has used up a quantum since. This may exceed the limit of
    // demoted workers. Without it, hogs that had blocked once would run beside the counted ones without
    // limit. Foreground work whose app has moved to another pool is counted in neither.
    if depth > 0, worker.stance == .handedOff, !sight.isOfAnotherPool(in: job.band) {
      steps.append(.count(slot))
    }
    if depth > known.depth {
      steps.append(.lower(slot, from: known.depth, to: depth))
      known.depth = depth
      notes.change?.isAsFresh = false
    }
    return steps
  }

  // MARK: Extra room

  /// Whether there is to be room for one more job that was lowered once, where such jobs wait and have none:
  /// a hog for each two quanta that the pool's workers have had the CPUs. Among these jobs may be a short one
  /// that is held back for its origin.
  package mutating func extraRoomStep(for pool: some PoolSight) -> Step? {
    guard pool.loweredOnceWaits, !pool.hasRoomForLoweredOnce else { return nil }
    let (cpu, rules) = (pool.cpuOfWorkers, pool.rules)
    cpuAtRoomLook = cpu
    let due = cpuAtExtra.saturatingAdd(2 * rules.quantum * UInt64(rules.width))
    if cpu < cpuAtExtra { cpuAtExtra = cpu }  // workers have ended
    return cpu >= due || cpuAtExtra == 0 ? .addRoom : nil
  }

  /// Room was made as that had said.
  package mutating func madeExtraRoom() { cpuAtExtra = cpuAtRoomLook }
}

extension PoolPolicy.Notes {
  /// How long the job has been off the CPU, in nanoseconds, as far as looks once a quantum have shown.
  package func offCPU(job sequence: UInt64) -> UInt64 {
    if let running, running.sequence == sequence { return running.offBefore + running.time.offCPUOfSlice }
    return change.flatMap { $0.job.sequence == sequence ? $0.offBefore : nil } ?? 0
  }

  fileprivate func running(_ job: PoolPolicy.Job, depth: Int) -> PoolPolicy.Running {
    running.flatMap { $0.sequence == job.sequence ? $0 : nil }
      ?? PoolPolicy.Running(job, depth: depth, offBefore: change(of: job)?.offBefore ?? 0)
  }

  /// A job was lowered between two such looks.
  mutating func wasLowered(_ job: PoolPolicy.Job, to depth: Int) {
    if running?.sequence == job.sequence { running?.depth = depth }
    change?.isAsFresh = false
  }
}
