internal import COpportune
import Synchronization

/// One pool of one scheduler: its workers, and what the monitor knows of it. Tokens, sleepers and places for
/// demoted work are in the C core.
final class PoolState: @unchecked Sendable {
  let pool: WorkerPool
  /// The levels it serves; those of them that hold only demoted foreground work; and of these the first, of
  /// work that was lowered once, or is held back for its origin.
  let mask: UInt64
  let demotedMask: UInt64
  let loweredOnceMask: UInt64
  // Every access to what it points to is atomic.
  let raw: OpaquePointer
  /// The monitor's own: the CPU time of the pool's workers when there was made more room last.
  private var cpuAtExtra: UInt64 = 0
  /// How many blocked workers' places others have taken.
  let replaced = Atomic<UInt64>(0)
  /// The monitor's own: how many jobs the workers had begun and ended at the last look.
  var lastProgress: UInt64 = 0
  /// The CPU time of the pool's workers at the first look after one of its jobs was seen to have begun or
  /// ended, and when that was last looked at.
  var cpuAtProgress: UInt64?
  var stoodLookAt: UInt64 = 0
  /// The monitor's own: workers by slot.
  var workers: [Worker?] = []
  /// How many workers it can have, where threads are few.
  private let attainable = Atomic<Int>(.max)
  /// How many workers are to end as soon as they have nothing to do.
  private let surplus = Atomic<Int>(0)
  /// The monitor's own: how many workers it may have.
  private(set) var mostWorkers = Int(OPP_POOL_WORKERS)
  var liveWorkers: Int { workers.count { $0 != nil } }

  init(pool: WorkerPool, width: Int, configuration: SchedulerConfiguration) throws(SchedulerError) {
    guard let raw = opp_pool_create(UInt32(width)) else {
      throw SchedulerError(.outOfMemory, "no memory for the \(pool) pool")
    }
    self.raw = raw
    self.pool = pool
    mask = configuration.bands.mask(of: pool, in: configuration)
    demotedMask = configuration.bands.demotedMask & mask
    loweredOnceMask = configuration.bands.loweredOnceMask & demotedMask
    opp_pool_set_levels(raw, mask, demotedMask, loweredOnceMask)
    setWidth(width, configuration)
  }

  deinit { opp_pool_destroy(raw) }

  func setWidth(_ width: Int, _ configuration: SchedulerConfiguration) {
    let workers = attainable.load(ordering: .relaxed)
    opp_pool_set_tokens(raw, UInt32(ThreadShares.tokens(workers: workers, width: width)))
    let configured = width * configuration.demotedLimitPerCore
    opp_pool_set_demoted_limit(
      raw, UInt32(ThreadShares.demotedLimit(workers: workers, width: width, configured: configured)))
  }

  /// The monitor's own: the jobs that ended ordinarily up to the last look that counted, and how much CPU
  /// time one took, on average over the last few dozen, nanoseconds. Not by the wall clock: what hogs beside
  /// them cost them is no reason to let them wait for longer.
  private var ordinaryBefore: (count: UInt64, time: UInt64) = (0, 0)
  private var ordinaryLength: UInt64 = 0
  /// What ``learnReserveDelay(least:quantum:)`` has returned last.
  private(set) var spareDelay: UInt64 = 0

  func learnReserveDelay(least: UInt64, quantum: UInt64) -> UInt64 {
    learnOrdinaryLength()
    spareDelay = Self.spareDelay(ordinary: ordinaryLength, delay: least, quantum: quantum)
    return spareDelay
  }

  private func learnOrdinaryLength() {
    var (count, time) = (UInt64(0), UInt64(0))
    for case let worker? in workers {
      let jobs = worker.report.ordinaryJobs
      count &+= jobs.count
      time &+= jobs.time
    }
    // Fewer than before: a worker has gone, with its counts.
    guard count >= ordinaryBefore.count, time >= ordinaryBefore.time else {
      ordinaryBefore = (count, time)
      return
    }
    let jobs = count - ordinaryBefore.count
    guard jobs >= 16 else { return }
    let length = (time - ordinaryBefore.time) / jobs
    ordinaryLength = ordinaryLength == 0 ? length : (ordinaryLength + length) / 2
    ordinaryBefore = (count, time)
  }

  /// How long all of a pool's workers must have been inside their jobs before the spare worker is woken, in
  /// nanoseconds: at least `delay`, and twice the CPU time that its jobs ordinarily take, `quantum` at most.
  /// What waits behind jobs of ordinary length waits because the CPUs are busy, and one more thread would
  /// only contend with them.
  static func spareDelay(ordinary: UInt64, delay: UInt64, quantum: UInt64) -> UInt64 {
    max(delay, min(ordinary &* 2, quantum))
  }

  /// How long a job must have been running before its blocked worker is replaced, in nanoseconds: `delay`,
  /// doubled with every eight workers a core that the pool has, a second at most. A pool whose jobs all block
  /// is soon made up to tens of threads and then grows slowly; it does grow, since what they wait for may be
  /// queued behind them.
  static func patience(workers: Int, width: Int, delay: UInt64) -> UInt64 {
    min(delay << UInt64(min(14, workers / (8 * width))), max(delay, 1_000_000_000))
  }

  // MARK: Demoted work

  /// What a worker may take now: all; with the bound of demoted workers reached, fresh work, and what was
  /// lowered only once where the monitor has made extra room.
  var takeable: UInt64 { opp_pool_takeable(raw) }

  /// The monitor's, once a quantum while such jobs wait; among them may be a short one, held back for its
  /// origin. One more may begin, a hog for each two quanta that the pool's workers have had the CPUs. True
  /// where there is more room than before.
  func makeExtraRoom(cpuOfWorkers: UInt64, quantum: UInt64, width: Int) -> Bool {
    guard !hasRoom(.OPP_DEMOTION_ONCE) else { return false }
    let due = cpuAtExtra.saturatingAdd(2 * quantum * UInt64(width))
    if cpuOfWorkers < cpuAtExtra { cpuAtExtra = cpuOfWorkers }  // workers have ended
    guard cpuOfWorkers >= due || cpuAtExtra == 0, opp_pool_add_room(raw) else { return false }
    cpuAtExtra = cpuOfWorkers
    return true
  }

  /// Whether one more may be counted among the demoted, for that reason, if as many `others` are.
  func hasRoom(_ why: opp_demotion, beside others: Int = 0) -> Bool {
    demotedCount + others < Int(opp_pool_room(raw, why))
  }

  /// Whether demoted work waits for a place.
  func demotedWait(_ core: OpaquePointer) -> Bool { demotedMask != 0 && opp_has_ready(core, demotedMask) }

  var demotedCount: Int { Int(opp_pool_demoted(raw)) }

  // MARK: Jobs on trial

  /// How many jobs that are held back for their origin run at the pool's own kernel priority.
  private let trials = Atomic<Int>(0)

  /// One more, unless there are `most`: a flood of such jobs is not to contend with fresh work.
  func beginTrial(most: Int) -> Bool {
    // relaxed, here and below: a count that orders nothing.
    if trials.wrappingAdd(1, ordering: .relaxed).oldValue < most { return true }
    endTrial()
    return false
  }

  func endTrial() { trials.wrappingSubtract(1, ordering: .relaxed) }

  // MARK: Workers that cannot be had

  /// The monitor's: the pool may have `most` workers from now on, and can have `attainable` of them as things
  /// are. True if it could have another number before; follow that by ``setWidth(_:_:)``.
  func share(most: Int, attainable: Int) -> Bool {
    mostWorkers = min(most, Int(OPP_POOL_WORKERS))
    let before = self.attainable.exchange(attainable, ordering: .relaxed)
    let surplus = max(0, liveWorkers - mostWorkers)
    self.surplus.store(surplus, ordering: .relaxed)
    // Who sleeps looks for a job first, and finds that it is to end when there is none.
    for _ in 0..<min(surplus, Int(opp_pool_sleeping(raw))) { _ = opp_pool_wake_spare(raw) }
    return attainable != before
  }

  /// Whether it has fewer workers, or lets fewer demoted jobs begin, than it would.
  func isShort(width: Int, _ configuration: SchedulerConfiguration) -> Bool {
    mostWorkers <= width || Int(opp_pool_demoted_limit(raw)) < width * configuration.demotedLimitPerCore
  }

  /// Whether a worker that has nothing to do is to end, so that another pool can have its thread; it has to,
  /// then.
  func takeSurplus() -> Bool {
    // relaxed: one that stays for longer, or goes in vain, does no harm; the monitor starts what is wanted.
    var left = surplus.load(ordering: .relaxed)
    while left > 0 {
      let (exchanged, original) = surplus.compareExchange(
        expected: left, desired: left - 1, ordering: .relaxed)
      if exchanged { return true }
      left = original
    }
    return false
  }

  /// The monitor's own: whether another worker was to be started and could not be.
  var lacksWorker = false
  /// The monitor's own: when the next start may be tried, and how long that was put off.
  private(set) var startsFrom: UInt64 = 0
  private var startPause: UInt64 = 0
  private var lackedAt: UInt64?

  /// The kernel refused a thread, or memory was too short for its worker. Such starts would follow each other
  /// without end, each a system call or more: the next comes after a millisecond, or twice the pause before,
  /// an eighth of a second at most. True if this is the first for long.
  func putOffStart(at now: UInt64) -> Bool {
    let isFirst = !lackedLately(at: now)
    startPause = isFirst ? 1_000_000 : min(2 * startPause, 128_000_000)
    (startsFrom, lackedAt, lacksWorker) = (now + startPause, now, true)
    return isFirst
  }

  /// A thread was given. Whether its worker comes about shows later, and meanwhile no more are tried.
  func started(at now: UInt64) {
    lacksWorker = false
    if lackedLately(at: now) { startsFrom = now + startPause }
  }

  private func lackedLately(at now: UInt64) -> Bool { lackedAt.map { now < $0 + 1_000_000_000 } ?? false }
}
