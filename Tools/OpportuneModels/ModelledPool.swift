import OpportuneBase
import OpportuneScheduler

/// One pool of ``PoolModel``. The lengths that it judges by are those of docs/design.md, and written here:
/// those of the policy, which is what is tried, must not loosen them.
final class ModelledPool: PolicedPool {
  typealias Worker = Sight
  typealias Failure = PoolModel.Violation
  typealias Program = PoolModel.Program
  typealias Violation = PoolModel.Violation

  private struct Waiting {
    var program: Program
    /// The job begins before ``ModelledPool/turns`` is this.
    var dueAt: Double
    var cameAt: Double
  }

  fileprivate struct Job {
    var number: UInt64
    var program: Program
    var part = 0
    var left: UInt64
    var start: UInt64 = 0
    var cpu: UInt64 = 0
    var isOnTrial = false
    var hasYielded = false
    /// It was replaced while it waited for the memory map.
    var isReplacedOnMap = false
    /// Its band, by what the monitor has done; and the CPU time until it came to that.
    var band: Band
    var cpuBefore: UInt64 = 0
    /// What the monitor was told last: the band of its app, and whether somebody waits for it.
    var ofApp: Band
    var isAwaited = false

    /// CPU time since it came to its band.
    var used: UInt64 { cpu - cpuBefore }
  }

  struct Member {
    var stance = PoolPolicy.Stance.other
    fileprivate var job: Job?
    var notes = PoolPolicy.Notes()
    /// How deep the job was lowered, and how deep its kernel priority is.
    var depth = 0
    var priority = 0
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
    /// Demoted threads have a quarter of the weight, and what has come to the background next to none; jobs
    /// on trial are at the pool's own priority.
    func weight(in pool: WorkerPool) -> UInt64 {
      if pool == .foreground, job?.band == .background { return 64 }
      return priority > 0 && job?.isOnTrial != true ? 4 : 1
    }
  }

  private static let step: UInt64 = 100_000
  private static let quantum: UInt64 = 10_000_000
  private static let tick: UInt64 = quantum + 100_000
  private static let leastDelay: UInt64 = 500_000
  private static let millisecond: UInt64 = 1_000_000

  private let pool: WorkerPool
  private let width: Int
  private let canRaise: Bool
  let rules: PoolPolicy.Rules
  private let limit: Int
  private let bugs: PoolModel.Bugs
  var policy = PoolPolicy()
  private(set) var now: UInt64 = 1_000_000_000
  private var workers: [Member] = []
  /// How many of them are counted among the demoted.
  private(set) var demotedCount = 0
  private var tokens: Int
  private var free: Int
  /// Jobs that wait: fresh ones, those that were lowered once or are held back, known hogs.
  private var fresh: ArraySlice<Waiting> = []
  private var held: ArraySlice<Program> = []
  private var known: ArraySlice<Program> = []
  private var suspects: Set<Int> = []
  private var isStalled = false
  private(set) var progress: UInt64 = 0
  private(set) var ordinaryJobs: (count: UInt64, time: UInt64) = (0, 0)
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
  private var delay = ModelledPool.leastDelay
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
  /// How many workers there were when the monitor began to look at a stall; nil while it does not.
  private var workersAtLook: Int?

  init(_ pool: WorkerPool, width: Int, canRaise: Bool, bugs: PoolModel.Bugs) {
    (self.pool, self.width, self.canRaise, self.bugs) = (pool, width, canRaise, bugs)
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

  func add(_ program: Program) {
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
  func step(on cpus: Int) throws(Violation) -> Int {
    // Of a job that began, late, and ended in the last step.
    if let late { throw Violation(text: late) }
    guard isBusy || isFlooded else {
      now += Self.step
      return 0
    }
    dispatch()
    try changeBands()
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
  var cpuOfWorkers: UInt64 { workers.reduce(0) { $0 + $1.cpu } }
  private var allTokens: Int { pool == .foreground ? 2 * width : width }
  private var leastVirtual: UInt64 {
    workers.reduce(nil) { least, worker in
      worker.isRunnable ? min(least ?? .max, worker.virtual) : least
    } ?? 0
  }

  private func become(_ slot: Int, _ stance: PoolPolicy.Stance) {
    if isCounted(slot) { demotedCount -= 1 }
    workers[slot].stance = stance
    if isCounted(slot) { demotedCount += 1 }
  }

  private func isCounted(_ slot: Int) -> Bool {
    workers[slot].stance == .demoted || workers[slot].stance == .sunk
  }

  private func begin(_ program: Program, _ stance: PoolPolicy.Stance, at preferred: Int?) {
    let slot = preferred ?? workers.firstIndex { $0.job == nil } ?? workers.count
    if slot == workers.count { workers.append(Member()) }
    number += 1
    progress += 1
    let least = leastVirtual
    become(slot, stance)
    (workers[slot].depth, workers[slot].priority) = (program.depth, program.depth)
    workers[slot].before = (workers[slot].cpu, workers[slot].waited, workers[slot].switches)
    workers[slot].virtual = max(workers[slot].virtual, least)
    let band = bandAtBegin(of: program)
    var job = Job(
      number: number, program: program, left: program.parts[0], start: now, band: band, ofApp: band)
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

  private func takeFresh() -> Program? {
    guard let first = fresh.popFirst() else { return nil }
    note(first)
    turnsThatWait -= Self.turn(of: first.program)
    return first.program
  }

  /// Lets workers take what waits, as the C core does; the first one at that slot.
  private func dispatch(at slot: Int? = nil) {
    var slot = slot
    while free > 0 {
      if let program = takeFresh() {
        free -= 1
        begin(program, .running, at: slot)
      } else if let program = demotedCount < roomOfHeld ? held.popFirst() : nil {
        begin(program, .demoted, at: slot)
      } else if let program = demotedCount < limit ? known.popFirst() : nil {
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

  private func watch() {
    lookAt =
      lookAt
      ?? now + PoolPolicy.watchDelay(spareDelays: [(pool, policy.spareDelay)], least: rules.spareDelay)
  }

  private func callSpare() {
    guard !workers.contains(where: { $0.stance == .spare }), let program = takeFresh() else { return }
    begin(program, .spare, at: nil)
  }

  /// The worker gives back its token, or its call as the spare worker.
  private func handOff(_ slot: Int, to stance: PoolPolicy.Stance) {
    if workers[slot].stance == .running { free += 1 }
    become(slot, stance)
    dispatch()
  }

  // MARK: The kernel

  /// Each runs for a step, as one whose job ends goes on with the next. Returns how many CPUs had a thread.
  private func runCPUs(_ cpus: Int) -> Int {
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
  private func run(_ slot: Int, for most: UInt64) -> UInt64 {
    guard var job = workers[slot].job else { return most }
    let used = min(job.left, most)
    workers[slot].cpu += used
    workers[slot].virtual += used * workers[slot].weight(in: pool)
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

  private func end(_ slot: Int) {
    guard let job = workers[slot].job else { return }
    let (stance, depth) = (workers[slot].stance, workers[slot].depth)
    workers[slot].job = nil
    become(slot, .other)
    progress += 1
    if stance == .running || stance == .sunk && job.hasYielded && depth == 0 {
      ordinaryJobs = (ordinaryJobs.count + 1, ordinaryJobs.time + job.cpu)
    }
    if stance == .running { free += 1 }
    if job.cpu < Self.quantum { suspects.remove(job.program.origin) }
    if depth > 0, job.cpu >= Self.quantum { extra = max(0, extra - 1) }
    dispatch(at: slot)
  }

  // MARK: The monitor

  struct Sight: WorkerSight {
    let pool: ModelledPool
    let slot: Int
    let seen: PoolPolicy.Seen
    private var worker: Member { pool.workers[slot] }

    init(_ pool: ModelledPool, _ slot: Int) {
      (self.pool, self.slot, seen) = (pool, slot, pool.seen(slot))
    }

    var isSuspected: Bool { worker.job.map { pool.suspects.contains($0.program.origin) } ?? false }
    var cpuTime: UInt64? { worker.cpu }
    var usage: (cpu: UInt64, wait: UInt64)? { (worker.cpu, worker.waited) }
    var switches: Int64 { worker.switches }
    var blocking: PoolPolicy.Blocking {
      worker.blockedUntil == nil ? .cpu : worker.job?.program.wait ?? .blocked
    }
    var replacedOnMap: Int {
      pool.workers.indices.count { other in
        let worker = pool.workers[other]
        guard other != slot, worker.stance == .handedOff, worker.waitsForMap else { return false }
        return worker.job.map { worker.notes.isReplacedOnMap(job: $0.number) } ?? false
      }
    }
    func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int {
      var account = DemotionAccount(depth: first, at: 0)
      _ = account.running(cpu: cpu, offCPU: offCPU, policy: QuantumPolicy(), depthMax: 3)
      return max(first, account.depth)
    }
    var bandOfApp: Band? { worker.job.map(\.ofApp) }
    func canStand(in band: Band) -> Bool { pool.canStand(in: band) }
    var kind: LockWatch.Kinds {
      worker.job.map { .init(pool.bandAtBegin(of: $0.program), depth: worker.depth) } ?? []
    }
    func isOfAnotherPool(in band: Band) -> Bool {
      worker.job.map { pool.isOfAnotherPool($0, in: band) } ?? false
    }
  }

  private func seen(_ slot: Int) -> PoolPolicy.Seen {
    let worker = workers[slot]
    return worker.notes.asOfNow(
      PoolPolicy.Seen(
        slot: slot, stance: worker.stance, depth: worker.depth, isOnTrial: worker.job?.isOnTrial ?? false,
        job: worker.job.map {
          PoolPolicy.Job(
            sequence: $0.number, band: bandAtBegin(of: $0.program), start: $0.start,
            cpuBefore: worker.before.cpu, waitBefore: worker.before.waited,
            switchesBefore: worker.before.switches, depth: $0.program.depth)
        }))
  }

  var slots: Range<Int> { workers.indices }
  func worker(_ slot: Int) -> Sight? { Sight(self, slot) }
  func notes(of slot: Int) -> PoolPolicy.Notes { workers[slot].notes }
  func setNotes(of slot: Int, to notes: PoolPolicy.Notes) { workers[slot].notes = notes }

  var workerCount: Int { workers.count }
  var hasRoomForKnown: Bool { demotedCount < limit }
  var hasRoomForLoweredOnce: Bool { demotedCount < roomOfHeld }
  var somethingWaits: Bool { freshWaits || demotedWaits }
  var freshWaits: Bool { !fresh.isEmpty }
  var demotedWaits: Bool { loweredOnceWaits || !known.isEmpty }
  var loweredOnceWaits: Bool { !held.isEmpty }

  private func look() throws(Violation) {
    lookAt = nil
    if !fresh.isEmpty {
      learn()
      workersAtLook = workers.count
    }
    var pool = self
    try pool.lookAtStall(now: now)
    workersAtLook = nil
  }

  private func tick() throws(Violation) {
    tickAt = nil
    if pool == .background {
      lookAt = nil
      learn()
    }
    var looked = self
    let kinds = try looked.lookAtJobs(now: now)
    let isInside = workers.contains { $0.job != nil }
    guard isInside == !kinds.isEmpty else { throw Violation(text: "a job is not looked at") }
    if isInside { tickAt = now + Self.tick }
    if pool == .foreground { try judgeFlood() }
  }

  // MARK: Bands

  private func bandAtBegin(of program: Program) -> Band {
    pool == .foreground || program.hasSunk ? .foreground : .background
  }

  private func isOfAnotherPool(_ job: Job, in band: Band) -> Bool {
    pool == .foreground ? band == .background : band == .foreground && !job.program.hasSunk
  }

  /// Apps change their bands, and work of the foreground begins to wait; the monitor hears of each.
  private func changeBands() throws(Violation) {
    var hasMoved = false
    let slots = workers.indices.filter { workers[$0].job?.program.changesBand == true }
    for slot in slots {
      guard let job = workers[slot].job else { continue }
      let (program, age) = (job.program, now - job.start)
      let moves = [program.movesAfter, program.returnsAfter].count { $0.map { $0 <= age } ?? false }
      let first = bandAtBegin(of: program)
      let band: Band = moves == 1 ? (first == .foreground ? .background : .foreground) : first
      if band != job.ofApp {
        workers[slot].job?.ofApp = band
        hasMoved = true
      }
      if !job.isAwaited, let time = program.awaitedAfter, time <= age {
        workers[slot].job?.isAwaited = true
        var pool = self
        try pool.raise(slot, job: job.number, to: .foreground, now: now)
      }
    }
    if hasMoved {
      var pool = self
      try pool.followBands(now: now)
    }
    for slot in slots {
      guard let job = workers[slot].job, job.band != due(job) else { continue }
      throw Violation(text: "job \(job.number) is of the \(job.band), and to be of the \(due(job))")
    }
  }

  /// Who is waited for is of the foreground to its end, wherever its app is. Without privilege the
  /// background's threads stay what they are.
  private func due(_ job: Job) -> Band {
    let wanted = Self.wanted(job)
    return wanted <= job.band || canStand(in: wanted) ? wanted : job.band
  }

  private static func wanted(_ job: Job) -> Band {
    job.isAwaited ? max(job.ofApp, .foreground) : job.ofApp
  }

  private func canStand(in band: Band) -> Bool { canRaise || pool == .foreground || band == .background }

  /// A flood: a job in each 10 us at least, of 5 us at most on average, since the last tick.
  private func judgeFlood() throws(Violation) {
    var isFlood = false
    if let seen = seenJobs, ordinaryJobs.count > seen.count {
      let count = ordinaryJobs.count - seen.count
      isFlood = (ordinaryJobs.time - seen.time) / count <= 5_000 && (now - seen.at) / count <= 10_000
    }
    seenJobs = (ordinaryJobs.count, ordinaryJobs.time, now)
    guard isFlooded == isFlood else {
      throw Violation(text: isFlooded ? "a flood is seen where there is none" : "a flood is not seen")
    }
    guard isFlooded else { return }
    tally.floods += 1
    tickAt = tickAt ?? now + Self.tick
  }

  /// Carries out a step, unless it is refused, by the rules of the C core.
  func carryOut(_ step: PoolPolicy.Step, _ worker: Sight?) throws(Violation) -> Bool {
    guard step.slot == worker?.slot else { throw Violation(text: "\(step): of another worker") }
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
      guard let job = workers[slot].job, to > from, workers[slot].priority < to, job.band == .foreground
      else {
        throw Violation(text: "\(step): it is lowered already, or of the background")
      }
      guard job.used >= (isSuspect ? Self.leastDelay : Self.quantum) else {
        throw Violation(text: "\(step): it has used the CPU for \(job.used / 1000) us only")
      }
      (workers[slot].depth, workers[slot].priority) = (max(workers[slot].depth, to), to)
      if from == 0 { suspects.insert(job.program.origin) }
      return try sink(slot, room: roomOfFound, step)
    case .yield(let slot):
      try require(slot, holds: true, step)
      guard pool == .foreground, workers[slot].depth == 0, let job = workers[slot].job,
        job.cpu >= Self.millisecond
      else { throw Violation(text: "\(step): it is no fresh job, or a short one") }
      guard try sink(slot, room: limit, step) else { return false }
      workers[slot].job?.hasYielded = true
      return true
    case .sink(let slot):
      // In the background it is asked for whether or not another has the token by now.
      if pool == .foreground { try require(slot, holds: true, step) }
      return try sink(slot, room: roomOfFound, step)
    case .sinkStarving(let slot):
      try require(slot, holds: true, step)
      guard demotedCount >= roomOfFound else { throw Violation(text: "\(step): there is room") }
      return try sink(slot, room: roomOfStarving, step)
    case .count(let slot):
      guard let job = workers[slot].job, job.used >= Self.quantum, !isOfAnotherPool(job, in: job.band) else {
        throw Violation(text: "\(step): it has used no quantum, or is another pool's")
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
    case .setBand(let slot, let band, let depth):
      guard let job = workers[slot].job, band == due(job), band != job.band else {
        throw Violation(text: "\(step): its app is of another band, or it has followed before")
      }
      // Whoever is raised for those who wait is so as a fresh one.
      let isRaised = job.isAwaited && band > job.ofApp
      guard depth == 0 || depth == workers[slot].depth && !isRaised else {
        throw Violation(text: "\(step): lowered deeper than it was, or though it is waited for")
      }
      workers[slot].priority = depth
      workers[slot].job?.band = band
      workers[slot].job?.cpuBefore = job.cpu
    case .leavePool(let slot):
      guard let job = workers[slot].job, isOfAnotherPool(job, in: Self.wanted(job)) else {
        throw Violation(text: "\(step): it is of this pool")
      }
      guard workers[slot].holds else { return false }
      handOff(slot, to: .handedOff)
    case .addRoom:
      guard !held.isEmpty, demotedCount >= roomOfHeld else { throw Violation(text: "\(step): there is room") }
      guard roomOfHeld < roomOfStarving else { return false }
      let cpu = cpuOfWorkers
      guard madeAt == 0 || cpu >= madeAt + 2 * Self.quantum * UInt64(width) else {
        throw Violation(text: "room is made before the hogs have had the CPUs for two quanta")
      }
      extra += 1
      tally.extraRooms += 1
      (madeAt, fullSince) = (cpu, nil)
      dispatch()
    case .setFlooded(let isFlooded):
      if !isFlooded, !bugs.endsFloods { return false }
      self.isFlooded = isFlooded
      let wanted = isFlooded ? width : allTokens
      free += wanted - tokens
      tokens = wanted
      dispatch()
    case .wakeIfReady: dispatch()
    }
    return true
  }

  /// In the background's pool there is as much room as for known hogs, whatever the step.
  private func sink(_ slot: Int, room: Int, _ step: PoolPolicy.Step) throws(Violation) -> Bool {
    let room = pool == .background ? limit : room
    let asked =
      switch PoolPolicy.room(for: step, in: pool) {
      case .known: limit
      case .found: roomOfFound
      case .starves: roomOfStarving
      }
    guard asked == room else { throw Violation(text: "\(step): it asks for room for \(asked)") }
    guard workers[slot].holds, demotedCount < room else { return false }
    handOff(slot, to: .sunk)
    return true
  }

  private func require(_ slot: Int, holds: Bool, _ step: PoolPolicy.Step) throws(Violation) {
    guard workers[slot].holds == holds else { throw Violation(text: "\(step): of one that holds no token") }
  }

  // MARK: Judgement

  /// Only who is blocked and had its patience, and of those that wait in the kernel as many as help.
  private func judgeReplacement(_ slot: Int, _ step: PoolPolicy.Step) throws(Violation) {
    guard workers[slot].blockedUntil != nil, let job = workers[slot].job else {
      throw Violation(text: "\(step): it is not blocked")
    }
    guard now - job.start >= patience(of: Self.leastDelay, workers: workersAtLook ?? workers.count) else {
      throw Violation(text: "\(step): it is replaced too early")
    }
    switch job.program.wait {
    case .kernel where pool == .background && workers.count > 2 * width:
      throw Violation(text: "\(step): one more of the background that may hold locks of the kernel")
    case .memoryMap:
      guard pool == .foreground, replacedOnMap < width else {
        throw Violation(text: "\(step): one more that waits for the memory map")
      }
      workers[slot].job?.isReplacedOnMap = true
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

  private var replacedOnMap: Int { workers.count { $0.job?.isReplacedOnMap == true && $0.waitsForMap } }

  private func judge() throws(Violation) {
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
    guard demotedCount <= roomOfStarving else { throw Violation(text: "\(demotedCount) demoted") }
    try judgeRoom()
    if pool == .foreground {
      try judgeSpare(isMissing: !isFlowing && spares == 0)
      try judgeWaits(crowd: crowd)
    } else {
      try judgeBackground()
    }
  }

  /// A hog is lowered, and a trial ended, soon after it shows what it is.
  private func judge(_ worker: Member) throws(Violation) {
    guard let job = worker.job, job.band == .foreground else { return }
    guard worker.priority > 0 || job.part > 0 || job.used <= Self.quantum + Self.tick + 2 * Self.step else {
      throw Violation(text: "job \(job.number) has had the CPU for \(job.used / 1000) us, and is not lowered")
    }
    guard !job.isOnTrial || job.used <= 2 * delay + 2 * Self.step else {
      throw Violation(text: "job \(job.number) is on trial for \(job.cpu / 1000) us of the CPU")
    }
  }

  /// What was lowered once does not wait for room for longer than two quanta of the CPUs, and two looks.
  private func judgeRoom() throws(Violation) {
    guard !held.isEmpty, demotedCount >= roomOfHeld, roomOfHeld < roomOfStarving else {
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
  private func judgeSpare(isMissing: Bool) throws(Violation) {
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
  private func judgeWaits(crowd: Int) throws(Violation) {
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
  private func note(_ waiting: Waiting) {
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
  private func judgeBackground() throws(Violation) {
    let isStuck =
      !fresh.isEmpty && demotedCount < limit && free == 0
      && workers.allSatisfy { worker in
        guard worker.stance == .running, let job = worker.job else { return true }
        guard worker.blockedUntil != nil else { return job.band == .foreground && job.used >= Self.quantum }
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
  private func learn() {
    let count = ordinaryJobs.count - ordinaryBefore.count
    if count >= 16 {
      let length = (ordinaryJobs.time - ordinaryBefore.time) / count
      ordinaryLength = ordinaryLength == 0 ? length : (ordinaryLength + length) / 2
      ordinaryBefore = ordinaryJobs
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
      demotedCount >= roomOfFound
      ? Self.quantum * (4 * UInt64(demotedCount + width) + 2 * crowd)
      : demotedCount >= limit ? Self.quantum * 2 * crowd : 0
    let map = workers.contains { $0.holds && $0.waitsForMap } && replacedOnMap >= width
    let untilMap = map ? workers.reduce(now) { $1.waitsForMap ? max($0, $1.blockedUntil ?? now) : $0 } : now
    let time =
      patience(of: delay, workers: workers.count) + 4 * delay + (long * crowd + hogs) / UInt64(width)
      + (hogs > 0 ? 4 * Self.quantum : 0) + (untilMap - now)
    return (time, map || demotedCount >= roomOfFound)
  }
}
