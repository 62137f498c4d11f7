internal import COpportune

/// Limits on threads: how many workers may exist, how the pools share them, and the warning about it.
extension Monitor {
  /// Starts workers, one of each pool in turn and the foreground first, so that each pool gets some where
  /// threads are few.
  func startWorkers(_ engine: Engine) {
    for number in 0...2 * engine.width {
      for pool in engine.pools where pool.liveWorkers == number {
        // One more than run tokens: the spare worker.
        guard number <= engine.configuration.runTokens(of: pool.pool, width: engine.width) else { continue }
        _ = spawn(pool, engine)
      }
    }
  }

  /// Whether another worker may be started: the pool has not used up its share of the threads, and no start
  /// was refused within the current pause.
  func mayStart(in pool: PoolState) -> Bool {
    pool.liveWorkers < pool.mostWorkers && opp_now_ns() >= pool.startsFrom
  }

  /// Reads the kernel's limits on threads anew. After a refusal it also raises the proven number of workers,
  /// so that more starts are tried.
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
      // Another pool may still hold some of this pool's share.
      let attainable = min(most, pool.liveWorkers + max(0, total - live))
      if pool.share(most: most, attainable: attainable) { engine.resize(pool) }
    }
    warnOfThreads(engine)
  }

  /// Logs the shortage of threads, once: the warning holds until the limit is raised.
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
