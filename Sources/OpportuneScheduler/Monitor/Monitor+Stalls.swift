internal import COpportune

/// Stalled pools: something waits while all run tokens are in use. What is done is decided by ``PoolPolicy``.
extension Monitor {
  /// Looks at a pool in which something may wait while all run tokens are in use.
  func watch(_ pool: PoolState, _ engine: Engine) {
    let rules = rules(of: pool, engine)
    for case let worker? in pool.workers where worker.isOnTrial {
      let sight = WorkerSight(worker, engine)
      if let step = pool.policy.trialStep(for: sight.seen, rules, sight) { carryOut(step, sight) }
    }
    let fresh = pool.mask & ~pool.demotedMask
    guard opp_has_ready(engine.core, fresh) else { return opp_pool_set_stalled(pool.raw, false) }
    var look = pool.policy.beginLook(
      workers: pool.liveWorkers, progress: pool.progress, ordinary: pool.ordinaryJobs, rules: rules,
      now: opp_now_ns())
    var spares: [WorkerSight] = []
    for case let worker? in pool.workers {
      let sight = WorkerSight(worker, engine)
      var refused: PoolPolicy.Step?
      while let step = pool.policy.step(in: &look, for: sight.seen, after: refused, rules, sight) {
        guard !carryOut(step, sight) else {
          pool.policy.carriedOut(in: &look)
          break
        }
        refused = step
      }
      if sight.seen.stance == .spare { spares.append(sight) }
    }
    for step in pool.policy.end(look, rules) { carryOut(step, in: pool, spares, engine) }
  }

  func rules(of pool: PoolState, _ engine: Engine) -> PoolPolicy.Rules {
    PoolPolicy.Rules(
      pool: pool.pool, width: engine.width, quantum: quantum, spareDelay: spareDelay,
      offCPUShare: engine.configuration.quantum.offCPUShare)
  }

  /// Carries out a step about a whole pool, or about one of its spare workers.
  private func carryOut(
    _ step: PoolPolicy.Step, in pool: PoolState, _ spares: [WorkerSight], _ engine: Engine
  ) {
    switch step {
    case .setStalled(let isStalled): opp_pool_set_stalled(pool.raw, isStalled)
    case .lookAtSpare: opp_pool_look_at_spare(pool.raw)
    case .callSpare:
      if !opp_pool_call_spare(pool.raw) { _ = spawn(pool, engine) }
    case .watchAgain: opp_pool_watch(pool.raw)
    case .sink(let slot):
      if let sight = spares.first(where: { $0.seen.slot == slot }) { carryOut(step, sight) }
    case .replaceBlocked, .lower, .yield, .sinkStarving, .uncount, .count, .endTrial, .setBand, .raise,
      .leavePool:
      break  // of a worker
    }
  }

  /// Carries out a step about the worker. Returns false where it is refused.
  @discardableResult func carryOut(_ step: PoolPolicy.Step, _ sight: WorkerSight) -> Bool {
    let (worker, engine) = (sight.worker, sight.engine)
    if case .watchAgain = step { opp_pool_watch(worker.pool.raw) }
    guard let reading = sight.reading else { return false }
    let room = PoolPolicy.room(for: step, in: worker.pool.pool)
    switch step {
    case .replaceBlocked:
      // relaxed: a statistic.
      if replace(worker, reading, engine) { worker.pool.replaced.add(1, ordering: .relaxed) }
      return true
    case .lower(_, let from, let to):
      lower(worker, reading, from: from, to: to, engine)
      return replace(worker, reading, in: room, engine)
    case .yield:
      guard replace(worker, reading, in: room, engine) else { return false }
      _ = worker.report.setPriority(.longForeground(engine.privileges), during: reading)
      worker.pool.yielded.add(1, ordering: .relaxed)  // a statistic
      return true
    case .sink, .sinkStarving: return replace(worker, reading, in: room, engine)
    case .uncount:
      if worker.report.isStillInside(reading), opp_worker_uncount(worker.raw) == .OPP_HANDED_OFF {
        letAnotherWork(worker.pool, engine)
      }
      return true
    case .count:
      if worker.report.isStillInside(reading), opp_worker_count(worker.raw) == .OPP_HANDED_LATE {
        letAnotherWork(worker.pool, engine)
      }
      return true
    case .setBand(_, let band), .raise(_, let band):
      let level = engine.configuration.bands.level(band: band, rank: reading.rank)
      // It may have been lowered since it began.
      let depth = if case .raise = step { 0 } else { sight.seen.depth }
      return worker.report.setPriority(
        engine.priority(of: worker.pool.pool, level: level, depth: depth), during: reading)
    case .leavePool: return replace(worker, reading, engine)
    case .endTrial:
      let level = engine.configuration.bands.level(band: reading.band, rank: reading.rank)
      _ = worker.report.setPriority(
        engine.priority(of: worker.pool.pool, level: level, depth: sight.seen.depth), during: reading)
      engine.accounts.suspect(originOf: reading.identity, at: opp_now_ns())
      if worker.report.isStillInside(reading) { worker.endTrial() }
      return true
    case .setStalled, .lookAtSpare, .callSpare, .watchAgain: return true  // of the pool
    }
  }
}

/// What the monitor sees of a worker, and whom it asks for more.
struct WorkerSight: PoolSight {
  let worker: Worker
  let engine: Engine
  let reading: WorkerReport.Reading?
  let seen: PoolPolicy.Seen

  init(_ worker: Worker, _ engine: Engine) {
    let stance = PoolPolicy.Stance(worker.state)
    self.init(worker, engine, worker.report.read(), stance)
  }

  init(_ worker: Worker, _ engine: Engine, _ reading: WorkerReport.Reading?, _ stance: PoolPolicy.Stance) {
    (self.worker, self.engine, self.reading) = (worker, engine, reading)
    seen = PoolPolicy.Seen(
      slot: Int(worker.slot), stance: stance, depth: worker.depth, isOnTrial: worker.isOnTrial,
      job: reading.map {
        PoolPolicy.Job(
          sequence: $0.sequence, band: $0.band, start: $0.start, cpuBefore: $0.cpuBefore,
          waitBefore: $0.waitBefore, switchesBefore: $0.switchesBefore, depth: $0.depth,
          isInClass: $0.isRealTime && !worker.report.hasLeftClass(during: $0))
      })
  }

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

  func isOfAnotherPool(in band: Band) -> Bool {
    guard let reading else { return false }
    let level = engine.configuration.bands.level(band: band, rank: reading.rank)
    return engine.configuration.pool(of: level) != worker.pool.pool
  }

  var switches: Int64 { worker.report.meter.map { opp_thread_meter_voluntary_switches($0) } ?? 0 }

  func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int {
    guard let reading else { return first }
    return engine.accounts.depth(
      ofRunning: reading.identity, from: first, cpu: cpu, offCPU: offCPU,
      base: Int(engine.rank(reading.base, band: reading.band, depth: 0)), band: reading.band)
  }

  var blocking: PoolPolicy.Blocking {
    guard let meter = worker.report.meter else { return .unknown }
    switch engine.isBlocked(meter) {
    case 0: return .cpu
    case OPP_BLOCKED: return .blocked
    case OPP_BLOCKED_IN_KERNEL: return .kernel
    case OPP_BLOCKED_ON_MEMORY_MAP: return .memoryMap
    default: return .unknown
    }
  }

  func stillWaitsForMemoryMap(_ slot: Int, job: UInt64) -> Bool {
    guard let other = worker.pool.workers[slot], other.isHandedOff, other.report.read()?.sequence == job,
      let meter = other.report.meter
    else { return false }
    return engine.isBlocked(meter) == OPP_BLOCKED_ON_MEMORY_MAP
  }

  var workers: Int { worker.pool.liveWorkers }
  var demoted: Int { worker.pool.demotedCount }
  var hasRoomForKnown: Bool { worker.pool.hasRoom(.OPP_DEMOTION_KNOWN) }
  var somethingWaits: Bool { opp_has_ready(engine.core, worker.pool.mask) }
  var cpuOfWorkers: UInt64 { worker.pool.cpuOfWorkers }
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
