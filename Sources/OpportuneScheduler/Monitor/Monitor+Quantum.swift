internal import COpportune

/// The look at running jobs, once a quantum. Who is demoted is decided by ``PoolPolicy``. (R-CPU-06)
extension Monitor {
  func tick(_ engine: Engine) {
    var inside = false
    var kinds: LockWatch.Kinds = []
    let now = opp_now_ns()
    for pool in engine.pools {
      let rules = rules(of: pool, engine)
      var isInside = false
      for case let worker? in pool.workers {
        let sight = WorkerSight(worker, engine)
        for step in pool.policy.quantumSteps(for: sight.seen, now: now, rules, sight) {
          carryOut(step, sight)
        }
        guard let reading = sight.reading else { continue }
        isInside = true
        kinds.insert(.init(reading.band, depth: worker.depth))
        if pool.demotedWait(engine.core) {
          let sight = WorkerSight(worker, engine, reading, PoolPolicy.Stance(worker.state))
          let step = pool.policy.roomStep(for: sight.seen, now: now, rules, sight)
          if let step { carryOut(step, sight) }
        }
      }
      makeRoomForLoweredOnce(pool, engine)
      resizeIfFlooded(pool, now, engine)
      if pool.pool == .background {
        watch(pool, engine)
      } else if isInside {
        engine.wakeIfReady(pool)  // for a job left to its own worker, whose slice goes on
      }
      // One more look after a flood: else the pool would stay as narrow until the next job.
      inside = inside || isInside || pool.isFlooded
    }
    if inside { armTick() }
    if kinds.mayHoldUpFresh || kinds.mayHoldUpLowered { locks.isThorough = true }
    armLocks(kinds)
    lookAtTargets(engine)
    if now &- lastLimits > 1_000_000_000 {
      lastLimits = now
      engine.readLimits()
      readThreadLimits(engine)
    }
  }

  /// Gives the pool one run token for each CPU where its jobs are many and short, else two.
  private func resizeIfFlooded(_ pool: PoolState, _ now: UInt64, _ engine: Engine) {
    guard pool.pool == .foreground else { return }
    let isFlooded = pool.policy.isFlooded(jobs: pool.ordinaryJobs, now: now)
    guard isFlooded != pool.isFlooded else { return }
    pool.isFlooded = isFlooded
    engine.resize(pool)
  }

  private func makeRoomForLoweredOnce(_ pool: PoolState, _ engine: Engine) {
    guard opp_has_ready(engine.core, pool.loweredOnceMask) else { return }
    if pool.makeExtraRoom(cpuOfWorkers: pool.cpuOfWorkers, quantum: quantum, width: engine.width) {
      engine.wakeIfReady(pool)
    }
  }

  /// Lowers a running job.
  func lower(
    _ worker: Worker, _ reading: WorkerReport.Reading, from known: Int, to depth: Int, _ engine: Engine
  ) {
    let bands = engine.configuration.bands
    let level = bands.level(
      band: reading.band, rank: Int(engine.rank(reading.base, band: reading.band, depth: depth)))
    _ = worker.report.setPriority(
      engine.priority(of: worker.pool.pool, level: level, depth: depth), during: reading)
    if known == 0 { engine.accounts.suspect(originOf: reading.identity, at: opp_now_ns()) }
    let offCPU = worker.pool.policy.offCPU(of: Int(worker.slot), job: reading.sequence)
    if worker.report.deepen(to: depth, offCPU: offCPU, during: reading) {
      app(at: reading.app)?.statistics.add(.demotions, UInt64(depth - known), in: reading.band)
      armLocksIfDue(LockWatch.Kinds(reading.band, depth: depth))
      // Within the job: the next may be a fresh one, and is counted anew.
      if worker.report.whileInside(reading, worker.countOutOfForeground) { leaveForeground(disarms: true) }
    }
  }
}
