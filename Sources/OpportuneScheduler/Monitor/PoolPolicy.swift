internal import OpportuneBase

/// What a look at a pool asks beside what it is shown: of the worker that is looked at, and of its pool. Each
/// answer about a worker costs several times the one before, so none is asked for in advance.
package protocol PoolSight {
  /// Whether the origin of the worker's job is suspected of hogs.
  var isSuspected: Bool { get }
  /// CPU time of the worker's thread so far, in nanoseconds; nil where it cannot be read.
  var cpuTime: UInt64? { get }
  /// The same clock, and for how long the thread has waited for a CPU, or so shortly for something else that
  /// it does not count as blocking, in nanoseconds; nil where they cannot be read.
  var usage: (cpu: UInt64, wait: UInt64)? { get }
  /// How often the thread has given up the CPU voluntarily.
  var switches: Int64 { get }
  /// The band that the app of the worker's job has now; nil where the job is of none. It may have changed
  /// since the job began.
  var bandOfApp: Band? { get }
  /// Whether jobs of the worker's job's kind are another pool's once they are of that band.
  func isOfAnotherPool(in band: Band) -> Bool
  /// How deep the worker's job is to be lowered that began at `first`, after what it has used; nanoseconds.
  func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int
  /// What the worker's thread waits for.
  var blocking: PoolPolicy.Blocking { get }
  /// Whether another worker of the pool, whose token was handed on, is still inside that job and waits for
  /// the lock of the memory map.
  func stillWaitsForMemoryMap(_ slot: Int, job: UInt64) -> Bool
  /// The workers that the pool has, and how many of them are counted among the demoted.
  var workers: Int { get }
  var demoted: Int { get }
  /// Whether there is room for one more demoted job that has not begun yet.
  var hasRoomForKnown: Bool { get }
  /// Whether any work of the pool waits.
  var somethingWaits: Bool { get }
  /// The total CPU time of the pool's workers, in nanoseconds.
  var cpuOfWorkers: UInt64 { get }
}

/// What the monitor does where jobs of a pool are in the way of others.
///
/// A pure value, without a clock and without threads: it is shown the workers one after the other and gives
/// steps, which the monitor carries out. A step may be refused, as where no room is left; then the policy
/// says what is to be done instead. The same sights and answers give the same steps. Only for the monitor's
/// thread.
package struct PoolPolicy: Sendable {
  /// The settings of a pool; times in nanoseconds.
  package struct Rules: Sendable {
    package var pool: WorkerPool
    /// The CPUs.
    package var width: Int
    package var quantum: UInt64
    /// The least delay of the spare worker.
    package var spareDelay: UInt64
    /// As ``QuantumPolicy/offCPUShare``.
    package var offCPUShare: Double

    package init(pool: WorkerPool, width: Int, quantum: UInt64, spareDelay: UInt64, offCPUShare: Double) {
      (self.pool, self.width, self.quantum) = (pool, width, quantum)
      (self.spareDelay, self.offCPUShare) = (spareDelay, offCPUShare)
    }

    var blocking: BlockingRule { BlockingRule(quantum: quantum, share: offCPUShare) }
  }

  /// Where a worker stands, as far as it matters here; see `opp_worker_state`.
  package enum Stance: Sendable, Hashable { case running, spare, demoted, handedOff, sunk, other }

  /// What a thread waits for. `cpu`: it runs, or could. `kernel`: a disk or a lock of the kernel.
  package enum Blocking: Sendable, Hashable { case cpu, blocked, kernel, memoryMap, unknown }

  /// A worker as it was seen. `depth`: of its job as of now.
  package struct Seen: Sendable {
    package var slot: Int
    package var stance: Stance
    package var depth: Int
    package var isOnTrial: Bool
    package var job: Job?

    package init(slot: Int, stance: Stance, depth: Int, isOnTrial: Bool = false, job: Job? = nil) {
      (self.slot, self.stance, self.depth) = (slot, stance, depth)
      (self.isOnTrial, self.job) = (isOnTrial, job)
    }
  }

  /// A job that a worker was seen inside of; times in nanoseconds.
  package struct Job: Sendable {
    /// Differs from job to job of the worker.
    package var sequence: UInt64
    package var band: Band
    package var start: UInt64
    /// CPU time of the thread before the job, its waits for a CPU, and its voluntary switches.
    package var cpuBefore: UInt64
    package var waitBefore: UInt64
    package var switchesBefore: Int64
    /// The depth at which the job began.
    package var depth: Int
    /// The job is in the real-time foreground.
    package var isInClass: Bool

    package init(
      sequence: UInt64, band: Band, start: UInt64, cpuBefore: UInt64, waitBefore: UInt64 = 0,
      switchesBefore: Int64 = 0, depth: Int = 0, isInClass: Bool = false
    ) {
      (self.sequence, self.band, self.start) = (sequence, band, start)
      (self.cpuBefore, self.waitBefore, self.switchesBefore) = (cpuBefore, waitBefore, switchesBefore)
      (self.depth, self.isInClass) = (depth, isInClass)
    }
  }

  /// What the monitor is to do. Workers are named by their slots. Of steps that say so it tells the policy
  /// whether they were carried out.
  package enum Step: Sendable, Hashable {
    /// Another takes the token of a worker that is blocked.
    case replaceBlocked(Int)
    /// The job is lowered, and another takes the token. May be refused.
    case lower(Int, from: Int, to: Int)
    /// A fresh job goes on beside the run tokens at its level. May be refused.
    case yield(Int)
    /// The worker is counted among the demoted, and another takes the token. May be refused.
    case sink(Int)
    /// The same, beyond the limit, of a worker of a pool that its hogs starve. May be refused.
    case sinkStarving(Int)
    /// A demoted worker that is blocked is counted no more, so that another demoted job can begin.
    case uncount(Int)
    /// The worker, which had been replaced because it blocked, is counted among the demoted.
    case count(Int)
    /// The job continues at the kernel priority of demoted work.
    case endTrial(Int)
    /// The job continues at the kernel priority of its kind in that band.
    case setBand(Int, Band)
    /// The same, as a job that was not lowered: work of that band waits for it.
    case raise(Int, Band)
    /// Another takes the token of a worker whose job is not its pool's any more.
    case leavePool(Int)
    /// From now on, or no longer, a push calls the spare worker.
    case setStalled(Bool)
    /// Who was about to call the spare worker has had its time.
    case lookAtSpare
    case callSpare
    case watchAgain
  }

  /// How much room beside the run tokens a job may use that is lowered; see `opp_demotion`.
  package enum Room: Sendable, Hashable { case known, found, starves }

  /// The room for a step that lowers a job, or has it yield.
  package static func room(for step: Step, in pool: WorkerPool) -> Room {
    switch step {
    // Demoted foreground work must not exceed the limit of demoted workers there.
    case _ where pool == .background: .known
    case .yield: .known
    case .sinkStarving: .starves
    default: .found
    }
  }

  /// The last look at a worker; its CPU time shows whether the worker has run since.
  private struct Look {
    let sequence: UInt64
    let cpu: UInt64
    let at: UInt64
    /// The worker was runnable when its CPU time was this.
    var waitsForCPU = false
    /// The worker waited for the lock of the memory map, and was allowed to be replaced for that.
    var mayBeReplacedOnMap = false
  }

  private var looks: [Int: Look] = [:]
  /// How many jobs the workers had begun and ended at the last look.
  private var lastProgress: UInt64 = 0
  /// The CPU time of the pool's workers at the first look after a job was seen to begin or end; and when they
  /// were last asked for it.
  private var cpuAtProgress: UInt64?
  private var starvedLookAt: UInt64 = 0
  private var ordinary = OrdinaryLength()
  /// The workers' ordinary jobs at the last look in a quantum, and when that was.
  private var seenJobs: (count: UInt64, time: UInt64, at: UInt64)?
  /// The running jobs at the last look in a quantum.
  var running: [Int: Running] = [:]
  /// The band to which the worker's job has followed its app.
  private var followed: [Int: (job: UInt64, band: Band)] = [:]
  /// The CPU time of the pool's workers when extra room was last made.
  var cpuAtExtra: UInt64 = 0
  /// The delay of the spare worker at the last look at a pool in which something waited, in nanoseconds.
  package private(set) var spareDelay: UInt64 = 0

  package init() {}

  /// The worker of the slot has ended.
  package mutating func forget(_ slot: Int) {
    looks[slot] = nil
    running[slot] = nil
    followed[slot] = nil
  }

  // MARK: Lengths of time

  /// How long all of a pool's workers must have been inside their jobs before the spare worker is woken, in
  /// nanoseconds. At least `delay`, otherwise twice the CPU time that the pool's jobs ordinarily take,
  /// `quantum` at most. Work behind jobs of ordinary length waits because the CPUs are busy; one more thread
  /// would only contend with them.
  static func spareDelay(ordinary: UInt64, delay: UInt64, quantum: UInt64) -> UInt64 {
    max(delay, min(ordinary &* 2, quantum))
  }

  /// How long after a possible stall the pools are looked at, in nanoseconds: the least delay of the spare
  /// worker, or half of the shortest that a pool has, since looks would only disturb jobs that ordinarily
  /// take longer. The background has no spare worker, and is looked at once a quantum.
  ///
  /// - Parameter spareDelays: of each pool, ``spareDelay``.
  package static func watchDelay(
    spareDelays: some Sequence<(pool: WorkerPool, delay: UInt64)>, least: UInt64
  ) -> UInt64 {
    let shortest = spareDelays.lazy.filter { $0.pool != .background }.map(\.delay).min()
    return max(least, (shortest ?? least) / 2)
  }

  /// The CPU time after which a fresh job gives its run token to fresh work that waits, in nanoseconds: a
  /// millisecond, or as long as all workers must have been busy before the spare one is called.
  package static func lengthToYield(spareDelay: UInt64) -> UInt64 { max(spareDelay, 1_000_000) }

  /// How long a job must have been running before its blocked worker is replaced, in nanoseconds: `delay`,
  /// doubled with every eight workers per core that the pool has, a second at most. So a pool whose jobs all
  /// block soon has tens of workers, and then grows slowly. It does continue to grow, since what the blocked
  /// jobs wait for may be queued behind them.
  package static func patience(workers: Int, width: Int, delay: UInt64) -> UInt64 {
    min(delay << UInt64(min(14, workers / (8 * width))), max(delay, 1_000_000_000))
  }

  /// The CPU time of an ordinary job, averaged over the last few dozen. It is CPU time and not wall-clock
  /// time: hogs that slow ordinary jobs down must not lengthen the spare worker's delay.
  private struct OrdinaryLength {
    private(set) var nanoseconds: UInt64 = 0
    private var before: (count: UInt64, time: UInt64) = (0, 0)

    /// - Parameter jobs: the ordinary jobs of the workers so far, and their CPU time in nanoseconds.
    mutating func learn(_ jobs: (count: UInt64, time: UInt64)) {
      // The sums have decreased: a worker has ended, and its counts with it.
      guard jobs.count >= before.count, jobs.time >= before.time else {
        before = jobs
        return
      }
      let count = jobs.count - before.count
      guard count >= 16 else { return }
      let length = (jobs.time - before.time) / count
      nanoseconds = nanoseconds == 0 ? length : (nanoseconds + length) / 2
      before = jobs
    }
  }

  // MARK: Floods

  /// Whether the pool has so many short jobs that a second run token for each CPU only costs switches: since
  /// the last call they took 5 µs of CPU time at most, on average, and one ended in each 10 µs at least.
  /// (docs/decisions/0043)
  ///
  /// - Parameter jobs: the ordinary jobs of the workers so far, and their CPU time in nanoseconds.
  package mutating func isFlooded(jobs: (count: UInt64, time: UInt64), now: UInt64) -> Bool {
    defer { seenJobs = (jobs.count, jobs.time, now) }
    // The sums have decreased: a worker has ended, and its counts with it.
    guard let seenJobs, jobs.count > seenJobs.count, jobs.time >= seenJobs.time else { return false }
    let count = jobs.count - seenJobs.count
    return (jobs.time - seenJobs.time) / count <= 5000 && (now &- seenJobs.at) / count <= 10_000
  }

  // MARK: Blocked workers

  /// Whether the worker has hardly run since the last look at it. Asks for a clock and for nothing else: what
  /// the thread waits for is asked where a replacement may follow.
  private mutating func hasHardlyRun(_ slot: Int, _ job: Job, cpu: UInt64?, _ now: UInt64) -> Bool {
    guard let cpu else { return false }
    let last = looks[slot].flatMap { $0.sequence == job.sequence ? $0 : nil }
    var look = Look(sequence: job.sequence, cpu: cpu, at: now)
    // Who waited for a CPU cannot have blocked without having had one.
    look.waitsForCPU = last.map { $0.waitsForCPU && $0.cpu == cpu } ?? false
    looks[slot] = look
    return last.map { (cpu &- $0.cpu) * 20 < now &- $0.at } ?? false
  }

  /// Whether the worker, which has hardly run since the last look, is blocked, and a replacement would help.
  ///
  /// A worker that waits for the lock of the memory map is a special case (docs/decisions/0016). A
  /// replacement helps jobs that do not need the lock. But each further worker may wait for the lock too, and
  /// may preempt the lock's holder.
  private mutating func isBlocked(_ slot: Int, _ rules: Rules, _ sight: some PoolSight) -> Bool {
    guard looks[slot]?.waitsForCPU != true else { return false }
    switch sight.blocking {
    case .cpu:
      looks[slot]?.waitsForCPU = true
      return false
    case .blocked: return true
    // Background threads that get no CPU hold kernel locks for long; more of them would hold more.
    case .kernel: return rules.pool != .background || sight.workers <= 2 * rules.width
    case .memoryMap: return mayBeReplacedOnMap(slot, rules, sight)
    case .unknown: return false
    }
  }

  /// Whether the number of replaced workers of this pool that wait for the memory map is below the width.
  private mutating func mayBeReplacedOnMap(_ slot: Int, _ rules: Rules, _ sight: some PoolSight) -> Bool {
    guard rules.pool != .background else { return false }
    let others = looks.count { other, look in
      other != slot && look.mayBeReplacedOnMap && sight.stillWaitsForMemoryMap(other, job: look.sequence)
    }
    guard others < rules.width else { return false }
    looks[slot]?.mayBeReplacedOnMap = true
    return true
  }

  // MARK: Stalled pools

  /// A look at a pool in which fresh work waits while all run tokens may be in use. It is shown each worker.
  package struct StallLook: Sendable {
    fileprivate let now: UInt64
    fileprivate let delay: UInt64
    fileprivate let patience: UInt64
    /// A job has begun or ended since the last look.
    fileprivate let progresses: Bool
    /// The pool makes progress, or does so soon.
    fileprivate var isFlowing = false
    /// The spare worker, which has been inside its job for long too, and when that began.
    fileprivate var spare: (slot: Int, start: UInt64)?
  }

  /// Begins a look.
  ///
  /// - Parameters:
  ///   - workers: how many the pool has.
  ///   - progress: how many jobs they have begun and ended.
  ///   - ordinary: their ordinary jobs so far, and the CPU time of those in nanoseconds.
  package mutating func beginLook(
    workers: Int, progress: UInt64, ordinary jobs: (count: UInt64, time: UInt64), rules: Rules, now: UInt64
  ) -> StallLook {
    ordinary.learn(jobs)
    spareDelay = Self.spareDelay(
      ordinary: ordinary.nanoseconds, delay: rules.spareDelay, quantum: rules.quantum)
    let progresses = progress != lastProgress
    if progresses { cpuAtProgress = nil }
    lastProgress = progress
    return StallLook(
      now: now, delay: spareDelay,
      patience: Self.patience(workers: workers, width: rules.width, delay: spareDelay),
      progresses: progresses)
  }

  /// Looks at a worker.
  ///
  /// - Parameter refused: the step that this function has given for the worker in this look, and that was
  ///   refused; nil at first. If a step was carried out, ``carriedOut(in:)`` is called instead.
  /// - Returns: what is to be done; nil where nothing is.
  package mutating func step(
    in look: inout StallLook, for worker: Seen, after refused: Step? = nil, _ rules: Rules,
    _ sight: some PoolSight
  ) -> Step? {
    let slot = worker.slot
    guard worker.stance == .running || worker.stance == .spare else { return nil }
    guard let job = worker.job, look.now > job.start, look.now - job.start >= look.delay else {
      // The worker is between two jobs or inside a new one, so the pool makes progress. A spare worker that
      // has not begun yet does not count as progress: it would hide a stall.
      if worker.stance == .running { look.isFlowing = true }
      return nil
    }
    var step: Step?
    switch refused {
    case nil: step = firstStep(in: &look, slot, worker.depth, job, rules, sight)
    case .replaceBlocked: return nil
    case .lower: step = .sink(slot)  // it is lowered, and has kept its token
    case .sink: step = isStarved(rules, look.now, sight) ? .sinkStarving(slot) : nil
    default: break
    }
    if step == nil, worker.stance == .spare { look.spare = (slot, job.start) }
    return step
  }

  private mutating func firstStep(
    in look: inout StallLook, _ slot: Int, _ depth: Int, _ job: Job, _ rules: Rules, _ sight: some PoolSight
  ) -> Step? {
    let cpu = sight.cpuTime
    if hasHardlyRun(slot, job, cpu: cpu, look.now), look.now - job.start >= look.patience,
      isBlocked(slot, rules, sight)
    {
      look.isFlowing = true
      return .replaceBlocked(slot)
    }
    guard job.band != .background else { return nil }
    // A known hog that had exceeded the limit of demoted workers at an earlier look.
    if depth > 0 { return .sink(slot) }
    guard let used = cpu?.saturatingSubtract(job.cpuBefore) else { return nil }
    // Of a suspected origin a job is lowered before it has used its quantum, if something waits behind it: it
    // has had the CPU for longer than the pool's jobs ordinarily take.
    if used >= look.delay, sight.isSuspected {
      noteLowered(slot, job, to: 1)
      return .lower(slot, from: 0, to: 1)
    }
    // A fresh job that has had the CPU for long goes on beside the run tokens, so that fresh work that waits
    // begins before the job's quantum has ended: as long as known hogs have room, so that a flood of hogs
    // leaves room to those that will be found. (R-CPU-02, docs/decisions/0032)
    let mayYield = rules.pool == .foreground && job.band == .foreground && !job.isInClass
    return mayYield && used >= Self.lengthToYield(spareDelay: look.delay) && sight.hasRoomForKnown
      ? .yield(slot) : nil
  }

  /// A step of ``step(in:for:after:_:_:)`` was carried out: another worker has a token.
  package func carriedOut(in look: inout StallLook) { look.isFlowing = true }

  /// Ends a look, after the last worker.
  package func end(_ look: StallLook, _ rules: Rules) -> [Step] {
    var steps: [Step] = []
    // The spare worker has been inside its job for a quantum too, and no job has begun or ended since the
    // last look. It is counted as demoted, and another becomes the spare worker, within the limit of demoted
    // workers. Doing so earlier would be worse: the more hogs share the CPUs, the longer each takes to use
    // its quantum and become known.
    if !look.isFlowing, let spare = look.spare, !look.progresses, look.now - spare.start >= rules.quantum {
      steps.append(.sink(spare.slot))
    }
    let isStalled = !look.isFlowing && rules.pool != .background
    steps += [.setStalled(isStalled), .lookAtSpare]
    if isStalled { steps.append(.callSpare) }
    return steps + [.watchAgain]
  }

  /// Whether the pool is starved: its hogs have had the CPU for several quanta each, and none has ended. Asks
  /// for the clocks of all workers, hence at most once a quantum.
  private mutating func isStarved(_ rules: Rules, _ now: UInt64, _ sight: some PoolSight) -> Bool {
    guard cpuAtProgress == nil || now &- starvedLookAt >= rules.quantum else { return false }
    starvedLookAt = now
    let total = sight.cpuOfWorkers
    guard let begun = cpuAtProgress else {
      cpuAtProgress = total
      return false
    }
    return total > begun + 4 * rules.quantum * UInt64(sight.demoted + rules.width)
  }

  // MARK: Room for demoted work

  /// Looks at a worker of a pool in which demoted work waits: where the worker is blocked, such work begins
  /// in its place, since the blocked job may wait for it. A worker with a run token is replaced here too, for
  /// a stalled pool is looked at only where fresh work waits.
  package mutating func roomStep(
    for worker: Seen, now: UInt64, _ rules: Rules, _ sight: some PoolSight
  ) -> Step? {
    let isCounted = worker.stance == .demoted || worker.stance == .sunk
    guard let job = worker.job, isCounted ? !sight.hasRoomForKnown : worker.stance == .running,
      now > job.start, hasHardlyRun(worker.slot, job, cpu: sight.cpuTime, now),
      now - job.start
        >= Self.patience(workers: sight.workers, width: rules.width, delay: rules.spareDelay),
      isBlocked(worker.slot, rules, sight)
    else { return nil }
    return isCounted ? .uncount(worker.slot) : .replaceBlocked(worker.slot)
  }

  // MARK: Changes of band

  /// Looks at a worker whose job's app may have changed its band, since the job began or since the last such
  /// change.
  package mutating func bandSteps(for worker: Seen, _ sight: some PoolSight) -> [Step] {
    guard let job = worker.job, let band = sight.bandOfApp else { return [] }
    let last = followed[worker.slot].flatMap { $0.job == job.sequence ? $0.band : nil }
    guard band != last ?? job.band else { return [] }
    followed[worker.slot] = (job.sequence, band)
    let priority = Step.setBand(worker.slot, band)
    return sight.isOfAnotherPool(in: band) ? [priority, .leavePool(worker.slot)] : [priority]
  }

  /// Looks at a worker whose job is awaited by work of `band`. A job that stands as high already stays as it
  /// is, lowered or not.
  package static func raiseStep(for worker: Seen, to band: Band) -> Step? {
    guard let job = worker.job, band > job.band else { return nil }
    return .raise(worker.slot, band)
  }

  // MARK: Trials

  /// Looks at a worker whose job may be on trial. A job that has used the CPU for longer than the pool's jobs
  /// ordinarily do continues at the kernel priority of demoted work; of another the pool is looked at again.
  package func trialStep(for worker: Seen, _ rules: Rules, _ sight: some PoolSight) -> Step? {
    guard worker.isOnTrial else { return nil }
    // The worker may be about to begin the job.
    guard let job = worker.job, let cpu = sight.cpuTime,
      cpu.saturatingSubtract(job.cpuBefore) >= max(spareDelay, rules.spareDelay)
    else { return .watchAgain }
    return .endTrial(worker.slot)
  }
}
