internal import COpportune

/// The looks at pools: once a quantum while jobs run, and where one may be stalled. What is done is decided
/// by ``PoolPolicy`` and carried out by ``WatchedPool``. (R-CPU-06)
extension Monitor {
  func tick(_ engine: Engine) {
    var goesOn = false
    var kinds: LockWatch.Kinds = []
    let now = opp_now_ns()
    for pool in engine.pools {
      var watched = WatchedPool(state: pool, engine: engine, monitor: self)
      let inside = watched.lookAtJobs(now: now)
      kinds.formUnion(inside)
      // One more look after a flood: else the pool would stay as narrow until the next job.
      goesOn = goesOn || !inside.isEmpty || pool.policy.isFlooded
    }
    if goesOn { armTick() }
    if kinds.mayHoldUpFresh || kinds.mayHoldUpLowered { locks.isThorough = true }
    armLocks(kinds)
    lookAtTargets(engine)
    if now &- lastLimits > 1_000_000_000 {
      lastLimits = now
      engine.readLimits()
      readThreadLimits(engine)
    }
  }

  /// Looks at a pool in which something may wait while all run tokens are in use.
  func watch(_ pool: PoolState, _ engine: Engine) {
    var watched = WatchedPool(state: pool, engine: engine, monitor: self)
    watched.lookAtStall(now: opp_now_ns())
  }

  // MARK: Changes of band

  func reclassify(_ engine: Engine) {
    for pool in engine.pools {
      var watched = WatchedPool(state: pool, engine: engine, monitor: self)
      watched.followBands(now: opp_now_ns())
    }
  }

  /// Work of that band waits for the strand or task of that identity.
  func raise(_ identity: UInt64, _ band: Band, _ engine: Engine) {
    for pool in engine.pools {
      var watched = WatchedPool(state: pool, engine: engine, monitor: self)
      for case let worker? in pool.workers {
        guard let reading = worker.report.read(), reading.identity == identity else { continue }
        watched.raise(Int(worker.slot), job: reading.sequence, to: band, now: opp_now_ns())
      }
    }
  }
}
