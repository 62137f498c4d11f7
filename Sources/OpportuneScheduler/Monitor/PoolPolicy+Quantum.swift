internal import OpportuneBase

/// The look at running jobs, once a quantum: those that have used up their quantum are demoted. (R-CPU-06)
extension PoolPolicy {
  /// A running job between two looks.
  struct Running: Sendable {
    let sequence: UInt64
    /// The depth at the first look, and the depth now.
    let first: Int
    var depth: Int
    /// Time off the CPU, to tell a job that blocks from a hog.
    var time: OffCPUTime

    init(_ job: Job, depth: Int) {
      (sequence, first) = (job.sequence, job.depth)
      self.depth = max(job.depth, depth)
      time = OffCPUTime(switches: job.switchesBefore)
    }
  }

  /// Looks at the job that a worker is inside of. The steps are carried out in this order, whichever of them
  /// are refused.
  package mutating func quantumSteps(
    for worker: Seen, now: UInt64, _ rules: Rules, _ sight: some PoolSight
  ) -> [Step] {
    let slot = worker.slot
    guard let job = worker.job else {
      running[slot] = nil
      return []
    }
    guard job.band != .background, let clock = sight.cpuTime else { return [] }
    var known =
      running[slot].flatMap { $0.sequence == job.sequence ? $0 : nil } ?? Running(job, depth: worker.depth)
    defer { running[slot] = known }
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
    if rules.pool == .background, sight.somethingWaits { steps.append(.sink(slot)) }
    let depth = sight.depth(from: known.first, cpu: cpu, offCPU: offCPU)
    // Its job was replaced because it blocked, and has used up a quantum since. This may exceed the limit of
    // demoted workers. Without it, hogs that had blocked once would run beside the counted ones without
    // limit. Foreground work whose app has moved to another pool is counted in neither.
    if depth > 0, worker.stance == .handedOff, sight.bandOfApp == job.band { steps.append(.count(slot)) }
    if depth > known.depth {
      steps.append(.lower(slot, from: known.depth, to: depth))
      known.depth = depth
    }
    return steps
  }

  /// How long the job has been off the CPU, in nanoseconds, as far as such a look has shown.
  package func offCPU(of slot: Int, job sequence: UInt64) -> UInt64 {
    running[slot].flatMap { $0.sequence == sequence ? $0.time.offCPUOfSlice : nil } ?? 0
  }

  /// A job was lowered between two such looks.
  mutating func noteLowered(_ slot: Int, _ job: Job, to depth: Int) {
    if running[slot]?.sequence == job.sequence { running[slot]?.depth = depth }
  }

  // MARK: Extra room

  /// Whether there is to be room for one more job that was lowered once: a hog for each two quanta that the
  /// pool's workers have had the CPUs. Among these jobs may be a short one that is held back for its origin.
  /// For a pool in which such jobs wait without room.
  package mutating func wantsExtraRoom(cpuOfWorkers: UInt64, quantum: UInt64, width: Int) -> Bool {
    let due = cpuAtExtra.saturatingAdd(2 * quantum * UInt64(width))
    if cpuOfWorkers < cpuAtExtra { cpuAtExtra = cpuOfWorkers }  // workers have ended
    return cpuOfWorkers >= due || cpuAtExtra == 0
  }

  /// Room was made.
  package mutating func madeExtraRoom(cpuOfWorkers: UInt64) { cpuAtExtra = cpuOfWorkers }
}
