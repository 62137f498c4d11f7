internal import COpportune
import Synchronization

/// One pool of one scheduler: its workers, and what the monitor knows of it. Run tokens, parked workers and
/// room for demoted work are in the C core.
final class PoolState: @unchecked Sendable {
  let pool: WorkerPool
  /// `mask`: the levels that the pool serves. `demotedMask`: those of them that hold only demoted foreground
  /// work. `loweredOnceMask`: of these the first ones, for work that was lowered once or is held back for its
  /// origin.
  let mask: UInt64
  let demotedMask: UInt64
  let loweredOnceMask: UInt64
  // Every access to the memory behind it is atomic.
  let raw: OpaquePointer
  /// The descriptors that parked workers wait for: of the foreground's pool, where the kernel has given it
  /// the two descriptors that it takes.
  let readiness: OpaquePointer?
  /// How many blocked workers were replaced.
  let replaced = Atomic<UInt64>(0)
  /// How many fresh jobs have given their run tokens to fresh work that waited.
  let yielded = Atomic<UInt64>(0)
  /// Monitor's thread only: what is done about jobs that are in the way of others.
  var policy = PoolPolicy()
  /// Monitor's thread only: workers by slot, of all slots that were ever in use.
  var workers: [Worker?] = []
  /// How many workers the pool can have, where threads are few.
  private let attainable = Atomic<Int>(.max)
  /// How many workers run at once at most: what targets of apps leave the background. Set by the monitor,
  /// which then resizes the pool.
  var cap: Int {
    get { limit.load(ordering: .relaxed) }
    set { limit.store(newValue, ordering: .relaxed) }
  }
  private let limit = Atomic<Int>(.max)
  /// How many workers are to end as soon as they have nothing to do.
  private let surplus = Atomic<Int>(0)
  /// Monitor's thread only: how many workers the pool may have.
  private(set) var mostWorkers = Int(OPP_POOL_WORKERS)
  var liveWorkers: Int { workers.count { $0 != nil } }

  // Monitor's thread only: sums over the workers.

  /// How many jobs they have begun and ended; for comparison.
  var progress: UInt64 { workers.reduce(0) { $0 &+ ($1?.report.count ?? 0) } }
  /// Their total CPU time, in nanoseconds.
  var cpuOfWorkers: UInt64 { workers.reduce(0) { $0 &+ ($1?.report.cpuTime ?? 0) } }
  /// How many of their jobs were ordinary, and the CPU time of those in nanoseconds.
  var ordinaryJobs: (count: UInt64, time: UInt64) {
    workers.reduce(into: (0, 0)) { sum, worker in
      guard let jobs = worker?.report.ordinaryJobs else { return }
      sum = (sum.count &+ jobs.count, sum.time &+ jobs.time)
    }
  }

  init(pool: WorkerPool, width: Int, configuration: SchedulerConfiguration) throws(SchedulerError) {
    guard let raw = opp_pool_create(UInt32(width)) else {
      throw SchedulerError(.outOfMemory, "no memory for the \(pool) pool")
    }
    self.raw = raw
    self.pool = pool
    readiness = pool == .foreground ? opp_readiness_create() : nil
    if let readiness { opp_pool_set_readiness(raw, readiness) }
    mask = configuration.bands.mask(of: pool, in: configuration)
    demotedMask = configuration.bands.demotedMask & mask
    loweredOnceMask = configuration.bands.loweredOnceMask & demotedMask
    opp_pool_set_levels(raw, mask, demotedMask, loweredOnceMask)
    setWidth(width, configuration)
  }

  deinit {
    // Of those whose end the monitor has not seen.
    for slot in workers.indices { WorkerReport(of: opp_pool_worker(raw, UInt32(slot))).stop() }
    opp_pool_destroy(raw)
    if let readiness { opp_readiness_destroy(readiness) }
  }

  func setWidth(_ width: Int, _ configuration: SchedulerConfiguration) {
    let workers = attainable.load(ordering: .relaxed)
    // While its jobs are many and short the pool has one for each CPU at most.
    let wanted = policy.isFlooded ? width : configuration.runTokens(of: pool, width: width)
    opp_pool_set_tokens(raw, UInt32(min(cap, ThreadShares.tokens(workers: workers, width: wanted))))
    let configured = width * configuration.demotedLimitPerCore
    opp_pool_set_demoted_limit(
      raw, UInt32(ThreadShares.demotedLimit(workers: workers, width: width, configured: configured)))
  }

  // MARK: Demoted work

  /// The levels that a worker may take now. All levels, until the limit of demoted workers is reached. Then
  /// only fresh work, and work that was lowered once where the monitor has granted extra room.
  var takeable: UInt64 { opp_pool_takeable(raw) }

  /// Whether one more worker may be counted among the demoted, for that reason, with `others` counted
  /// besides.
  func hasRoom(_ why: opp_demotion, beside others: Int = 0) -> Bool {
    demotedCount + others < Int(opp_pool_room(raw, why))
  }

  var demotedCount: Int { Int(opp_pool_demoted(raw)) }

  // MARK: Jobs on trial

  /// How many jobs that are held back for their origin run at the pool's own kernel priority.
  private let trials = Atomic<Int>(0)

  /// Begins a trial, unless `most` are running: a flood of such jobs must not contend with fresh work.
  func beginTrial(most: Int) -> Bool {
    // relaxed, here and below: a count that orders nothing.
    if trials.wrappingAdd(1, ordering: .relaxed).oldValue < most { return true }
    endTrial()
    return false
  }

  func endTrial() { trials.wrappingSubtract(1, ordering: .relaxed) }

  // MARK: Workers that cannot be had

  /// Sets how many workers the pool may have (`most`) and how many of them it can have at present
  /// (`attainable`). Called by the monitor. If it returns true, the second number has changed: call
  /// ``setWidth(_:_:)`` next.
  func share(most: Int, attainable: Int) -> Bool {
    mostWorkers = min(most, Int(OPP_POOL_WORKERS))
    let before = self.attainable.exchange(attainable, ordering: .relaxed)
    let surplus = max(0, liveWorkers - mostWorkers)
    self.surplus.store(surplus, ordering: .relaxed)
    // A woken worker looks for a job first, and then finds that it is to end.
    for _ in 0..<min(surplus, Int(opp_pool_sleeping(raw))) { _ = opp_pool_wake_spare(raw) }
    return attainable != before
  }

  /// Whether the pool has fewer workers, or lets fewer demoted jobs begin, than configured.
  func isShort(width: Int, _ configuration: SchedulerConfiguration) -> Bool {
    mostWorkers <= width || Int(opp_pool_demoted_limit(raw)) < width * configuration.demotedLimitPerCore
  }

  /// Called by a worker that has nothing to do: returns true if it must end, so that another pool can have
  /// its thread.
  func takeSurplus() -> Bool {
    // relaxed: a worker too many or too few does no harm; the monitor starts those that are missing.
    var left = surplus.load(ordering: .relaxed)
    while left > 0 {
      let (exchanged, original) = surplus.compareExchange(
        expected: left, desired: left - 1, ordering: .relaxed)
      if exchanged { return true }
      left = original
    }
    return false
  }

  /// Monitor's thread only: whether the last attempt to start a worker failed.
  var lacksWorker = false
  /// Monitor's thread only: when the next start may be tried, and by how long it was put off.
  private(set) var startsFrom: UInt64 = 0
  private var startPause: UInt64 = 0
  private var lackedAt: UInt64?

  /// Puts off the next start after the kernel has refused a thread, or memory was too short for its worker.
  /// Without a pause such starts would be repeated endlessly, each at the cost of a system call or more. The
  /// pause is a millisecond, then twice the previous one, an eighth of a second at most. Returns true for the
  /// first failure in a second.
  func putOffStart(at now: UInt64) -> Bool {
    let isFirst = !lackedLately(at: now)
    startPause = isFirst ? 1_000_000 : min(2 * startPause, 128_000_000)
    (startsFrom, lackedAt, lacksWorker) = (now + startPause, now, true)
    return isFirst
  }

  /// A thread was started. Whether its worker can begin shows later; until then no more starts are tried.
  func started(at now: UInt64) {
    lacksWorker = false
    if lackedLately(at: now) { startsFrom = now + startPause }
  }

  private func lackedLately(at now: UInt64) -> Bool { lackedAt.map { now < $0 + 1_000_000_000 } ?? false }
}
