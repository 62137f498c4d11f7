internal import OpportuneBase

/// What the monitor does where jobs of a pool are in the way of others.
///
/// A pure value, without a clock and without threads: it is shown the workers one after the other and gives
/// steps, which the monitor carries out (``PolicedPool``). A step may be refused, as where no room is left;
/// then the policy says what is to be done instead. The same sights and answers give the same steps. Only for
/// the monitor's thread.
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

  /// What the monitor is to do. Workers are named by their slots.
  package enum Step: Sendable, Hashable {
    /// Another takes the token of a worker that is blocked. May be refused.
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
    /// The job continues at the kernel priority of its kind in that band, lowered as deep as that.
    case setBand(Int, Band, depth: Int)
    /// Another takes the token of a worker whose job is not its pool's any more.
    case leavePool(Int)
    /// From now on, or no longer, a push calls the spare worker.
    case setStalled(Bool)
    /// Who was about to call the spare worker has had its time.
    case lookAtSpare
    case callSpare
    case watchAgain
    /// One more of the jobs that were lowered once may begin. May be refused.
    case addRoom
    /// The pool has one run token for each CPU from now on; or has as many as it is configured for.
    case setFlooded(Bool)
    /// A worker is woken for what waits, as for a job that was left to a worker whose slice goes on.
    case wakeIfReady

    /// The worker that it is about; nil where it is about the pool.
    package var slot: Int? {
      switch self {
      case .replaceBlocked(let slot), .lower(let slot, _, _), .yield(let slot), .sink(let slot),
        .sinkStarving(let slot), .uncount(let slot), .count(let slot), .endTrial(let slot),
        .setBand(let slot, _, _), .leavePool(let slot):
        slot
      case .setStalled, .lookAtSpare, .callSpare, .watchAgain, .addRoom, .setFlooded, .wakeIfReady: nil
      }
    }
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
  fileprivate struct Look: Sendable {
    let sequence: UInt64
    let cpu: UInt64
    let at: UInt64
    /// The worker was runnable when its CPU time was this.
    var waitsForCPU = false
    /// The worker waited for the lock of the memory map, and was allowed to be replaced for that.
    var mayBeReplacedOnMap = false
  }

  /// What is remembered of a worker from look to look. It is kept with the worker, and ends with it.
  package struct Notes: Sendable {
    fileprivate var look: Look?
    /// The running job at the last look in a quantum.
    var running: Running?
    /// How the running job has come to another band.
    var change: BandChange?

    package init() {}

    /// Whether the worker was allowed to be replaced during that job, as one that waits for the lock of the
    /// memory map.
    package func isReplacedOnMap(job sequence: UInt64) -> Bool {
      look.map { $0.sequence == sequence && $0.mayBeReplacedOnMap } ?? false
    }
  }

  /// How many jobs the workers had begun and ended at the last look.
  private var lastProgress: UInt64 = 0
  /// The CPU time of the pool's workers at the first look after a job was seen to begin or end; and when they
  /// were last asked for it.
  private var cpuAtProgress: UInt64?
  private var starvedLookAt: UInt64 = 0
  private var ordinary = OrdinaryLength()
  /// The workers' ordinary jobs at the last look in a quantum, and when that was.
  private var seenJobs: (count: UInt64, time: UInt64, at: UInt64)?
  /// Whether the pool was flooded at that look; see ``floodStep(for:now:)``.
  package private(set) var isFlooded = false
  /// The CPU time of the pool's workers when extra room was last made.
  var cpuAtExtra: UInt64 = 0
  /// The same when it was last asked whether to make some.
  var cpuAtRoomLook: UInt64 = 0
  /// The delay of the spare worker at the last look at a pool in which something waited, in nanoseconds.
  package private(set) var spareDelay: UInt64 = 0

  package init() {}

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

  /// A pool is flooded that has so many short jobs that a second run token for each CPU only costs switches:
  /// since the last look they took 5 µs of CPU time at most, on average, and one ended in each 10 µs at
  /// least. (docs/decisions/0043)
  package mutating func floodStep(for pool: some PoolSight, now: UInt64) -> Step? {
    guard pool.rules.pool == .foreground else { return nil }
    let was = isFlooded
    isFlooded = seesFlood(jobs: pool.ordinaryJobs, now: now)
    return isFlooded == was ? nil : .setFlooded(isFlooded)
  }

  private mutating func seesFlood(jobs: (count: UInt64, time: UInt64), now: UInt64) -> Bool {
    defer { seenJobs = (jobs.count, jobs.time, now) }
    // The sums have decreased: a worker has ended, and its counts with it.
    guard let seenJobs, jobs.count > seenJobs.count, jobs.time >= seenJobs.time else { return false }
    let count = jobs.count - seenJobs.count
    return (jobs.time - seenJobs.time) / count <= 5000 && (now &- seenJobs.at) / count <= 10_000
  }

  // MARK: Blocked workers

  /// Whether the worker has hardly run since the last look at it. Asks for a clock and for nothing else: what
  /// the thread waits for is asked where a replacement may follow.
  private static func hasHardlyRun(_ notes: inout Notes, _ job: Job, cpu: UInt64?, _ now: UInt64) -> Bool {
    guard let cpu else { return false }
    let last = notes.look.flatMap { $0.sequence == job.sequence ? $0 : nil }
    var look = Look(sequence: job.sequence, cpu: cpu, at: now)
    // Who waited for a CPU cannot have blocked without having had one.
    look.waitsForCPU = last.map { $0.waitsForCPU && $0.cpu == cpu } ?? false
    notes.look = look
    return last.map { (cpu &- $0.cpu) * 20 < now &- $0.at } ?? false
  }

  /// Whether the worker, which has hardly run since the last look, is blocked, and a replacement would help.
  ///
  /// A worker that waits for the lock of the memory map is a special case (docs/decisions/0016). A
  /// replacement helps jobs that do not need the lock. But each further worker may wait for the lock too, and
  /// may preempt the lock's holder.
  private static func isBlocked(_ notes: inout Notes, _ sight: some WorkerSight) -> Bool {
    guard notes.look?.waitsForCPU != true else { return false }
    let rules = sight.pool.rules
    switch sight.blocking {
    case .cpu:
      notes.look?.waitsForCPU = true
      return false
    case .blocked: return true
    // Background threads that get no CPU hold kernel locks for long; more of them would hold more.
    case .kernel: return rules.pool != .background || sight.pool.workerCount <= 2 * rules.width
    case .memoryMap:
      // As many as there are CPUs.
      guard rules.pool != .background, sight.replacedOnMap < rules.width else { return false }
      notes.look?.mayBeReplacedOnMap = true
      return true
    case .unknown: return false
    }
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
  package mutating func beginLook(at pool: some PoolSight, now: UInt64) -> StallLook {
    let (rules, progress) = (pool.rules, pool.progress)
    ordinary.learn(pool.ordinaryJobs)
    spareDelay = Self.spareDelay(
      ordinary: ordinary.nanoseconds, delay: rules.spareDelay, quantum: rules.quantum)
    let progresses = progress != lastProgress
    if progresses { cpuAtProgress = nil }
    lastProgress = progress
    return StallLook(
      now: now, delay: spareDelay,
      patience: Self.patience(workers: pool.workerCount, width: rules.width, delay: spareDelay),
      progresses: progresses)
  }

  /// Looks at a worker.
  ///
  /// - Parameter refused: the step that this function has given for the worker in this look, and that was
  ///   refused; nil at first. If a step was carried out, ``carriedOut(in:)`` is called instead.
  /// - Returns: what is to be done; nil where nothing is.
  package mutating func step(
    in look: inout StallLook, for worker: Seen, _ notes: inout Notes, after refused: Step? = nil,
    _ sight: some WorkerSight
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
    case nil: step = firstStep(in: look, worker, &notes, job, sight)
    case .lower: step = .sink(slot)  // it is lowered, and has kept its token
    case .sink: step = isStarved(sight.pool, look.now) ? .sinkStarving(slot) : nil
    default: break
    }
    if step == nil, worker.stance == .spare { look.spare = (slot, job.start) }
    return step
  }

  private func firstStep(
    in look: StallLook, _ worker: Seen, _ notes: inout Notes, _ job: Job, _ sight: some WorkerSight
  ) -> Step? {
    let (slot, cpu) = (worker.slot, sight.cpuTime)
    if Self.hasHardlyRun(&notes, job, cpu: cpu, look.now), look.now - job.start >= look.patience,
      Self.isBlocked(&notes, sight)
    {
      return .replaceBlocked(slot)
    }
    guard job.band != .background else { return nil }
    // A known hog that had exceeded the limit of demoted workers at an earlier look.
    if worker.depth > 0 { return .sink(slot) }
    guard let used = cpu?.saturatingSubtract(job.cpuBefore) else { return nil }
    // Of a suspected origin a job is lowered before it has used its quantum, if something waits behind it: it
    // has had the CPU for longer than the pool's jobs ordinarily take.
    if used >= look.delay, sight.isSuspected {
      notes.wasLowered(job, to: 1)
      return .lower(slot, from: 0, to: 1)
    }
    // A fresh job that has had the CPU for long goes on beside the run tokens, so that fresh work that waits
    // begins before the job's quantum has ended: as long as known hogs have room, so that a flood of hogs
    // leaves room to those that will be found. (R-CPU-02, docs/decisions/0032)
    let mayYield = sight.pool.rules.pool == .foreground && job.band == .foreground && !job.isInClass
    return mayYield && used >= Self.lengthToYield(spareDelay: look.delay) && sight.pool.hasRoomForKnown
      ? .yield(slot) : nil
  }

  /// A step of ``step(in:for:_:after:_:)`` was carried out: another worker has a token.
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
  private mutating func isStarved(_ pool: some PoolSight, _ now: UInt64) -> Bool {
    let rules = pool.rules
    guard cpuAtProgress == nil || now &- starvedLookAt >= rules.quantum else { return false }
    starvedLookAt = now
    let total = pool.cpuOfWorkers
    guard let begun = cpuAtProgress else {
      cpuAtProgress = total
      return false
    }
    return total > begun + 4 * rules.quantum * UInt64(pool.demotedCount + rules.width)
  }

  // MARK: Room for demoted work

  /// Looks at a worker of a pool in which demoted work waits: where the worker is blocked, such work begins
  /// in its place, since the blocked job may wait for it. A worker with a run token is replaced here too, for
  /// a stalled pool is looked at only where fresh work waits.
  package func roomStep(
    for worker: Seen, _ notes: inout Notes, now: UInt64, _ sight: some WorkerSight
  ) -> Step? {
    let isCounted = worker.stance == .demoted || worker.stance == .sunk
    let (pool, rules) = (sight.pool, sight.pool.rules)
    guard let job = worker.job, isCounted ? !pool.hasRoomForKnown : worker.stance == .running,
      now > job.start, Self.hasHardlyRun(&notes, job, cpu: sight.cpuTime, now),
      now - job.start
        >= Self.patience(workers: pool.workerCount, width: rules.width, delay: rules.spareDelay),
      Self.isBlocked(&notes, sight)
    else { return nil }
    return isCounted ? .uncount(worker.slot) : .replaceBlocked(worker.slot)
  }

  // MARK: Trials

  /// Looks at a worker whose job may be on trial. A job that has used the CPU for longer than the pool's jobs
  /// ordinarily do continues at the kernel priority of demoted work; of another the pool is looked at again.
  package func trialStep(for worker: Seen, _ rules: Rules, _ sight: some WorkerSight) -> Step? {
    guard worker.isOnTrial else { return nil }
    // The worker may be about to begin the job.
    guard let job = worker.job, let cpu = sight.cpuTime,
      cpu.saturatingSubtract(job.cpuBefore) >= max(spareDelay, rules.spareDelay)
    else { return .watchAgain }
    return .endTrial(worker.slot)
  }
}
