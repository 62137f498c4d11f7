internal import COpportune

/// The look at running jobs, once a quantum: demotes those that have used up their quantum. (R-CPU-06)
extension Monitor {
  /// The monitor's record of a running job between two looks.
  struct Seen {
    let sequence: UInt64
    /// The depth at the first look, and the depth now.
    let first: Int
    var depth: Int
    /// Voluntary context switches at the last look.
    var switches: Int64
    /// `offCPU` is the time off the CPU without waiting for a CPU, in nanoseconds, as far as known. `nothing`
    /// is the zero point of that measurement; see `look`.
    var offCPU: UInt64 = 0
    var nothing: Int64 = 0
    /// CPU time and time off the CPU at the last look that found the job to have blocked.
    var judgedCPU: UInt64 = 0
    var judgedOff: UInt64 = 0
  }

  func tick(_ engine: Engine) {
    var inside = false
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
    if inside {
      armTick()
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
    guard let meter = worker.report.meter else { return }
    let key = ObjectIdentifier(worker)
    var usage = opp_thread_usage()
    guard opp_thread_meter_read(meter, &usage) == 0 else { return }
    let switches = opp_thread_meter_voluntary_switches(meter)
    var known =
      seen[key].flatMap { $0.sequence == reading.sequence ? $0 : nil }
      ?? Seen(
        sequence: reading.sequence, first: reading.depth, depth: max(reading.depth, worker.depth),
        switches: reading.switchesBefore)
    let wall = now > reading.start ? now - reading.start : 0
    let used = min(wall, usage.cpu_ns &- reading.cpuBefore)
    // Time off the CPU is wall-clock time minus CPU time minus run-queue wait. The kernel adds a wait only
    // when the wait is over, so the difference has errors. It is too high while the thread waits for a CPU.
    // It is too low, even negative, if the thread waited when the slice began. Two corrections follow: the
    // lowest value seen is the zero point (`nothing`), and the value does not rise without a voluntary
    // context switch since the last look, because the thread was not blocked then.
    let uncounted = Int64(wall - used) - Int64(clamping: usage.wait_ns &- reading.waitBefore)
    known.nothing = min(known.nothing, uncounted)
    let off = UInt64(clamping: uncounted - known.nothing)
    known.offCPU = switches != known.switches ? off : min(off, known.offCPU)
    known.switches = switches
    known.judgedOff = min(known.judgedOff, known.offCPU)
    if Double(known.offCPU - known.judgedOff)
      > engine.configuration.quantum.offCPUShare
      * Double(max(quantum, used.saturatingSubtract(known.judgedCPU)))
    {
      (known.judgedCPU, known.judgedOff) = (used, known.offCPU)
    }
    let (cpu, offCPU) = (used.saturatingSubtract(known.judgedCPU), known.offCPU - known.judgedOff)
    defer { seen[key] = known }
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
    guard isCounted ? !pool.hasRoom(.OPP_DEMOTION_KNOWN) : state == .OPP_SLOT_RUNNING, now > reading.start,
      stayedBlocked(worker, reading, now, engine),
      now - reading.start
        >= PoolState.patience(workers: pool.liveWorkers, width: engine.width, delay: spareDelay)
    else { return }
    guard isCounted else { return replaceBlocked(worker, reading, engine) }
    if worker.report.isStillInside(reading), opp_worker_uncount(worker.raw) == .OPP_HANDED_OFF {
      letAnotherWork(pool, engine)
    }
  }
}
