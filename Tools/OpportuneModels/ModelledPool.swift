import OpportuneBase
import OpportuneScheduler

/// One pool of ``PoolModel``. The lengths that it judges by are those of docs/design.md, and written here:
/// those of the policy, which is what is tried, must not loosen them.
struct ModelledPool {
  typealias Program = PoolModel.Program
  typealias Violation = PoolModel.Violation

  private struct Waiting {
    var program: Program
    /// The job begins before ``ModelledPool/turns`` is this.
    var dueAt: Double
    var cameAt: Double
  }

  private struct Job {
    var number: UInt64
    var program: Program
    var part = 0
    var left: UInt64
    var start: UInt64 = 0
    var cpu: UInt64 = 0
    var isOnTrial = false
    var hasYielded = false
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
    var holds: Bool { stance == .running || stance == .spare }
    var waitsForMap: Bool { blockedUntil != nil && job?.program.wait == .memoryMap }
    /// Demoted threads have a quarter of the weight; jobs on trial are at the pool's own priority.
    var weight: UInt64 { depth > 0 && job?.isOnTrial != true ? 4 : 1 }
  }

  private static let step: UInt64 = 100_000
  private static let quantum: UInt64 = 10_000_000
  private static let tick: UInt64 = quantum + 100_000
  private static let leastDelay: UInt64 = 500_000
  private static let millisecond: UInt64 = 1_000_000

  private let pool: WorkerPool
  private let width: Int
  private let rules: PoolPolicy.Rules
  private let limit: Int
  private let bugs: PoolModel.Bugs
  private var policy = PoolPolicy()
  private(set) var now: UInt64 = 1_000_000_000
  private var workers: [Worker] = []
  /// How many of them are counted among the demoted.
  private var counted = 0
  private var tokens: Int
  private var free: Int
  /// Jobs that wait: fresh ones, those that were lowered once or are held back, known hogs.
  private var fresh: ArraySlice<Waiting> = []
  private var held: ArraySlice<Program> = []
  private var known: ArraySlice<Program> = []
  private var suspects: Set<Int> = []
  private var isStalled = false
  private var progress: UInt64 = 0
  private var ordinary: (count: UInt64, time: UInt64) = (0, 0)
  private var lookAt: UInt64?
  private var tickAt: UInt64?
  private var number: UInt64 = 0
  /// Room for what was lowered once beyond the limit, and the CPU time when some was made last.
  private var extra = 0
  private var madeAt: UInt64 = 0
  private(set) var tally = PoolModel.Tally()

  // What is judged by.

  /// The spare worker's delay: half a millisecond, or twice what the jobs ordinarily take; and what that was
  /// found from.
  private var delay = Self.leastDelay
  private var ordinaryLength: UInt64 = 0
  private var ordinaryBefore: (count: UInt64, time: UInt64) = (0, 0)
  private var seenJobs: (count: UInt64, time: UInt64, at: UInt64)?
  private var isFlooded = false
  /// Since when fresh work waits while none begins; and for how long it may.
  private var waitsSince: UInt64?
  private var promised: UInt64 = 0
  /// How many fresh jobs were to begin by now, and what those that wait take of that.
  private var turns = 0.0
  private var turnsThatWait = 0.0
  /// The CPU time since which held jobs wait for room; since when the background waits for one that blocks.
  private var fullSince: UInt64?
  private var stuckSince: UInt64?
  /// Since when fresh work waits for nothing but the spare worker.
  private var missingSince: UInt64?
  private var late: String?
  /// How many workers there were when the monitor began to look.
  private var workersAtLook = 0

  init(_ pool: WorkerPool, width: Int, bugs: PoolModel.Bugs) {
    (self.pool, self.width, self.bugs) = (pool, width, bugs)
    var rules = PoolPolicy.Rules(
      pool: pool, width: width, quantum: Self.quantum, spareDelay: Self.leastDelay, offCPUShare: 0.05)
    bugs.distort(&rules)
    self.rules = rules
    tokens = pool == .foreground ? 2 * width : width
    free = tokens
    limit = 4 * width
  }

  var isBusy: Bool {
    !fresh.isEmpty || !held.isEmpty || !known.isEmpty || workers.contains { $0.job != nil }
  }

  mutating func add(_ program: Program) {
    switch program.depth {
    case 0:
      let share = Self.turn(of: program)
      turnsThatWait += share
      // Those that run have their turn, and this one.
      fresh.append(
        Waiting(program: program, dueAt: turns + turnsThatWait + 2 * Double(allTokens), cameAt: turns))
    case 1: held.append(program)
    default: known.append(program)
    }
  }

  /// A step of time. Returns how many of the CPUs were used.
  mutating func step(on cpus: Int) throws(Violation) -> Int {
    // Of a job that began, late, and ended in the last step.
    if let late { throw Violation(text: late) }
    guard isBusy || isFlooded else {
      now += Self.step
      return 0
    }
    dispatch()
    try judge()
    let used = runCPUs(cpus)
    now += Self.step
    if let at = lookAt, now >= at { try look() }
    if let at = tickAt, now >= at { try tick() }
    return used
  }

  // MARK: Workers

  /// As `demoted_room()` of the core has it.
  private var roomOfHeld: Int { 2 * limit + extra }
  private var roomOfFound: Int { 3 * limit }
  private var roomOfStarving: Int { 16 * limit }
  private var cpuOfWorkers: UInt64 { workers.reduce(0) { $0 + $1.cpu } }
  private var allTokens: Int { pool == .foreground ? 2 * width : width }
  private var leastVirtual: UInt64 {
    workers.reduce(nil) { least, worker in
      worker.isRunnable ? min(least ?? .max, worker.virtual) : least
    } ?? 0
  }

  private mutating func become(_ slot: Int, _ stance: PoolPolicy.Stance) {
    if isCounted(slot) { counted -= 1 }
    workers[slot].stance = stance
    if isCounted(slot) { counted += 1 }
  }

  private func isCounted(_ slot: Int) -> Bool {
    workers[slot].stance == .demoted || workers[slot].stance == .sunk
  }

  private mutating func begin(_ program: Program, _ stance: PoolPolicy.Stance, at preferred: Int?) {
    let slot = preferred ?? workers.firstIndex { $0.job == nil } ?? workers.count
    if slot == workers.count { workers.append(Worker()) }
    number += 1
    progress += 1
    let least = leastVirtual
    become(slot, stance)
    workers[slot].depth = program.depth
    workers[slot].before = (workers[slot].cpu, workers[slot].waited, workers[slot].switches)
    workers[slot].virtual = max(workers[slot].virtual, least)
    var job = Job(number: number, program: program, left: program.parts[0], start: now)
    if program.mayBeShort, workers.count(where: { $0.job?.isOnTrial == true }) < width {
      job.isOnTrial = true
      watch()
    }
    workers[slot].job = job
    tickAt = tickAt ?? now + Self.tick
    if stance != .demoted {
      tally.started += 1
      (waitsSince, missingSince) = (nil, nil)
    }
  }

  private mutating func takeFresh() -> Program? {
    guard let first = fresh.popFirst() else { return nil }
    note(first)
    turnsThatWait -= Self.turn(of: first.program)
    return first.program
  }

  /// Lets workers take what waits, as the C core does; the first one at that slot.
  private mutating func dispatch(at slot: Int? = nil) {
    var slot = slot
    while free > 0 {
      if let program = takeFresh() {
        free -= 1
        begin(program, .running, at: slot)
      } else if let program = counted < roomOfHeld ? held.popFirst() : nil {
        begin(program, .demoted, at: slot)
      } else if let program = counted < limit ? known.popFirst() : nil {
        begin(program, .demoted, at: slot)
      } else {
        break
      }
      slot = nil
    }
    guard !fresh.isEmpty, pool == .foreground else { return }
    if isStalled { callSpare() }
    watch()
  }

  private mutating func watch() {
    lookAt =
      lookAt
      ?? now + PoolPolicy.watchDelay(spareDelays: [(pool, policy.spareDelay)], least: rules.spareDelay)
  }

  private mutating func callSpare() {
    guard !workers.contains(where: { $0.stance == .spare }), let program = takeFresh() else { return }
    begin(program, .spare, at: nil)
  }

  /// The worker gives back its token, or its call as the spare worker.
  private mutating func handOff(_ slot: Int, to stance: PoolPolicy.Stance) {
    if workers[slot].stance == .running { free += 1 }
    become(slot, stance)
    dispatch()
  }

  // MARK: The kernel

  /// Each runs for a step, as one whose job ends goes on with the next. Returns how many CPUs had a thread.
  private mutating func runCPUs(_ cpus: Int) -> Int {
    var runnable: [Int] = []
    for slot in workers.indices where workers[slot].job != nil {
      if let until = workers[slot].blockedUntil {
        guard until <= now else { continue }
        // Who wakes has saved up nothing.
        workers[slot].virtual = max(workers[slot].virtual, leastVirtual)
        workers[slot].blockedUntil = nil
      }
      runnable.append(slot)
    }
    if runnable.count > cpus {
      runnable.sort { (workers[$0].virtual, $0) < (workers[$1].virtual, $1) }
    }
    for slot in runnable.dropFirst(cpus) { workers[slot].waits += Self.step }
    for slot in runnable.prefix(cpus) {
      workers[slot].waited += workers[slot].waits
      workers[slot].waits = 0
      var rest = Self.step
      while rest > 0, workers[slot].isRunnable {
        rest -= run(slot, for: rest)
        if workers[slot].job?.left == 0, workers[slot].blockedUntil == nil { end(slot) }
      }
    }
    return min(cpus, runnable.count)
  }

  /// Runs a worker until its job blocks or ends. Returns how long that took.
  private mutating func run(_ slot: Int, for most: UInt64) -> UInt64 {
    guard var job = workers[slot].job else { return most }
    let used = min(job.left, most)
    workers[slot].cpu += used
    workers[slot].virtual += used * workers[slot].weight
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
    return used
  }

  private mutating func end(_ slot: Int) {
    guard let job = workers[slot].job else { return }
    let (stance, depth) = (workers[slot].stance, workers[slot].depth)
    workers[slot].job = nil
    become(slot, .other)
    progress += 1
    if stance == .running || stance == .sunk && job.hasYielded && depth == 0 {
      ordinary = (ordinary.count + 1, ordinary.time + job.cpu)
    }
    if stance == .running { free += 1 }
    if job.cpu < Self.quantum { suspects.remove(job.program.origin) }
    if depth > 0, job.cpu >= Self.quantum { extra = max(0, extra - 1) }
    dispatch(at: slot)
  }

  // MARK: The monitor

  private struct Sight: PoolSight {
    let pool: ModelledPool
    let slot: Int
    private var worker: Worker { pool.workers[slot] }

    init(_ pool: ModelledPool, _ slot: Int) { (self.pool, self.slot) = (pool, slot) }

    var isSuspected: Bool { worker.job.map { pool.suspects.contains($0.program.origin) } ?? false }
    var cpuTime: UInt64? { worker.cpu }
    var usage: (cpu: UInt64, wait: UInt64)? { (worker.cpu, worker.waited) }
    var switches: Int64 { worker.switches }
    var blocking: PoolPolicy.Blocking {
      worker.blockedUntil == nil ? .cpu : worker.job?.program.wait ?? .blocked
    }
    func stillWaitsForMemoryMap(_ slot: Int, job: UInt64) -> Bool {
      let other = pool.workers[slot]
      return other.stance == .handedOff && other.job?.number == job && other.waitsForMap
    }
    func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int {
      var account = DemotionAccount(depth: first, at: 0)
      _ = account.running(cpu: cpu, offCPU: offCPU, policy: QuantumPolicy(), depthMax: 3)
      return max(first, account.depth)
    }
    var bandOfApp: Band? { worker.job.map { pool.isOfForeground($0) ? .foreground : .background } }
    func isOfAnotherPool(in band: Band) -> Bool { (band == .background) != (pool.pool == .background) }
    var workers: Int { pool.workers.count }
    var demoted: Int { pool.counted }
    var hasRoomForKnown: Bool { pool.counted < pool.limit }
    var somethingWaits: Bool { !pool.fresh.isEmpty || !pool.held.isEmpty || !pool.known.isEmpty }
    var cpuOfWorkers: UInt64 { pool.cpuOfWorkers }

    var seen: PoolPolicy.Seen {
      PoolPolicy.Seen(
        slot: slot, stance: worker.stance, depth: worker.depth,
        isOnTrial: worker.job?.isOnTrial ?? false,
        job: worker.job.map {
          PoolPolicy.Job(
            sequence: $0.number, band: pool.isOfForeground($0) ? .foreground : .background, start: $0.start,
            cpuBefore: worker.before.cpu, waitBefore: worker.before.waited,
            switchesBefore: worker.before.switches, depth: $0.program.depth)
        })
    }
  }

  private func isOfForeground(_ job: Job) -> Bool { pool == .foreground || job.program.hasMoved }

  private mutating func look() throws(Violation) {
    lookAt = nil
    for slot in workers.indices where workers[slot].job?.isOnTrial == true {
      let sight = Sight(self, slot)
      if let step = policy.trialStep(for: sight.seen, rules, sight) { _ = try carryOut(step) }
    }
    guard !fresh.isEmpty else {
      isStalled = false
      return
    }
    learn()
    workersAtLook = workers.count
    var look = policy.beginLook(
      workers: workers.count, progress: progress, ordinary: ordinary, rules: rules, now: now)
    for slot in workers.indices {
      let sight = Sight(self, slot)
      var refused: PoolPolicy.Step?
      while let step = policy.step(in: &look, for: sight.seen, after: refused, rules, sight) {
        guard try !carryOut(step) else {
          policy.carriedOut(in: &look)
          break
        }
        guard refused != step else { throw Violation(text: "\(step): it was refused before") }
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
      tickAt = now + Self.tick
      workersAtLook = workers.count
      let after = Sight(self, slot)
      if !held.isEmpty || !known.isEmpty, let step = policy.roomStep(for: after.seen, now: now, rules, after)
      {
        _ = try carryOut(step)
      }
    }
    try makeRoom()
    if pool == .background { try look() } else { try followFlood() }
  }

  /// One more of what was lowered once begins for each two quanta that the pool has had the CPUs.
  private mutating func makeRoom() throws(Violation) {
    let cpu = cpuOfWorkers
    guard !held.isEmpty, counted >= roomOfHeld,
      policy.wantsExtraRoom(cpuOfWorkers: cpu, quantum: rules.quantum, width: width),
      roomOfHeld < roomOfStarving
    else { return }
    guard madeAt == 0 || cpu >= madeAt + 2 * Self.quantum * UInt64(width) else {
      throw Violation(text: "room is made before the hogs have had the CPUs for two quanta")
    }
    extra += 1
    tally.extraRooms += 1
    madeAt = cpu
    fullSince = nil
    policy.madeExtraRoom(cpuOfWorkers: cpu)
    dispatch()
  }

  /// A flood: a job in each 10 us at least, of 5 us at most on average, since the last tick.
  private mutating func followFlood() throws(Violation) {
    let says = policy.isFlooded(jobs: ordinary, now: now) || isFlooded && !bugs.endsFloods
    var isFlood = false
    if let seen = seenJobs, ordinary.count > seen.count {
      let count = ordinary.count - seen.count
      isFlood = (ordinary.time - seen.time) / count <= 5_000 && (now - seen.at) / count <= 10_000
    }
    seenJobs = (ordinary.count, ordinary.time, now)
    guard says == isFlood else {
      throw Violation(text: says ? "a flood is seen where there is none" : "a flood is not seen")
    }
    if says { tally.floods += 1 }
    if says != isFlooded {
      isFlooded = says
      let wanted = says ? width : allTokens
      free += wanted - tokens
      tokens = wanted
      dispatch()
    }
    if isFlooded { tickAt = tickAt ?? now + Self.tick }
  }

  /// Carries out a step, unless it is refused, by the rules of the C core.
  private mutating func carryOut(_ step: PoolPolicy.Step) throws(Violation) -> Bool {
    tally.kinds["\(step)".prefix { $0 != "(" }.description, default: 0] += 1
    if bugs.ignores(step) { return false }
    switch step {
    case .replaceBlocked(let slot):
      try require(slot, holds: true, step)
      try judgeReplacement(slot, step)
      handOff(slot, to: .handedOff)
      return true
    case .lower(let slot, let from, let to):
      let isSuspect = Sight(self, slot).isSuspected
      guard let job = workers[slot].job, to > from, workers[slot].depth <= to, isOfForeground(job),
        job.cpu >= (isSuspect ? Self.leastDelay : Self.quantum)
      else { throw Violation(text: "\(step): it has used no quantum, or is lowered already") }
      workers[slot].depth = to
      if from == 0 { suspects.insert(job.program.origin) }
      return sink(slot, room: roomOfFound)
    case .yield(let slot):
      try require(slot, holds: true, step)
      guard pool == .foreground, workers[slot].depth == 0, let job = workers[slot].job,
        job.cpu >= Self.millisecond
      else { throw Violation(text: "\(step): it is no fresh job, or a short one") }
      guard sink(slot, room: limit) else { return false }
      workers[slot].job?.hasYielded = true
      return true
    case .sink(let slot):
      // In the background it is asked for whether or not another has the token by now.
      if pool == .foreground { try require(slot, holds: true, step) }
      return sink(slot, room: roomOfFound)
    case .sinkStarving(let slot):
      try require(slot, holds: true, step)
      guard counted >= roomOfFound else { throw Violation(text: "\(step): there is room") }
      return sink(slot, room: roomOfStarving)
    case .count(let slot):
      guard let job = workers[slot].job, job.cpu >= Self.quantum else {
        throw Violation(text: "\(step): it has used no quantum")
      }
      guard workers[slot].stance == .handedOff else {
        throw Violation(text: "\(step): it was not replaced before")
      }
      become(slot, .sunk)
      return true
    case .uncount(let slot):
      guard isCounted(slot), workers[slot].blockedUntil != nil else {
        throw Violation(text: "\(step): it is not counted, or not blocked")
      }
      become(slot, .handedOff)
      dispatch()
      return true
    case .setStalled(let isStalled):
      if isStalled { try judgeStall(step) }
      self.isStalled = isStalled
    case .callSpare:
      try judgeStall(step)
      callSpare()
    case .watchAgain: if pool == .foreground { watch() }
    case .lookAtSpare: break
    case .endTrial(let slot):
      guard let job = workers[slot].job, job.isOnTrial, job.cpu >= Self.leastDelay else {
        throw Violation(text: "\(step): it is not on trial, or has not used the CPU for long")
      }
      workers[slot].job?.isOnTrial = false
      suspects.insert(job.program.origin)
    case .setBand, .raise, .leavePool: throw Violation(text: "\(step): no band has changed")
    }
    return true
  }

  private mutating func sink(_ slot: Int, room: Int) -> Bool {
    guard workers[slot].holds, counted < room else { return false }
    handOff(slot, to: .sunk)
    return true
  }

  private func require(_ slot: Int, holds: Bool, _ step: PoolPolicy.Step) throws(Violation) {
    guard workers[slot].holds == holds else { throw Violation(text: "\(step): of one that holds no token") }
  }

  // MARK: Judgement

  /// Only who is blocked and had its patience, and of those that wait in the kernel as many as help.
  private mutating func judgeReplacement(_ slot: Int, _ step: PoolPolicy.Step) throws(Violation) {
    guard workers[slot].blockedUntil != nil, let job = workers[slot].job else {
      throw Violation(text: "\(step): it is not blocked")
    }
    guard now - job.start >= patience(of: Self.leastDelay, workers: workersAtLook) else {
      throw Violation(text: "\(step): it is replaced too early")
    }
    switch job.program.wait {
    case .kernel where pool == .background && workers.count > 2 * width:
      throw Violation(text: "\(step): one more of the background that may hold locks of the kernel")
    case .memoryMap:
      guard pool == .foreground, replacedOnMap < width else {
        throw Violation(text: "\(step): one more that waits for the memory map")
      }
      tally.replacedOnMap += 1
    default: break
    }
  }

  private func judgeStall(_ step: PoolPolicy.Step) throws(Violation) {
    guard pool == .foreground else { throw Violation(text: "\(step): the background has no spare worker") }
    let isNew = workers.contains { worker in
      worker.stance == .running && worker.job.map { now - $0.start < delay } ?? false
    }
    if isNew { throw Violation(text: "\(step): one is inside a job for no longer than ordinarily") }
  }

  private var replacedOnMap: Int { workers.count { $0.stance == .handedOff && $0.waitsForMap } }

  private mutating func judge() throws(Violation) {
    var (running, spares, crowd) = (0, 0, 0)
    var isFlowing = false
    for worker in workers where worker.job != nil {
      if worker.stance == .running {
        running += 1
        if let job = worker.job, now - job.start < delay { isFlowing = true }
      }
      if worker.stance == .spare { spares += 1 }
      if worker.blockedUntil == nil { crowd += 1 }
      try judge(worker)
    }
    guard free + running == tokens else {
      throw Violation(text: "a token was given back twice, or is lost")
    }
    guard spares <= 1 else { throw Violation(text: "two spares") }
    guard counted <= roomOfStarving else { throw Violation(text: "\(counted) demoted") }
    try judgeRoom()
    if pool == .foreground {
      try judgeSpare(isMissing: !isFlowing && spares == 0)
      try judgeWaits(crowd: crowd)
    } else {
      try judgeBackground()
    }
  }

  /// A hog is lowered, and a trial ended, soon after it shows what it is.
  private func judge(_ worker: Worker) throws(Violation) {
    guard let job = worker.job, isOfForeground(job) else { return }
    guard worker.depth > 0 || job.part > 0 || job.cpu <= Self.quantum + Self.tick + 2 * Self.step else {
      throw Violation(text: "job \(job.number) has had the CPU for \(job.cpu / 1000) us, and is not lowered")
    }
    guard !job.isOnTrial || job.cpu <= 2 * delay + 2 * Self.step else {
      throw Violation(text: "job \(job.number) is on trial for \(job.cpu / 1000) us of the CPU")
    }
  }

  /// What was lowered once does not wait for room for longer than two quanta of the CPUs, and two looks.
  private mutating func judgeRoom() throws(Violation) {
    guard !held.isEmpty, counted >= roomOfHeld, roomOfHeld < roomOfStarving else {
      fullSince = nil
      return
    }
    let cpu = cpuOfWorkers
    let since = fullSince ?? cpu
    fullSince = since
    guard cpu - since <= (2 * Self.quantum + 2 * Self.tick) * UInt64(width) else {
      throw Violation(text: "no room is made for what was lowered once")
    }
  }

  /// Where all who hold tokens are inside jobs for longer than is ordinary, the spare worker is called.
  private mutating func judgeSpare(isMissing: Bool) throws(Violation) {
    guard isMissing, !fresh.isEmpty else {
      missingSince = nil
      return
    }
    let since = missingSince ?? now
    missingSince = since
    guard now - since <= 4 * delay + 2 * Self.step else {
      throw Violation(text: "the spare worker is not called for \((now - since) / 1000) us")
    }
  }

  /// While fresh jobs wait, one begins within the promise, and each has its turn.
  private mutating func judgeWaits(crowd: Int) throws(Violation) {
    guard !fresh.isEmpty else {
      (waitsSince, promised) = (nil, 0)
      return
    }
    let (promise, isOneByOne) = promise(crowd: UInt64(max(1, crowd)))
    turns += Double(Self.step) / Double(promise) * Double(isOneByOne ? 1 : tokens)
    for waiting in fresh.prefix(1) { note(waiting) }
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

  /// A job waits, or begins.
  private mutating func note(_ waiting: Waiting) {
    guard pool == .foreground else { return }
    let part = (turns - waiting.cameAt) / (waiting.dueAt - waiting.cameAt)
    tally.worstTurn = max(tally.worstTurn, part)
    if part > 1 { late = late ?? "a fresh job waits for longer than those before it may take" }
  }

  /// What a job takes of a turn, which is a millisecond of CPU time at least.
  private static func turn(of program: Program) -> Double {
    program.parts.count > 1 ? 1 : min(1, Double(program.parts[0]) / Double(millisecond))
  }

  /// While jobs of the background wait, none of its run tokens stays with who is blocked, or with hogs of the
  /// foreground.
  private mutating func judgeBackground() throws(Violation) {
    let isStuck =
      !fresh.isEmpty && counted < roomOfFound && free == 0
      && workers.allSatisfy { worker in
        guard worker.stance == .running, let job = worker.job else { return true }
        guard worker.blockedUntil != nil else { return job.program.hasMoved && job.cpu >= Self.quantum }
        return job.program.wait == .blocked || job.program.wait == .kernel && workers.count <= 2 * width
      }
    guard isStuck else {
      stuckSince = nil
      return
    }
    let since = stuckSince ?? now
    stuckSince = since
    guard now - since <= patience(of: delay, workers: workers.count) + 4 * Self.tick else {
      throw Violation(
        text: "work of the background waits for \((now - since) / 1000) us for one that is stuck")
    }
  }

  /// Twice the CPU time that jobs ordinarily take, averaged over the last few dozen; a quantum at most.
  private mutating func learn() {
    let count = ordinary.count - ordinaryBefore.count
    if count >= 16 {
      let length = (ordinary.time - ordinaryBefore.time) / count
      ordinaryLength = ordinaryLength == 0 ? length : (ordinaryLength + length) / 2
      ordinaryBefore = ordinary
    }
    delay = max(Self.leastDelay, min(2 * ordinaryLength, Self.quantum))
  }

  /// Twice as long for each eight workers per CPU, a second at most.
  private func patience(of delay: UInt64, workers: Int) -> UInt64 {
    min(delay << UInt64(min(14, workers / (8 * width))), 1_000_000_000)
  }

  /// How long it may take until a fresh job begins while some wait, and whether they begin one by one. All
  /// who hold tokens block, and are replaced after their patience; or some run, and one of them ends, is seen
  /// to be long, or becomes known for a hog; or the spare worker is called. Where known hogs have no room,
  /// nobody yields, and one has to become known; where hogs have none at all, they have to starve the pool
  /// first. Where as many as may be replaced wait for the memory map, it may be until others had that.
  private func promise(crowd: UInt64) -> (time: UInt64, isOneByOne: Bool) {
    let long = max(delay, Self.millisecond)
    let hogs =
      counted >= roomOfFound
      ? Self.quantum * (4 * UInt64(counted + width) + 2 * crowd)
      : counted >= limit ? Self.quantum * 2 * crowd : 0
    let map = workers.contains { $0.holds && $0.waitsForMap } && replacedOnMap >= width
    let untilMap = map ? workers.reduce(now) { $1.waitsForMap ? max($0, $1.blockedUntil ?? now) : $0 } : now
    let time =
      patience(of: delay, workers: workers.count) + 4 * delay + (long * crowd + hogs) / UInt64(width)
      + (hogs > 0 ? 4 * Self.quantum : 0) + (untilMap - now)
    return (time, map || counted >= roomOfFound)
  }
}
