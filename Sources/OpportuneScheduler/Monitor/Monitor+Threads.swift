internal import COpportune

/// Threads that are few: how many there may be, how the pools share them, and that it is said.
extension Monitor {
  /// Of each pool one after the other, the foreground before the background, so that each has some where
  /// there are few.
  func startWorkers(_ engine: Engine) {
    for number in 0...engine.width {
      for pool in engine.pools where pool.liveWorkers == number { _ = spawn(pool, engine) }
    }
  }

  /// Whether another worker may be tried: the pool's share of the threads is not used up, and the kernel has
  /// not just refused one.
  func mayStart(in pool: PoolState) -> Bool {
    pool.liveWorkers < pool.mostWorkers && opp_now_ns() >= pool.startsFrom
  }

  /// Learns what the kernel says of threads now, and has some more tried than it gave when it refused one.
  func followThreadLimits(_ engine: Engine) {
    threadLimits = engine.readThreadLimits()
    let ownIsStarted = isSetUp.load(ordering: .relaxed)
    predictedWorkers = threadLimits.room.map {
      ThreadShares.total(room: ownIsStarted ? $0 : max(0, $0 - 1), live: live)
    }
    provenWorkers = provenWorkers.map { $0 + max(1, $0 / 4) }
    shareThreads(engine)
  }

  var isUnlimited: Bool { predictedWorkers == nil && provenWorkers == nil }

  /// Gives each pool its share of the workers that can be had.
  func shareThreads(_ engine: Engine) {
    let total = [predictedWorkers, provenWorkers].compactMap(\.self).min() ?? .max
    let shares = ThreadShares(of: total, among: Set(engine.pools.map(\.pool)), width: engine.width)
    for pool in engine.pools {
      let most = shares.workers[pool.pool] ?? ThreadShares.fewest
      // Another pool may hold some of its share still.
      let attainable = min(most, pool.liveWorkers + max(0, total - live))
      if pool.share(most: most, attainable: attainable) { engine.resize(pool) }
    }
    warnOfThreads(engine)
  }

  /// Once: what it says is true until the limit is raised.
  private func warnOfThreads(_ engine: Engine) {
    guard !hasWarnedOfThreads, predictedWorkers != nil,
      engine.pools.contains(where: { $0.isShort(width: engine.width, engine.configuration) })
    else { return }
    hasWarnedOfThreads = true
    let workers = engine.pools.map { "\($0.mostWorkers) \($0.pool)" }.joined(separator: ", ")
    engine.log(
      .warning, "few threads are allowed: fewer long and blocked jobs run beside the others",
      ["limits": "\(threadLimits)", "workers": "\(workers)"])
  }
}
