import OpportuneBase
import OpportuneScheduler

/// A pool of the foreground in virtual time: its jobs, its workers by the rules of the C core, a kernel that
/// shares CPUs fairly, and a monitor that carries out what ``PoolPolicy`` says. It judges each step, and how
/// long fresh jobs wait.
package struct PoolModel {
  /// What a job does: it runs, then blocks, and so on in turn; nanoseconds.
  package struct Program: Sendable {
    package var arrival: UInt64
    package var parts: [UInt64]
    package var depth: Int
    package var origin: Int

    /// - Parameters:
    ///   - arrival: nanoseconds after the begin.
    ///   - parts: at least one.
    package init(arrival: UInt64, parts: [UInt64], depth: Int = 0, origin: Int = 0) {
      (self.arrival, self.parts, self.depth, self.origin) = (arrival, parts, depth, origin)
    }
  }

  package struct Violation: Error {
    package let text: String
    package init(text: String) { self.text = text }
  }

  /// What happened, for who wants to know whether the programs were about something.
  package struct Tally {
    package var kinds: [String: Int] = [:]
    package var started = 0
    /// The longest wait in parts of what was promised.
    package var worst = 0.0

    package init() {}
  }

  private struct Job {
    var number: UInt64
    var program: Program
    var part = 0
    var left: UInt64
    var start: UInt64 = 0
    var cpu: UInt64 = 0
  }

  private struct Worker {
    var stance = PoolPolicy.Stance.other
    var job: Job?
    var depth = 0
    /// Of the thread: its clock, the waits for a CPU that are over and the one that goes on, its switches.
    var cpu: UInt64 = 0
    var waited: UInt64 = 0
    var waits: UInt64 = 0
    var switches: Int64 = 0
    /// The same before the job.
    var before: (cpu: UInt64, waited: UInt64, switches: Int64) = (0, 0, 0)
    var virtual: UInt64 = 0
    var blockedUntil: UInt64?
    var isRunnable: Bool { job != nil && blockedUntil == nil }
    var isCounted: Bool { stance == .demoted || stance == .sunk }
  }

  private static let step: UInt64 = 100_000
  private static let limitPerCPU = 4
  private let rules: PoolPolicy.Rules
  private let tokens: Int
  private let limit: Int
  private let ignores: (PoolPolicy.Step) -> Bool
  private var policy = PoolPolicy()
  private var now: UInt64 = 1_000_000_000
  private var workers: [Worker] = []
  private var free: Int
  private var fresh: [Program] = []
  private var demoted: [Program] = []
  private var suspects: Set<Int> = []
  private var isStalled = false
  private var progress: UInt64 = 0
  private var ordinary: (count: UInt64, time: UInt64) = (0, 0)
  private var lookAt: UInt64?
  private var tickAt: UInt64?
  private var number: UInt64 = 0
  /// Since when fresh work waits while none begins; and for how long it may.
  private var waitsSince: UInt64?
  private var promised: UInt64 = 0
  package private(set) var tally = Tally()

  /// - Parameter ignores: steps that a broken monitor does not carry out.
  package init(width: Int, ignores: @escaping (PoolPolicy.Step) -> Bool = { _ in false }) {
    rules = PoolPolicy.Rules(
      pool: .foreground, width: width, quantum: 10_000_000, spareDelay: 500_000, offCPUShare: 0.05)
    tokens = 2 * width
    free = tokens
    limit = Self.limitPerCPU * width
    self.ignores = ignores
  }

  /// Runs the programs, whose arrivals are in order, until all have ended.
  package mutating func run(_ programs: [Program]) throws(Violation) {
    let begin = now
    var next = 0
    while next < programs.count || !fresh.isEmpty || !demoted.isEmpty
      || workers.contains(where: { $0.job != nil })
    {
      while next < programs.count, begin + programs[next].arrival <= now {
        let program = programs[next]
        if program.depth > 0 { demoted.append(program) } else { fresh.append(program) }
        next += 1
      }
      dispatch()
      try judge()
      runCPUs()
      now += Self.step
      endJobs()
      if let at = lookAt, now >= at { try look() }
      if let at = tickAt, now >= at { try tick() }
      if now - begin > 60_000_000_000 { throw Violation(text: "it does not end") }
    }
  }

  // MARK: Workers

  /// As `demoted_room()` of the core has it, for what turns out to be a hog.
  private var roomOfFound: Int { 3 * limit }
  private var counted: Int { workers.count(where: \.isCounted) }
  private var live: Int { workers.count }
  private var cpuOfWorkers: UInt64 { workers.reduce(0) { $0 + $1.cpu } }

  private mutating func begin(_ program: Program, _ stance: PoolPolicy.Stance) {
    let slot = workers.firstIndex { $0.job == nil } ?? workers.count
    if slot == workers.count { workers.append(Worker()) }
    number += 1
    progress += 1
    let least = workers.filter(\.isRunnable).map(\.virtual).min() ?? 0
    workers[slot].stance = stance
    workers[slot].depth = program.depth
    workers[slot].before = (workers[slot].cpu, workers[slot].waited, workers[slot].switches)
    workers[slot].virtual = max(workers[slot].virtual, least)
    workers[slot].job = Job(number: number, program: program, left: program.parts[0], start: now)
    tickAt = tickAt ?? now + rules.quantum + 100_000
    if stance != .demoted {
      tally.started += 1
      waitsSince = nil
    }
  }

  /// Lets workers take what waits, as the C core does.
  private mutating func dispatch() {
    while free > 0 {
      if !fresh.isEmpty {
        free -= 1
        begin(fresh.removeFirst(), .running)
      } else if !demoted.isEmpty, counted < limit {
        begin(demoted.removeFirst(), .demoted)
      } else {
        break
      }
    }
    guard !fresh.isEmpty else { return }
    if isStalled { callSpare() }
    lookAt = lookAt ?? now + max(rules.spareDelay, policy.spareDelay / 2)
  }

  private mutating func callSpare() {
    guard !fresh.isEmpty, !workers.contains(where: { $0.stance == .spare }) else { return }
    begin(fresh.removeFirst(), .spare)
  }

  /// The worker gives back its token, or its call as the spare worker.
  private mutating func handOff(_ slot: Int, to stance: PoolPolicy.Stance) {
    if workers[slot].stance == .running { free += 1 }
    workers[slot].stance = stance
    dispatch()
  }

  // MARK: The kernel

  private mutating func runCPUs() {
    for slot in workers.indices {
      if let until = workers[slot].blockedUntil, until <= now {
        // Who wakes has saved up nothing.
        let least = workers.filter(\.isRunnable).map(\.virtual).min() ?? 0
        workers[slot].blockedUntil = nil
        workers[slot].virtual = max(workers[slot].virtual, least)
      }
    }
    let runnable = workers.indices.filter { workers[$0].isRunnable }.sorted {
      (workers[$0].virtual, $0) < (workers[$1].virtual, $1)
    }
    for slot in runnable.dropFirst(rules.width) { workers[slot].waits += Self.step }
    for slot in runnable.prefix(rules.width) {
      guard var job = workers[slot].job else { continue }
      let used = min(job.left, Self.step)
      workers[slot].waited += workers[slot].waits
      workers[slot].waits = 0
      workers[slot].cpu += used
      workers[slot].virtual += used * (workers[slot].depth > 0 ? 4 : 1)
      job.cpu += used
      job.left -= used
      if job.left == 0, job.part + 1 < job.program.parts.count {
        // It blocks, and then runs on.
        workers[slot].blockedUntil = now + job.program.parts[job.part + 1]
        workers[slot].switches += 1
        job.part += 2
        job.left = job.part < job.program.parts.count ? job.program.parts[job.part] : 1
      }
      workers[slot].job = job
    }
  }

  private mutating func endJobs() {
    for slot in workers.indices {
      guard let job = workers[slot].job, job.left == 0, workers[slot].blockedUntil == nil else { continue }
      workers[slot].job = nil
      progress += 1
      if workers[slot].stance == .running {
        free += 1
        ordinary = (ordinary.count + 1, ordinary.time + job.cpu)
      }
      if job.cpu < rules.quantum { suspects.remove(job.program.origin) }
      workers[slot].stance = .other
    }
  }

  // MARK: The monitor

  private struct Sight: PoolSight {
    let model: PoolModel
    let slot: Int
    private var worker: Worker { model.workers[slot] }

    init(_ model: PoolModel, _ slot: Int) { (self.model, self.slot) = (model, slot) }

    var isSuspected: Bool { worker.job.map { model.suspects.contains($0.program.origin) } ?? false }
    var cpuTime: UInt64? { worker.cpu }
    var usage: (cpu: UInt64, wait: UInt64)? { (worker.cpu, worker.waited) }
    var switches: Int64 { worker.switches }
    var blocking: PoolPolicy.Blocking { worker.blockedUntil == nil ? .cpu : .blocked }
    func stillWaitsForMemoryMap(_ slot: Int, job: UInt64) -> Bool { false }
    func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int {
      var account = DemotionAccount(depth: first, at: 0)
      _ = account.running(cpu: cpu, offCPU: offCPU, policy: QuantumPolicy(), depthMax: 3)
      return max(first, account.depth)
    }
    var bandOfApp: Band? { worker.job.map { _ in .foreground } }
    func isOfAnotherPool(in band: Band) -> Bool { band == .background }
    var workers: Int { model.live }
    var demoted: Int { model.counted }
    var hasRoomForKnown: Bool { model.counted < model.limit }
    var somethingWaits: Bool { !model.fresh.isEmpty || !model.demoted.isEmpty }
    var cpuOfWorkers: UInt64 { model.cpuOfWorkers }

    var seen: PoolPolicy.Seen {
      PoolPolicy.Seen(
        slot: slot, stance: worker.stance, depth: worker.depth,
        job: worker.job.map {
          PoolPolicy.Job(
            sequence: $0.number, band: .foreground, start: $0.start, cpuBefore: worker.before.cpu,
            waitBefore: worker.before.waited, switchesBefore: worker.before.switches,
            depth: $0.program.depth)
        })
    }
  }

  private mutating func look() throws(Violation) {
    lookAt = nil
    guard !fresh.isEmpty else {
      isStalled = false
      return
    }
    var look = policy.beginLook(
      workers: live, progress: progress, ordinary: ordinary, rules: rules, now: now)
    for slot in workers.indices {
      let sight = Sight(self, slot)
      var refused: PoolPolicy.Step?
      while let step = policy.step(in: &look, for: sight.seen, after: refused, rules, sight) {
        guard try !carryOut(step) else {
          policy.carriedOut(in: &look)
          break
        }
        refused = step
      }
    }
    for step in policy.end(look, rules) { _ = try carryOut(step) }
  }

  private mutating func tick() throws(Violation) {
    tickAt = nil
    for slot in workers.indices {
      let sight = Sight(self, slot)
      for step in policy.quantumSteps(for: sight.seen, now: now, rules, sight) { _ = try carryOut(step) }
      guard workers[slot].job != nil else { continue }
      tickAt = now + rules.quantum + 100_000
      let after = Sight(self, slot)
      if !demoted.isEmpty, let step = policy.roomStep(for: after.seen, now: now, rules, after) {
        _ = try carryOut(step)
      }
    }
  }

  /// Carries out a step, unless it is refused, by the rules of the C core.
  private mutating func carryOut(_ step: PoolPolicy.Step) throws(Violation) -> Bool {
    tally.kinds["\(step)".prefix { $0 != "(" }.description, default: 0] += 1
    if ignores(step) { return false }
    switch step {
    case .replaceBlocked(let slot):
      try require(slot, holds: true, step)
      guard workers[slot].blockedUntil != nil else { throw Violation(text: "\(step): it is not blocked") }
      handOff(slot, to: .handedOff)
      return true
    case .lower(let slot, let from, let to):
      let isSuspect = Sight(self, slot).isSuspected
      guard let job = workers[slot].job, to > from, workers[slot].depth <= to,
        job.cpu >= (isSuspect ? rules.spareDelay : rules.quantum)
      else { throw Violation(text: "\(step): it has used no quantum, or is lowered already") }
      workers[slot].depth = to
      if from == 0 { suspects.insert(job.program.origin) }
      return sink(slot, room: roomOfFound)
    case .yield(let slot):
      try require(slot, holds: true, step)
      guard workers[slot].depth == 0, let job = workers[slot].job, job.cpu >= 1_000_000 else {
        throw Violation(text: "\(step): it is no fresh job, or a short one")
      }
      return sink(slot, room: limit)
    case .sink(let slot):
      try require(slot, holds: true, step)
      return sink(slot, room: roomOfFound)
    case .sinkStarving(let slot):
      try require(slot, holds: true, step)
      guard counted >= roomOfFound else { throw Violation(text: "\(step): there is room") }
      return sink(slot, room: 16 * limit)
    case .count(let slot):
      guard let job = workers[slot].job, job.cpu >= rules.quantum else {
        throw Violation(text: "\(step): it has used no quantum")
      }
      guard workers[slot].stance == .handedOff else {
        throw Violation(text: "\(step): it was not handed off")
      }
      workers[slot].stance = .sunk
      return true
    case .uncount(let slot):
      guard workers[slot].isCounted, workers[slot].blockedUntil != nil else {
        throw Violation(text: "\(step): it is not counted, or not blocked")
      }
      workers[slot].stance = .handedOff
      dispatch()
      return true
    case .setStalled(let isStalled): self.isStalled = isStalled
    case .callSpare: callSpare()
    case .watchAgain: lookAt = lookAt ?? now + max(rules.spareDelay, policy.spareDelay / 2)
    case .lookAtSpare: break
    case .endTrial: throw Violation(text: "\(step): no job is on trial")
    case .setBand, .leavePool: throw Violation(text: "\(step): no band has changed")
    }
    return true
  }

  private mutating func sink(_ slot: Int, room: Int) -> Bool {
    guard holds(slot), counted < room else { return false }
    handOff(slot, to: .sunk)
    return true
  }

  private func holds(_ slot: Int) -> Bool {
    workers[slot].stance == .running || workers[slot].stance == .spare
  }

  private func require(_ slot: Int, holds: Bool, _ step: PoolPolicy.Step) throws(Violation) {
    guard self.holds(slot) == holds else { throw Violation(text: "\(step): of one that holds no token") }
  }

  // MARK: Judgement

  private mutating func judge() throws(Violation) {
    guard free + workers.count(where: { $0.stance == .running }) == tokens, free >= 0 else {
      throw Violation(text: "a token was given back twice, or is lost")
    }
    guard workers.count(where: { $0.stance == .spare }) <= 1 else { throw Violation(text: "two spares") }
    guard counted <= 16 * limit else { throw Violation(text: "\(counted) demoted") }
    guard !fresh.isEmpty else {
      (waitsSince, promised) = (nil, 0)
      return
    }
    guard let since = waitsSince else {
      (waitsSince, promised) = (now, promise)
      return
    }
    promised = max(promised, promise)
    tally.worst = max(tally.worst, Double(now - since) / Double(promised))
    guard now - since <= promised else {
      let (waits, most) = ((now - since) / 1000, promised / 1000)
      throw Violation(text: "fresh work waits for \(waits) us, and \(most) at most are promised")
    }
  }

  /// How long it may take until a fresh job begins while some wait. All who hold tokens block, and are
  /// replaced after their patience; or some run, and one of them ends, is seen to be long, or becomes known
  /// for a hog; or the spare worker is called. Where known hogs have no room, nobody yields, and one has to
  /// become known; where hogs have none at all, they have to starve the pool first.
  private var promise: UInt64 {
    let delay = max(rules.spareDelay, policy.spareDelay)
    let patience = PoolPolicy.patience(workers: live, width: rules.width, delay: delay)
    let long = PoolPolicy.lengthToYield(spareDelay: delay)
    // Demoted threads have a quarter of the weight.
    let crowd = UInt64(max(1, workers.count(where: \.isRunnable)))
    let hogs =
      counted >= roomOfFound
      ? rules.quantum * (4 * UInt64(counted + rules.width) + 2 * crowd)
      : counted >= limit ? rules.quantum * 2 * crowd : 0
    return patience + 4 * delay + (long * crowd + hogs) / UInt64(rules.width)
      + (hogs > 0 ? 4 * rules.quantum : 0)
  }
}
