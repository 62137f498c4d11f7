internal import COpportune

/// The look at running jobs, once a quantum: demotes those that have used up their quantum. (R-CPU-06)
extension Monitor {
  /// The monitor's record of a running job between two looks.
  struct Seen {
    let sequence: UInt64
    /// The depth at the first look, and the depth now.
    let first: Int
    var depth: Int
    /// Time off the CPU, to tell a job that blocks from a hog.
    var time: OffCPUTime

    init(sequence: UInt64, first: Int, depth: Int, switches: Int64) {
      (self.sequence, self.first, self.depth) = (sequence, first, depth)
      time = OffCPUTime(switches: switches)
    }
  }

  func tick(_ engine: Engine) {
    var inside = false
    var (hasUpper, hasLower) = (false, false)
    let now = opp_now_ns()
    for pool in engine.pools {
      var isInside = false
      for case let worker? in pool.workers {
        guard let reading = worker.report.read() else {
          seen[ObjectIdentifier(worker)] = nil
          continue
        }
        isInside = true
        if reading.band != .background { look(at: worker, reading, now, engine) }
        hasUpper = hasUpper || reading.band != .background
        hasLower = hasLower || reading.band == .background || worker.depth > 0
        if pool.demotedWait(engine.core) { makeRoomIfBlocked(worker, reading, now, engine) }
      }
      makeRoomForLoweredOnce(pool, engine)
      if pool.pool == .background {
        watch(pool, engine)
      } else if isInside {
        engine.wakeIfReady(pool)  // for a job left to its own worker, whose slice goes on
      }
      inside = inside || isInside
    }
    if inside { armTick() }
    if hasUpper, hasLower {
      locks.isThorough = true
      armLocks()
    }
    lookAtTargets(engine)
    if now &- lastLimits > 1_000_000_000 {
      lastLimits = now
      engine.followLimits()
      followThreadLimits(engine)
    }
  }

  private func makeRoomForLoweredOnce(_ pool: PoolState, _ engine: Engine) {
    guard opp_has_ready(engine.core, pool.loweredOnceMask) else { return }
    if pool.makeExtraRoom(cpuOfWorkers: cpuOfWorkers(pool), quantum: quantum, width: engine.width) {
      engine.wakeIfReady(pool)
    }
  }

  /// Demotes a running job that has used up its quantum. (R-CPU-06)
  func look(at worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64, _ engine: Engine) {
    guard let meter = worker.report.meter, let clock = worker.report.cpuTime else { return }
    let key = ObjectIdentifier(worker)
    var known =
      seen[key].flatMap { $0.sequence == reading.sequence ? $0 : nil }
      ?? Seen(
        sequence: reading.sequence, first: reading.depth, depth: max(reading.depth, worker.depth),
        switches: reading.switchesBefore)
    defer { seen[key] = known }
    let wall = now > reading.start ? now - reading.start : 0
    let rule = OffCPUTime.Rule(quantum: quantum, share: engine.configuration.quantum.offCPUShare)
    // Each reading costs several times the one before, so each is made only where the answer may depend on
    // it.
    guard known.time.mayMatter(used: min(wall, clock &- reading.cpuBefore), wall: wall, by: rule) else {
      return
    }
    var usage = opp_thread_usage()
    guard opp_thread_meter_read(meter, &usage) == 0 else { return }
    let used = min(wall, usage.cpu_ns &- reading.cpuBefore)
    known.time.look(
      used: used, wall: wall, waited: usage.wait_ns &- reading.waitBefore, by: rule,
      switches: { opp_thread_meter_voluntary_switches(meter) })
    let (cpu, offCPU) = (known.time.cpu(used: used), known.time.offCPU)
    guard cpu >= quantum else { return }
    // A demoted foreground hog in the background pool must not keep its run token from background work. (law
    // 3)
    if worker.pool.pool == .background, opp_has_ready(engine.core, worker.pool.mask) {
      replace(worker, reading, demoted: true, engine)
    }
    let depth = engine.accounts.depth(
      ofRunning: reading.identity, from: known.first, cpu: cpu, offCPU: offCPU,
      base: Int(engine.rank(reading.base, band: reading.band, depth: 0)), band: reading.band)
    if depth > 0 { recount(worker, reading, engine) }
    guard depth > known.depth else { return }
    lower(worker, reading, from: known.depth, to: depth, now, engine)
    known.depth = depth
  }

  /// Lowers a fresh job of a suspected origin before it has used up its quantum, if something waits behind
  /// it. The job must have had the CPU for `delay`, which is longer than the pool's jobs ordinarily take.
  /// Returns false if the job is not such a job.
  func judgeSuspect(
    _ worker: Worker, _ reading: WorkerReport.Reading, after delay: UInt64, _ now: UInt64, _ engine: Engine
  ) -> Bool {
    guard worker.depth == 0, reading.band != .background, engine.accounts.isSuspected(reading.identity) else {
      return false
    }
    guard let cpu = worker.report.cpuTime, cpu.saturatingSubtract(reading.cpuBefore) >= delay else {
      return false
    }
    let key = ObjectIdentifier(worker)
    if var known = seen[key], known.sequence == reading.sequence {
      known.depth = 1
      seen[key] = known
    }
    return lower(worker, reading, from: 0, to: 1, now, engine)
  }

  /// Has a fresh job that has had the CPU for `length` go on beside the run tokens, so that fresh work that
  /// waits begins before the job's quantum has ended. The job keeps its level and its weight; but it gets the
  /// slice of demoted work, so whoever wakes runs first. Returns false if the job is not such a job, or keeps
  /// its run token. (R-CPU-02, docs/decisions/0032)
  func yieldIfLong(
    _ worker: Worker, _ reading: WorkerReport.Reading, after length: UInt64, _ engine: Engine
  ) -> Bool {
    guard worker.pool.pool == .foreground, worker.depth == 0, reading.band == .foreground,
      !reading.isRealTime || worker.report.hasLeftClass(during: reading),
      let cpu = worker.report.cpuTime, cpu.saturatingSubtract(reading.cpuBefore) >= length
    else { return false }
    _ = worker.report.setPriority(.longForeground(engine.privileges), during: reading)
    guard replace(worker, reading, demoted: true, engine) else { return false }
    worker.pool.yielded.add(1, ordering: .relaxed)  // a statistic
    return true
  }

  /// Ends the trial of each job that has used the CPU for longer than the pool's jobs ordinarily do: it
  /// continues at the kernel priority of demoted work.
  func judgeTrials(_ pool: PoolState, _ engine: Engine) {
    var goesOn = false
    for case let worker? in pool.workers where worker.isOnTrial {
      // The worker may be about to begin the job.
      guard let reading = worker.report.read(), let cpu = worker.report.cpuTime,
        cpu.saturatingSubtract(reading.cpuBefore) >= max(pool.spareDelay, spareDelay)
      else {
        goesOn = true
        continue
      }
      let level = engine.configuration.bands.level(band: reading.band, rank: reading.rank)
      _ = worker.report.setPriority(
        engine.priority(of: pool.pool, level: level, depth: reading.depth), during: reading)
      engine.accounts.suspect(originOf: reading.identity, at: opp_now_ns())
      if worker.report.isStillInside(reading) { worker.endTrial() }
    }
    if goesOn { opp_pool_watch(pool.raw) }
  }

  /// Lowers a running job and hands its run token to another worker. Returns false if the worker keeps the
  /// run token.
  @discardableResult private func lower(
    _ worker: Worker, _ reading: WorkerReport.Reading, from known: Int, to depth: Int, _ now: UInt64,
    _ engine: Engine
  ) -> Bool {
    let bands = engine.configuration.bands
    let level = bands.level(
      band: reading.band, rank: Int(engine.rank(reading.base, band: reading.band, depth: depth)))
    _ = worker.report.setPriority(
      engine.priority(of: worker.pool.pool, level: level, depth: depth), during: reading)
    if known == 0 { engine.accounts.suspect(originOf: reading.identity, at: now) }
    if worker.report.deepen(to: depth, during: reading) {
      app(at: reading.app)?.statistics.add(.demotions, UInt64(depth - known), in: reading.band)
    }
    return replace(worker, reading, demoted: true, engine)
  }

  /// Counts a worker among the demoted whose job was replaced because it blocked, and has used up a quantum
  /// since. This may exceed the limit of demoted workers. Without it, hogs that had blocked once would run
  /// beside the counted ones without limit.
  func recount(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) {
    // Foreground work in the background pool whose app has moved to another pool is counted in neither.
    guard worker.state == .OPP_SLOT_HANDED_OFF, let app = reading.app,
      opp_app_state_read(app).band == reading.band.rawValue, worker.report.isStillInside(reading)
    else { return }
    if opp_worker_count(worker.raw) == .OPP_HANDED_LATE { letAnotherWork(worker.pool, engine) }
  }

  /// Lets demoted work that waits begin in place of a blocked worker, since the blocked job may wait for that
  /// work. A worker with a run token is replaced here too: watch() does so only where fresh work waits.
  func makeRoomIfBlocked(_ worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64, _ engine: Engine) {
    let (pool, state) = (worker.pool, worker.state)
    let isCounted = state == .OPP_SLOT_DEMOTED || state == .OPP_SLOT_SUNK
    let patience = PoolState.patience(workers: pool.liveWorkers, width: engine.width, delay: spareDelay)
    guard isCounted ? !pool.hasRoom(.OPP_DEMOTION_KNOWN) : state == .OPP_SLOT_RUNNING, now > reading.start,
      hasHardlyRun(worker, reading, now), now - reading.start >= patience, isBlocked(worker, engine)
    else { return }
    guard isCounted else { return replaceBlocked(worker, reading, engine) }
    if worker.report.isStillInside(reading), opp_worker_uncount(worker.raw) == .OPP_HANDED_OFF {
      letAnotherWork(pool, engine)
    }
  }
}
