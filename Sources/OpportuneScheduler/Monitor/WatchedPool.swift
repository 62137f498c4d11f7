internal import COpportune

/// A pool of threads as the monitor looks at it: shows it to ``PoolPolicy``, and carries out what that says.
struct WatchedPool: PolicedPool {
  typealias Failure = Never
  let state: PoolState
  let engine: Engine
  let monitor: Monitor

  var policy: PoolPolicy {
    get { state.policy }
    nonmutating set { state.policy = newValue }
  }

  var rules: PoolPolicy.Rules {
    PoolPolicy.Rules(
      pool: state.pool, width: engine.width, quantum: monitor.quantum, spareDelay: monitor.spareDelay,
      offCPUShare: engine.configuration.quantum.offCPUShare)
  }

  // MARK: What is seen

  var slots: Range<Int> { state.workers.indices }
  func worker(_ slot: Int) -> WatchedWorker? { state.workers[slot].map { WatchedWorker($0, in: self) } }
  func notes(of slot: Int) -> PoolPolicy.Notes { state.workers[slot]?.notes.pool ?? PoolPolicy.Notes() }
  func setNotes(of slot: Int, to notes: PoolPolicy.Notes) { state.workers[slot]?.notes.pool = notes }

  var workerCount: Int { state.liveWorkers }
  var demotedCount: Int { state.demotedCount }
  var progress: UInt64 { state.progress }
  var ordinaryJobs: (count: UInt64, time: UInt64) { state.ordinaryJobs }
  var cpuOfWorkers: UInt64 { state.cpuOfWorkers }
  var hasRoomForKnown: Bool { state.hasRoom(.OPP_DEMOTION_KNOWN) }
  var hasRoomForLoweredOnce: Bool { state.hasRoom(.OPP_DEMOTION_ONCE) }
  var somethingWaits: Bool { opp_has_ready(engine.core, state.mask) }
  var freshWaits: Bool { opp_has_ready(engine.core, state.mask & ~state.demotedMask) }
  var demotedWaits: Bool { hasReady(state.demotedMask) }
  var loweredOnceWaits: Bool { hasReady(state.loweredOnceMask) }

  private func hasReady(_ levels: UInt64) -> Bool { levels != 0 && opp_has_ready(engine.core, levels) }

  // MARK: What is done

  func carryOut(_ step: PoolPolicy.Step, _ worker: WatchedWorker?) -> Bool {
    switch step {
    case .setStalled(let isStalled): opp_pool_set_stalled(state.raw, isStalled)
    case .lookAtSpare: opp_pool_look_at_spare(state.raw)
    case .callSpare: if !opp_pool_call_spare(state.raw) { _ = monitor.spawn(state, engine) }
    case .watchAgain: opp_pool_watch(state.raw)
    case .addRoom:
      guard opp_pool_add_room(state.raw) else { return false }
      engine.wakeIfReady(state)
    case .setFlooded: engine.resize(state)
    case .wakeIfReady: engine.wakeIfReady(state)
    case .replaceBlocked, .lower, .yield, .sink, .sinkStarving, .uncount, .count, .endTrial, .setBand,
      .leavePool:
      guard let worker, let reading = worker.reading else { return false }
      return carryOut(step, worker, reading)
    }
    return true
  }

  private func carryOut(
    _ step: PoolPolicy.Step, _ watched: WatchedWorker, _ reading: WorkerReport.Reading
  ) -> Bool {
    let worker = watched.worker
    let room = PoolPolicy.room(for: step, in: state.pool)
    switch step {
    case .replaceBlocked:
      // If the job has ended meanwhile, that is as good.
      guard replace(worker, reading) else { return !worker.report.isStillInside(reading) }
      state.replaced.add(1, ordering: .relaxed)  // a statistic
    case .lower(_, let from, let to):
      lower(watched, reading, from: from, to: to)
      return replace(worker, reading, in: room)
    case .yield:
      guard replace(worker, reading, in: room) else { return false }
      _ = worker.report.setPriority(.longForeground(engine.privileges), during: reading)
      state.yielded.add(1, ordering: .relaxed)  // a statistic
    case .sink, .sinkStarving: return replace(worker, reading, in: room)
    case .leavePool: return replace(worker, reading)
    case .uncount:
      if worker.report.isStillInside(reading), opp_worker_uncount(worker.raw) == .OPP_HANDED_OFF {
        letAnotherWork()
      }
    case .count:
      if worker.report.isStillInside(reading), opp_worker_count(worker.raw) == .OPP_HANDED_LATE {
        letAnotherWork()
      }
    case .setBand(_, let band, let depth):
      return setPriority(of: worker, reading, band, rank: reading.rank, depth: depth)
    case .endTrial:
      _ = setPriority(of: worker, reading, watched.band, rank: reading.rank, depth: watched.seen.depth)
      engine.accounts.suspect(originOf: reading.identity, at: opp_now_ns())
      if worker.report.isStillInside(reading) { worker.endTrial() }
    case .setStalled, .lookAtSpare, .callSpare, .watchAgain, .addRoom, .setFlooded, .wakeIfReady:
      break  // about the pool
    }
    return true
  }

  /// Lets another worker take the token of the one that is inside `reading`, which is counted among the
  /// demoted, if there is such room, or goes on uncounted. Returns false if it keeps its token.
  private func replace(
    _ worker: Worker, _ reading: WorkerReport.Reading, in room: PoolPolicy.Room? = nil
  ) -> Bool {
    // Without a worker to take the place, each later submission would try in vain to wake one.
    guard worker.report.isStillInside(reading),
      opp_pool_sleeping(state.raw) > 0 || monitor.mayStart(in: state)
    else { return false }
    let handed = room.map { opp_worker_sink(worker.raw, opp_demotion($0)) } ?? opp_worker_hand_off(worker.raw)
    if handed != .OPP_HANDED_NOT { letAnotherWork() }
    return handed == .OPP_HANDED_OFF
  }

  /// Provides workers after a run token has come free. Other workers may have parked while it was counted as
  /// in use for a moment. One worker is woken for what waits; one is started for later work if none is
  /// parked.
  private func letAnotherWork() {
    engine.wakeIfReady(state)
    if opp_pool_sleeping(state.raw) == 0 { _ = monitor.spawn(state, engine) }
  }

  /// Gives the thread the priority of such a job. Returns false where the job has ended, or it is refused.
  private func setPriority(
    of worker: Worker, _ reading: WorkerReport.Reading, _ band: Band, rank: Int, depth: Int
  ) -> Bool {
    let level = engine.configuration.bands.level(band: band, rank: rank)
    return worker.report.setPriority(
      engine.priority(of: state.pool, level: level, depth: depth), during: reading)
  }

  /// Lowers a running job.
  private func lower(
    _ watched: WatchedWorker, _ reading: WorkerReport.Reading, from known: Int, to depth: Int
  ) {
    let (worker, band) = (watched.worker, watched.band)
    let rank = Int(engine.rank(reading.base, band: band, depth: depth))
    _ = setPriority(of: worker, reading, band, rank: rank, depth: depth)
    if known == 0 { engine.accounts.suspect(originOf: reading.identity, at: opp_now_ns()) }
    let offCPU = worker.notes.pool.offCPU(job: reading.sequence)
    // It may have been deeper before somebody waited for it: what it submits starts there.
    guard worker.report.deepen(to: max(depth, worker.depth), offCPU: offCPU, during: reading) else { return }
    monitor.app(of: reading.app)?.statistics.add(.demotions, UInt64(depth - known), in: band)
    monitor.armLocksIfDue(LockWatch.Kinds(band, depth: depth))
    // Within the job: the next may be a fresh one, and is counted anew.
    if worker.report.whileInside(reading, worker.countOutOfForeground) {
      monitor.leaveForeground(disarms: true)
    }
  }
}

/// What the monitor sees of a worker, and whom it asks for more.
struct WatchedWorker: WorkerSight {
  let worker: Worker
  let pool: WatchedPool
  let reading: WorkerReport.Reading?
  let seen: PoolPolicy.Seen
  private var engine: Engine { pool.engine }

  init(_ worker: Worker, in pool: WatchedPool) {
    (self.worker, self.pool) = (worker, pool)
    let stance = PoolPolicy.Stance(worker.state)
    let reading = worker.report.read()
    self.reading = reading
    seen = worker.notes.pool.asOfNow(
      PoolPolicy.Seen(
        slot: Int(worker.slot), stance: stance, depth: worker.depth, isOnTrial: worker.isOnTrial,
        job: reading.map {
          PoolPolicy.Job(
            sequence: $0.sequence, band: $0.band, start: $0.start, cpuBefore: $0.cpuBefore,
            waitBefore: $0.waitBefore, switchesBefore: $0.switchesBefore, depth: $0.depth,
            isInClass: $0.isRealTime && !worker.report.hasLeftClass(during: $0))
        }))
  }

  /// Of its job as of now.
  var band: Band { seen.job?.band ?? .background }

  var isSuspected: Bool { reading.map { engine.accounts.isSuspected($0.identity) } ?? false }
  var cpuTime: UInt64? { worker.report.cpuTime }

  var usage: (cpu: UInt64, wait: UInt64)? {
    var usage = opp_thread_usage()
    guard let meter = worker.report.meter, opp_thread_meter_read(meter, &usage) == 0 else { return nil }
    return (usage.cpu_ns, usage.wait_ns &+ worker.report.shortWaitTime)
  }

  var bandOfApp: Band? {
    reading?.app.flatMap { Band(rawValue: opp_app_state_read($0).band) }
  }

  func canStand(in band: Band) -> Bool {
    band == .background || pool.state.pool != .background || engine.privileges.canRaise
  }

  func isOfAnotherPool(in band: Band) -> Bool {
    guard let reading else { return false }
    let level = engine.configuration.bands.level(band: band, rank: reading.rank)
    return engine.configuration.pool(of: level) != pool.state.pool
  }

  var switches: Int64 { worker.report.meter.map { opp_thread_meter_voluntary_switches($0) } ?? 0 }

  func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int {
    guard let reading else { return first }
    return engine.accounts.depth(
      ofRunning: reading.identity, from: first, cpu: cpu, offCPU: offCPU,
      base: Int(engine.rank(reading.base, band: band, depth: 0)), band: band)
  }

  var kind: LockWatch.Kinds { reading.map { LockWatch.Kinds($0.band, depth: worker.depth) } ?? [] }
  var blocking: PoolPolicy.Blocking { blocking(of: worker) }

  private func blocking(of worker: Worker) -> PoolPolicy.Blocking {
    guard let meter = worker.report.meter else { return .unknown }
    switch engine.isBlocked(meter) {
    case 0: return .cpu
    case OPP_BLOCKED: return .blocked
    case OPP_BLOCKED_IN_KERNEL: return .kernel
    case OPP_BLOCKED_ON_MEMORY_MAP: return .memoryMap
    default: return .unknown
    }
  }

  var replacedOnMap: Int {
    pool.state.workers.count { other in
      guard let other, other !== worker, other.isHandedOff, let job = other.report.read()?.sequence,
        other.notes.pool.isReplacedOnMap(job: job)
      else { return false }
      return blocking(of: other) == .memoryMap
    }
  }
}

extension opp_demotion {
  init(_ room: PoolPolicy.Room) {
    switch room {
    case .known: self = .OPP_DEMOTION_KNOWN
    case .found: self = .OPP_DEMOTION_FOUND
    case .starves: self = .OPP_DEMOTION_STARVES
    }
  }
}

extension PoolPolicy.Stance {
  init(_ state: opp_worker_state) {
    switch state {
    case .OPP_WORKER_RUNNING: self = .running
    case .OPP_WORKER_SPARE: self = .spare
    case .OPP_WORKER_DEMOTED: self = .demoted
    case .OPP_WORKER_HANDED_OFF: self = .handedOff
    case .OPP_WORKER_SUNK: self = .sunk
    default: self = .other
    }
  }
}
