internal import COpportune

/// Threads that are few: how many there may be, how the lanes share them, and that it is said.
extension Monitor {
  /// Of each lane one after the other, the foreground before the background, so that each has some where there are few.
  func startWorkers(_ engine: Engine) {
    for number in 0...engine.width {
      for lane in engine.lanes where lane.liveWorkers == number { _ = spawn(lane, engine) }
    }
  }

  /// Whether another worker may be tried: the lane's share of the threads is not used up, and the kernel has not just
  /// refused one.
  func mayStart(in lane: LaneState) -> Bool { lane.liveWorkers < lane.mostWorkers && opp_now_ns() >= lane.startsFrom }

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

  /// Gives each lane its share of the workers that can be had.
  func shareThreads(_ engine: Engine) {
    let total = [predictedWorkers, provenWorkers].compactMap(\.self).min() ?? .max
    let shares = ThreadShares(of: total, among: Set(engine.lanes.map(\.lane)), width: engine.width)
    for lane in engine.lanes {
      let most = shares.workers[lane.lane] ?? ThreadShares.fewest
      // Another lane may hold some of its share still.
      let attainable = min(most, lane.liveWorkers + max(0, total - live))
      if lane.share(most: most, attainable: attainable) { engine.resize(lane) }
    }
    warnOfThreads(engine)
  }

  /// Once: what it says is true until the limit is raised.
  private func warnOfThreads(_ engine: Engine) {
    guard !hasWarnedOfThreads, predictedWorkers != nil,
      engine.lanes.contains(where: { $0.isShort(width: engine.width, engine.configuration) })
    else { return }
    hasWarnedOfThreads = true
    let workers = engine.lanes.map { "\($0.mostWorkers) \($0.lane)" }.joined(separator: ", ")
    engine.log(
      .warning, "few threads are allowed: fewer long and blocked jobs run beside the others",
      ["limits": "\(threadLimits)", "workers": "\(workers)"])
  }
}
