internal import COpportune

/// Limits on threads: how many workers may exist, how the pools share them, and the warning about it.
extension Monitor {
  /// How many workers can be had.
  struct ThreadSupply {
    /// The error of the kernel's last refusal of a thread.
    var error: Int32 = 0
    /// The kernel's limits on threads, as far as they can be read beforehand.
    private(set) var limits = ThreadLimits()
    /// What those leave; nil where there is none.
    private var predicted: Int?
    /// The number of workers at the last refusal of a thread, plus some for the time since; nil where none
    /// was refused.
    private var proven: Int?
    private var hasWarned = false

    var isUnlimited: Bool { predicted == nil && proven == nil }
    var total: Int { [predicted, proven].compactMap(\.self).min() ?? .max }

    mutating func refused(_ error: Int32, live: Int) {
      self.error = error
      proven = live
    }

    /// The limits were read anew. After a refusal more starts are tried.
    ///
    /// - Parameter room: for workers, beside `live`; nil is no limit.
    mutating func noteRead(_ limits: ThreadLimits, room: Int?, live: Int) {
      self.limits = limits
      predicted = room.map { ThreadShares.total(room: $0, live: live) }
      proven = proven.map { $0 + max(1, $0 / 4) }
    }

    /// Whether to warn of a shortage. Once: the warning holds until the limit is raised.
    mutating func shouldWarn(isShort: Bool) -> Bool {
      guard !hasWarned, predicted != nil, isShort else { return false }
      hasWarned = true
      return true
    }
  }

  /// Starts workers, one of each pool in turn and the foreground first, so that each pool gets some where
  /// threads are few.
  func startWorkers(_ engine: Engine) {
    for number in 0...2 * engine.width {
      for pool in engine.pools where pool.liveWorkers == number {
        // One more than run tokens: the spare worker.
        guard number <= engine.runTokens(of: pool) else { continue }
        _ = spawn(pool, engine)
      }
    }
  }

  /// Whether another worker may be started: the pool has not used up its share of the threads, and no start
  /// was refused within the current pause.
  func mayStart(in pool: PoolState) -> Bool {
    pool.liveWorkers < pool.mostWorkers && opp_now_ns() >= pool.startsFrom
  }

  /// Reads the kernel's limits on threads anew.
  func readThreadLimits(_ engine: Engine) {
    let limits = engine.readThreadLimits()
    let isOwnStarted = isSetUp.load(ordering: .relaxed)
    threads.noteRead(limits, room: limits.room.map { isOwnStarted ? $0 : max(0, $0 - 1) }, live: live)
    shareThreads(engine)
  }

  /// Gives each pool its share of the workers that can be had.
  func shareThreads(_ engine: Engine) {
    let total = threads.total
    let shares = ThreadShares(of: total, among: Set(engine.pools.map(\.pool)), width: engine.width)
    for pool in engine.pools {
      let most = shares.workers[pool.pool] ?? ThreadShares.fewest
      // Another pool may still hold some of this pool's share.
      let attainable = min(most, pool.liveWorkers + max(0, total - live))
      if pool.share(most: most, attainable: attainable) { engine.resize(pool) }
    }
    let isShort = engine.pools.contains { $0.isShort(width: engine.width, engine.configuration) }
    guard threads.shouldWarn(isShort: isShort) else { return }
    let workers = engine.pools.map { "\($0.mostWorkers) \($0.pool)" }.joined(separator: ", ")
    engine.log(
      .warning, "few threads are allowed: fewer long and blocked jobs run beside the others",
      ["limits": "\(threads.limits)", "workers": "\(workers)"])
  }
}
