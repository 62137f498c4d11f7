internal import COpportune
import Glibc
import Synchronization

/// Locks of the program's own, which its foreground shares with its background: a job of the foreground that
/// is off the CPU may wait for a thread that has none. Who holds the lock is seen, and helped on.
/// (docs/sharing.md)
extension Monitor {
  /// What the looks have found and done.
  struct Locks {
    var policy = InversionPolicy(limit: 1_000_000_000)
    var lastRan: [ObjectIdentifier: LastRan] = [:]
    var helps: [InversionPolicy.Slice: Help] = [:]
    /// Until when the looks go on at ``interval``.
    var waryUntil: UInt64 = 0
    var hasWarned = false

    /// Between two looks once an inversion has been seen; and how long a job must have been off the CPU
    /// until it is asked what for.
    static let interval: UInt64 = 500_000
    static let patience: UInt64 = 300_000
    /// How long the looks go on after the last inversion: who has had one will have more.
    static let wariness: UInt64 = 10_000_000_000
    /// How many waits one look follows.
    static let most = 64
  }

  /// A worker inside one job, at the look from which on it has used no CPU time.
  struct LastRan {
    let sequence: UInt64
    let cpu: UInt64
    let at: UInt64
    /// Its wait is not for a lock, which cannot change before it runs again.
    var isElsewhere = false
  }

  /// What was done for the holder of a lock.
  struct Help {
    let holder: Worker
    let reading: WorkerReport.Reading
    let waiter: KernelPriority
    /// As it was before.
    var before: KernelPriority
    /// It has the waiter's priority now; nil where the process may not raise it.
    var given: KernelPriority?
    /// Hogs that do not run on a CPU for its sake; and those that were lowered.
    var away: [(hog: Worker, cpu: Int32)] = []
    var lowered: [(hog: Worker, reading: WorkerReport.Reading, before: KernelPriority)] = []
  }

  /// Looks whether a job of the foreground waits for a lock, and helps who holds it. It costs a look at a
  /// clock for each worker inside such a job; what a job waits for is asked only once it has used no CPU time
  /// for a while.
  func lookAtLocks(_ engine: Engine) {
    let now = opp_now_ns()
    var waits: [InversionPolicy.Wait] = []
    var isInside = false
    for pool in engine.pools where pool.pool != .background {
      for case let worker? in pool.workers {
        let key = ObjectIdentifier(worker)
        guard let reading = worker.report.read(), reading.band > .background else {
          locks.lastRan[key] = nil
          continue
        }
        isInside = true
        if isOff(worker, key, reading, now) { follow(worker, reading, into: &waits, engine) }
      }
    }
    for action in locks.policy.look(waits, now: now) {
      switch action {
      case .help(let slice, let priority): help(slice, as: priority, now, engine)
      case .leave(let slice): if let help = locks.helps.removeValue(forKey: slice) { undo(help, engine) }
      }
    }
    for slice in Array(locks.helps.keys) { goOnHelping(slice, engine) }
    isWary.store(now < locks.waryUntil, ordering: .relaxed)  // a hint to who begins a job
    if locks.policy.isHelping || isInside && now < locks.waryUntil { armLocks() }
  }

  /// Whether the worker has used no CPU time for a while, and it is not known yet that it waits elsewhere.
  private func isOff(
    _ worker: Worker, _ key: ObjectIdentifier, _ reading: WorkerReport.Reading, _ now: UInt64
  ) -> Bool {
    guard let cpu = worker.report.cpuTime else { return false }
    let last = locks.lastRan[key].flatMap { $0.sequence == reading.sequence ? $0 : nil }
    let (since, before) = last.map { ($0.at, $0.cpu) } ?? (reading.start, reading.cpuBefore)
    let (elapsed, used) = (now.saturatingSubtract(since), cpu.saturatingSubtract(before))
    if let last, used * 20 < elapsed { return elapsed >= Locks.patience && !last.isElsewhere }
    locks.lastRan[key] = LastRan(sequence: reading.sequence, cpu: cpu, at: now)
    // It may be off the CPU by now, where the last look was not just before: that shows at the next, soon.
    let isLong = last == nil || elapsed > 4 * Locks.interval
    if isLong, elapsed.saturatingSubtract(used) >= Locks.patience { stayWary(for: 2 * Locks.interval, now) }
    return false
  }

  private func stayWary(for time: UInt64, _ now: UInt64) {
    locks.waryUntil = max(locks.waryUntil, now + time)
  }

  /// Adds the wait of a worker, if it is one for a lock that another worker holds, and those of who holds it.
  private func follow(
    _ waiter: Worker, _ reading: WorkerReport.Reading, into waits: inout [InversionPolicy.Wait],
    _ engine: Engine
  ) {
    var (waiter, reading, isForeground) = (waiter, reading, true)
    while waits.count < Locks.most {
      let slice = InversionPolicy.Slice(waiter, reading)
      guard let lock = lockWait(waiter) else {
        locks.lastRan[ObjectIdentifier(waiter)]?.isElsewhere = true
        return
      }
      guard waiter.report.isStillInside(reading), let holder = worker(ofThread: lock.holder, engine),
        holder !== waiter, let held = holder.report.read()
      else { return }
      let isKnown = waits.contains { $0.waiter.slice == slice && $0.isForeground == isForeground }
      waits.append(
        InversionPolicy.Wait(
          waiter: party(waiter, reading, engine), holder: party(holder, held, engine),
          isForeground: isForeground))
      if isKnown { return }
      (waiter, reading, isForeground) = (holder, held, false)
    }
  }

  private func lockWait(_ worker: Worker) -> opp_lock_wait? {
    var wait = opp_lock_wait()
    guard let meter = worker.report.meter, opp_thread_meter_lock_wait(meter, &wait) == 1 else { return nil }
    return wait
  }

  private func worker(ofThread thread: Int32, _ engine: Engine) -> Worker? {
    for pool in engine.pools {
      for case let worker? in pool.workers where worker.report.threadID == thread { return worker }
    }
    return nil
  }

  private func party(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine)
    -> InversionPolicy.Party
  {
    let slice = InversionPolicy.Slice(worker, reading)
    let own = locks.helps[slice]?.before ?? priority(worker, reading, engine)
    return InversionPolicy.Party(slice: slice, priority: own)
  }

  /// That the worker's thread has now.
  private func priority(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) -> KernelPriority
  {
    if let changed = worker.report.changed { return changed }
    let pool = worker.pool
    guard reading.depth > 0, pool.demotedMask != 0, !worker.isOnTrial else {
      return engine.priority(of: pool.pool)
    }
    let level = engine.configuration.bands.level(band: reading.band, rank: reading.rank)
    return engine.priority(of: pool.pool, level: level, depth: reading.depth)
  }

  // MARK: Help

  private func help(
    _ slice: InversionPolicy.Slice, as waiter: KernelPriority, _ now: UInt64, _ engine: Engine
  ) {
    guard let holder = worker(ofThread: slice.thread, engine), let reading = holder.report.read(),
      reading.sequence == slice.job
    else { return }
    let isNew = locks.helps[slice] == nil
    let before = locks.helps[slice]?.before ?? priority(holder, reading, engine)
    // The real-time class is for the jobs of its own pool.
    let given = waiter.policy == .roundRobin ? engine.priority(of: .foreground) : waiter
    let mayRaise = engine.privileges.canRaise || given.policy == before.policy && given.nice >= before.nice
    let isRaised = mayRaise && holder.report.setPriority(given, during: reading)
    if isNew {
      lockCounts.inversions.add(1, ordering: .relaxed)  // statistics, all three
      if isRaised { lockCounts.raised.add(1, ordering: .relaxed) }
      stayWary(for: Locks.wariness, now)
      warn(holder, reading, engine)
    }
    var help =
      locks.helps[slice] ?? Help(holder: holder, reading: reading, waiter: given, before: before)
    help.given = isRaised ? given : nil
    locks.helps[slice] = help
  }

  /// Others may have come to its CPU, or it to another's; and who was raised may have been lowered for
  /// another reason.
  private func goOnHelping(_ slice: InversionPolicy.Slice, _ engine: Engine) {
    guard var help = locks.helps[slice], help.holder.report.isStillInside(help.reading) else { return }
    if let given = help.given {
      guard let changed = help.holder.report.changed, changed != given else { return }
      help.before = changed
      help.given = help.holder.report.setPriority(given, during: help.reading) ? given : nil
    } else {
      makeRoom(for: &help, engine)
    }
    locks.helps[slice] = help
  }

  /// If the holder cannot be raised, demoted foreground jobs are moved to other CPUs meanwhile. Any user may
  /// undo that, but not a lowering. So a job is lowered only where there is no other CPU.
  private func makeRoom(for help: inout Help, _ engine: Engine) {
    guard let meter = help.holder.report.meter else { return }
    let cpu = opp_thread_meter_cpu_number(meter)
    guard cpu >= 0 else { return }
    for pool in engine.pools where pool.pool == .foreground {
      for case let hog? in pool.workers where hog !== help.holder && hog.depth > 0 {
        guard !help.away.contains(where: { $0.hog === hog && $0.cpu == cpu }),
          let reading = hog.report.read(), let hogMeter = hog.report.meter,
          opp_thread_meter_cpu_number(hogMeter) == cpu
        else { continue }
        let now = priority(hog, reading, engine)
        guard now.outranks(help.before) else { continue }
        let left = opp_thread_leave_cpu(hog.report.threadID, cpu)
        if left == 1 {
          help.away.append((hog, cpu))
        } else if left == -EINVAL, hog.report.setPriority(help.before, during: reading) {
          help.lowered.append((hog, reading, now))
        } else {
          continue
        }
        if help.away.count + help.lowered.count == 1 { lockCounts.cleared.add(1, ordering: .relaxed) }
      }
    }
  }

  private func undo(_ help: Help, _ engine: Engine) {
    for (hog, cpu) in help.away where worker(ofThread: hog.report.threadID, engine) === hog {
      _ = opp_thread_return_to_cpu(hog.report.threadID, cpu)
    }
    for (hog, reading, before) in help.lowered where hog.report.changed == help.before {
      _ = hog.report.setPriority(before, during: reading)
    }
    // Not where it has got another since: that is for another reason.
    if let given = help.given, help.holder.report.changed == given {
      _ = help.holder.report.setPriority(help.before, during: help.reading)
    }
  }

  /// Once: the program can do better than to have it mended each time.
  private func warn(_ holder: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) {
    guard !locks.hasWarned else { return }
    locks.hasWarned = true
    engine.log(
      .notice, "foreground work waits for a lock that lower work holds; see docs/sharing.md",
      ["holder": "\(app(at: reading.app)?.name ?? "an app that is gone")"])
  }
}

extension InversionPolicy.Slice {
  init(_ worker: Worker, _ reading: WorkerReport.Reading) {
    self.init(thread: worker.report.threadID, job: reading.sequence)
  }
}

/// How often foreground work was seen to wait for lower work that held a lock, and what was done. Any thread.
struct LockCounts: ~Copyable, Sendable {
  let inversions = Atomic<UInt64>(0)
  let raised = Atomic<UInt64>(0)
  let cleared = Atomic<UInt64>(0)
}
