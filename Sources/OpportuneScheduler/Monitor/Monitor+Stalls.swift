internal import COpportune

/// Pools in which something waits while all tokens are in use.
extension Monitor {
  /// CPU time at a look, to see whether a worker has run since.
  struct Look {
    let sequence: UInt64
    let cpu: UInt64
    let at: UInt64
    /// It was found to wait for the memory map, and that another may take its place.
    var mayBeReplacedOnMap = false
  }

  /// A pool in which something waits while all tokens are in use: replaces workers that are blocked; if the
  /// others have all been inside their jobs for long, wakes the spare worker.
  func watch(_ pool: PoolState, _ engine: Engine) {
    judgeTrials(pool, engine)
    let fresh = pool.mask & ~pool.demotedMask
    guard opp_has_ready(engine.core, fresh) else { return opp_pool_set_stalled(pool.raw, false) }
    let now = opp_now_ns()
    let progress = pool.workers.reduce(0) { $0 &+ ($1?.report.count ?? 0) }
    if progress != pool.lastProgress { pool.cpuAtProgress = nil }
    let delay = pool.learnReserveDelay(least: spareDelay, quantum: quantum)
    let patience = PoolState.patience(workers: pool.liveWorkers, width: engine.width, delay: delay)
    var flowing = false
    var spare: (Worker, WorkerReport.Reading)?
    for case let worker? in pool.workers {
      let standing = worker.standing
      guard standing == .OPP_SLOT_RUNNING || standing == .OPP_SLOT_SPARE else { continue }
      guard let reading = worker.report.read(), now > reading.start, now - reading.start >= delay else {
        // Between two jobs, or inside a new one; but a spare worker that is slow to start must not hide a
        // stall.
        if standing == .OPP_SLOT_RUNNING { flowing = true }
        continue
      }
      if stayedBlocked(worker, reading, now, engine), now - reading.start >= patience {
        replaceBlocked(worker, reading, engine)
        flowing = true
      } else if judgeSuspect(worker, reading, after: delay, now, engine) {
        flowing = true
      } else if worker.depth > 0, reading.band != .background,
        replace(worker, reading, demoted: true, engine)
          || hasStood(pool, now, engine)
            && replace(worker, reading, demoted: true, engine, why: .OPP_DEMOTION_STARVES)
      {
        // A known hog that was beyond the bound before.
        flowing = true
      } else if standing == .OPP_SLOT_SPARE {
        spare = (worker, reading)
      }
    }
    // The spare worker has been stuck for a quantum too, and no job has begun or ended since the last look:
    // it stays with its job and another takes its place, within the bound of demoted workers. Not earlier:
    // the more hogs share the CPUs, the later the first has used its quantum and is known, and its kin with
    // it.
    if !flowing, let (worker, reading) = spare, progress == pool.lastProgress,
      now - reading.start >= quantum
    {
      replace(worker, reading, demoted: true, engine)
    }
    pool.lastProgress = progress
    let isStalled = !flowing && pool.pool != .background
    opp_pool_set_stalled(pool.raw, isStalled)
    opp_pool_look_at_spare(pool.raw)
    if isStalled, !opp_pool_call_spare(pool.raw) { _ = spawn(pool, engine) }
    opp_pool_watch(pool.raw)
  }

  /// Whether the pool's hogs have had the CPU for so long that each has had several quanta, and none has
  /// ended. It reads the clocks of all workers, hence once a quantum.
  func hasStood(_ pool: PoolState, _ now: UInt64, _ engine: Engine) -> Bool {
    guard pool.cpuAtProgress == nil || now &- pool.stoodLookAt >= quantum else { return false }
    pool.stoodLookAt = now
    let total = cpuOfWorkers(pool)
    guard let begun = pool.cpuAtProgress else {
      pool.cpuAtProgress = total
      return false
    }
    return total > begun + 4 * quantum * UInt64(pool.demotedCount + engine.width)
  }

  /// The CPU time of the pool's workers so far, nanoseconds.
  func cpuOfWorkers(_ pool: PoolState) -> UInt64 {
    pool.workers.reduce(0) { total, worker in
      total &+ (worker?.report.cpuTime ?? 0)
    }
  }

  /// Whether the worker is blocked and has hardly run since the last look, and another in its place would
  /// help. On the lock of the memory map it helps the jobs that do not need the lock; but with each more
  /// there is one more thread to wait for it, and to keep from the CPU who holds it. (docs/decisions/0016)
  func stayedBlocked(_ worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64, _ engine: Engine)
    -> Bool
  {
    guard let meter = worker.report.meter, let cpu = worker.report.cpuTime else { return false }
    let last = lookedAt.updateValue(
      Look(sequence: reading.sequence, cpu: cpu, at: now), forKey: ObjectIdentifier(worker))
    guard let last, last.sequence == reading.sequence, (cpu &- last.cpu) * 20 < now &- last.at else {
      return false
    }
    switch engine.isBlocked(meter) {
    case OPP_BLOCKED: return true
    // Background that has no CPU holds the kernel's locks for long; more of it would only hold them longer.
    case OPP_BLOCKED_IN_KERNEL:
      return worker.pool.pool != .background || worker.pool.liveWorkers <= 2 * engine.width
    case OPP_BLOCKED_ON_MEMORY_MAP: return mayBeReplacedOnMap(worker, engine)
    default: return false
    }
  }

  /// Whether fewer of its pool wait there, replaced, than may work at once.
  private func mayBeReplacedOnMap(_ worker: Worker, _ engine: Engine) -> Bool {
    guard worker.pool.pool != .background else { return false }
    let others = worker.pool.workers.count { other in
      guard let other, other !== worker, let look = lookedAt[ObjectIdentifier(other)], look.mayBeReplacedOnMap
      else {
        return false
      }
      return other.isHandedOff && other.report.read()?.sequence == look.sequence
        && other.report.meter.map(engine.isBlocked) == OPP_BLOCKED_ON_MEMORY_MAP
    }
    guard others < engine.width else { return false }
    lookedAt[ObjectIdentifier(worker)]?.mayBeReplacedOnMap = true
    return true
  }
}
