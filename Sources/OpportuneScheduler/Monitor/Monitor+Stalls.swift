internal import COpportune

/// Stalled pools: something waits while all run tokens are in use.
extension Monitor {
  /// The monitor's last look at a worker; its CPU time shows whether the worker has run since.
  struct Look {
    let sequence: UInt64
    let cpu: UInt64
    let at: UInt64
    /// The worker was runnable when its CPU time was this.
    var waitsForCPU = false
    /// The worker waited for the lock of the memory map, and was allowed to be replaced for that.
    var mayBeReplacedOnMap = false
  }

  /// Looks at a pool in which something waits while all run tokens are in use. It replaces blocked workers.
  /// If all other workers have been inside their jobs for long, it wakes the spare worker.
  func watch(_ pool: PoolState, _ engine: Engine) {
    judgeTrials(pool, engine)
    let fresh = pool.mask & ~pool.demotedMask
    guard opp_has_ready(engine.core, fresh) else { return opp_pool_set_stalled(pool.raw, false) }
    let now = opp_now_ns()
    let progress = pool.workers.reduce(0) { $0 &+ ($1?.report.count ?? 0) }
    if progress != pool.lastProgress { pool.cpuAtProgress = nil }
    let delay = pool.learnSpareDelay(least: spareDelay, quantum: quantum)
    let patience = PoolState.patience(workers: pool.liveWorkers, width: engine.width, delay: delay)
    var flowing = false
    var spare: (Worker, WorkerReport.Reading)?
    for case let worker? in pool.workers {
      let state = worker.state
      guard state == .OPP_SLOT_RUNNING || state == .OPP_SLOT_SPARE else { continue }
      guard let reading = worker.report.read(), now > reading.start, now - reading.start >= delay else {
        // The worker is between two jobs or inside a new one, so the pool makes progress. A spare worker that
        // has not begun yet does not count as progress: it would hide a stall.
        if state == .OPP_SLOT_RUNNING { flowing = true }
        continue
      }
      if hasHardlyRun(worker, reading, now), now - reading.start >= patience, isBlocked(worker, engine) {
        replaceBlocked(worker, reading, engine)
        flowing = true
      } else if judgeSuspect(worker, reading, after: delay, now, engine) {
        flowing = true
      } else if yieldIfLong(worker, reading, after: PoolState.lengthToYield(spareDelay: delay), engine) {
        flowing = true
      } else if worker.depth > 0, reading.band != .background,
        replace(worker, reading, demoted: true, engine)
          || isStarved(pool, now, engine)
            && replace(worker, reading, demoted: true, engine, why: .OPP_DEMOTION_STARVES)
      {
        // A known hog that had exceeded the limit of demoted workers at an earlier look.
        flowing = true
      } else if state == .OPP_SLOT_SPARE {
        spare = (worker, reading)
      }
    }
    // The spare worker has been inside its job for a quantum too, and no job has begun or ended since the
    // last look. It is counted as demoted, and another becomes the spare worker, within the limit of demoted
    // workers. Doing so earlier would be worse: the more hogs share the CPUs, the longer each takes to use
    // its quantum and become known.
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

  /// Whether the pool is starved: its hogs have had the CPU for several quanta each, and none has ended.
  /// Reads the clocks of all workers, hence at most once a quantum.
  func isStarved(_ pool: PoolState, _ now: UInt64, _ engine: Engine) -> Bool {
    guard pool.cpuAtProgress == nil || now &- pool.starvedLookAt >= quantum else { return false }
    pool.starvedLookAt = now
    let total = cpuOfWorkers(pool)
    guard let begun = pool.cpuAtProgress else {
      pool.cpuAtProgress = total
      return false
    }
    return total > begun + 4 * quantum * UInt64(pool.demotedCount + engine.width)
  }

  /// The total CPU time of the pool's workers, in nanoseconds.
  func cpuOfWorkers(_ pool: PoolState) -> UInt64 {
    pool.workers.reduce(0) { total, worker in
      total &+ (worker?.report.cpuTime ?? 0)
    }
  }

  /// Whether the worker has hardly run since the last look at it. Asks the kernel for a clock and for nothing
  /// else: what the thread waits for is asked where a replacement may follow.
  func hasHardlyRun(_ worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64) -> Bool {
    guard let cpu = worker.report.cpuTime else { return false }
    var look = Look(sequence: reading.sequence, cpu: cpu, at: now)
    let last = lookedAt[ObjectIdentifier(worker)]
    // Who waited for a CPU cannot have blocked without having had one.
    look.waitsForCPU = last.map { $0.waitsForCPU && $0.sequence == look.sequence && $0.cpu == cpu } ?? false
    lookedAt[ObjectIdentifier(worker)] = look
    guard let last, last.sequence == reading.sequence else { return false }
    return (cpu &- last.cpu) * 20 < now &- last.at
  }

  /// Whether the worker, which has hardly run since the last look, is blocked, and a replacement would help.
  ///
  /// A worker that waits for the lock of the memory map is a special case (docs/decisions/0016). A
  /// replacement helps jobs that do not need the lock. But each further worker may wait for the lock too, and
  /// may preempt the lock's holder.
  func isBlocked(_ worker: Worker, _ engine: Engine) -> Bool {
    let key = ObjectIdentifier(worker)
    guard let meter = worker.report.meter, lookedAt[key]?.waitsForCPU != true else { return false }
    switch engine.isBlocked(meter) {
    case 0:
      lookedAt[key]?.waitsForCPU = true
      return false
    case OPP_BLOCKED: return true
    // Background threads that get no CPU hold kernel locks for long; more of them would hold more.
    case OPP_BLOCKED_IN_KERNEL:
      return worker.pool.pool != .background || worker.pool.liveWorkers <= 2 * engine.width
    case OPP_BLOCKED_ON_MEMORY_MAP: return mayBeReplacedOnMap(worker, engine)
    default: return false
    }
  }

  /// Whether the number of replaced workers of this pool that wait for the memory map is below the width.
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
