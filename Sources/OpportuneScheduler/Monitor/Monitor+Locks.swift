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
    var helps: [InversionPolicy.Slice: Help] = [:]
    var hasWarned = false
    /// The monitor is among those for whose sake the looks are.
    var isInside = false
    /// The next look leaves out nobody; set once a quantum.
    var isThorough = false

    /// How many waits one look follows.
    static let most = 64
  }

  /// The workers inside jobs at one look, as far as locks are concerned.
  private struct Insiders {
    var kinds: LockWatch.Kinds = []
    /// The highest of the foreground's lowered ones, but such as wait elsewhere for long; and the lowest of
    /// all.
    private var highestLowered = Int.min
    private var lowest = Int.max

    mutating func add(_ reading: WorkerReport.Reading, depth: Int, rests: Bool) {
      let standing = reading.band == .background ? .min : -depth
      lowest = min(lowest, standing)
      // Who rests waits for no lock; one that is fresh holds none that matters.
      let kind: LockWatch.Kinds = rests ? (standing < 0 ? .low : []) : .init(reading.band, depth: depth)
      kinds.insert(kind)
      if kind == .lowered { highestLowered = max(highestLowered, standing) }
    }

    /// Those among which one may wait for a lock of another that stands lower.
    var inverting: LockWatch.Kinds {
      var some: LockWatch.Kinds = []
      if kinds.contains(.fresh), lowest < 0 { some.formUnion([.fresh, .low]) }
      if lowest < highestLowered { some.insert(.lowered) }
      return some
    }
  }

  /// A job of the foreground that may wait for a lock, and its CPU clock.
  private struct Suspect {
    let worker: Worker
    let reading: WorkerReport.Reading
    let cpu: UInt64
  }

  /// What one look has learned.
  private struct Survey {
    var waits: [InversionPolicy.Wait] = []
    /// What each thread said that was asked: the holder of a lock is asked once, for all that wait for it.
    var answers: [Int32: opp_lock_wait?] = [:]
  }

  /// What was done for the holder of a lock.
  struct Help {
    let holder: Worker
    let reading: WorkerReport.Reading
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
    lockCounts.looks.add(1, ordering: .relaxed)  // a statistic
    let now = opp_now_ns()
    let isThorough = locks.isThorough
    locks.isThorough = false
    var suspects: [InversionPolicy.Slice: Suspect] = [:]
    var inside = Insiders()
    for pool in engine.pools {
      for case let worker? in pool.workers {
        let reading = worker.report.read()
        guard let reading, reading.band > .background else {
          worker.notes.locks = LockWatch()
          if let reading { inside.add(reading, depth: worker.depth, rests: true) }
          continue
        }
        let job = reading.sequence
        if isThorough || !worker.notes.locks.rests(job, now: now),
          worker.notes.locks.needsClock(job, start: reading.start, now: now),
          let cpu = worker.report.cpuTime,
          worker.notes.locks.look(
            job, start: reading.start, cpuBefore: reading.cpuBefore, cpu: cpu, now: now)
        {
          if worker.report.keepsPriority {  // see Worker.waiting()
            worker.notes.locks.waitsElsewhere(job, cpu: cpu, now: now)
          } else {
            suspects[.init(worker, reading)] = Suspect(worker: worker, reading: reading, cpu: cpu)
          }
        }
        inside.add(reading, depth: worker.depth, rests: worker.notes.locks.rests(job, now: now))
      }
    }
    // Who is helped is helped while somebody is known to wait for it: then all are asked.
    let asked =
      locks.policy.isIdle
      ? LockWatch.choose(suspects.map { ($0.key, $0.value.worker.notes.locks.waitsSince) })
      : suspects.keys.sorted()
    var survey = Survey()
    for case let suspect? in asked.map({ suspects[$0] }) {
      suspect.worker.notes.locks.wasAsked(now: now)
      addWaits(of: suspect, now, to: &survey, engine)
    }
    if !survey.waits.isEmpty || !locks.policy.isIdle { act(on: survey.waits, now, engine) }
    // Help is taken back in time though nobody is inside who needs it.
    if locks.policy.isHelping != locks.isInside {
      locks.isInside.toggle()
      if locks.isInside { enterForeground() } else { leaveForeground(disarms: false) }
    }
    armLocks(inside.inverting.union(agree(inside.kinds, now, engine)))
    if locks.policy.isHelping { armLocks([.fresh, .low]) }
  }

  private func act(on waits: [InversionPolicy.Wait], _ now: UInt64, _ engine: Engine) {
    for action in locks.policy.look(waits, now: now) {
      switch action {
      case .help(let slice, let priority): help(slice, as: priority, engine)
      case .leave(let slice): if let help = locks.helps.removeValue(forKey: slice) { undo(help, engine) }
      }
    }
    let waiters = Set(waits.map(\.waiter.slice))
    for slice in Array(locks.helps.keys) { goOnHelping(slice, waiters, now, engine) }
  }

  /// Tells the workers what kinds of jobs are inside, so that they arm no alarm for nothing. Returns those
  /// among which one may wait for another's lock, if any has begun meanwhile that may have relied on what was
  /// told before.
  private func agree(_ kinds: LockWatch.Kinds, _ at: UInt64, _ engine: Engine) -> LockWatch.Kinds {
    // relaxed: the monitor alone takes a kind away.
    guard kindsInside.load(ordering: .relaxed) != kinds.rawValue else { return [] }
    // seqCst, each: pairs with armLocksIfDue(). A job that was published before the first may have found its
    // kind told and armed nothing: then it is found here. One that comes after tells its kind anew.
    kindsInside.bitwiseAnd(kinds.rawValue, ordering: .sequentiallyConsistent)
    var now = Insiders()
    for pool in engine.pools {
      for case let worker? in pool.workers {
        guard let reading = worker.report.read() else { continue }
        now.add(reading, depth: worker.depth, rests: worker.notes.locks.rests(reading.sequence, now: at))
      }
    }
    kindsInside.bitwiseOr(now.kinds.rawValue, ordering: .sequentiallyConsistent)
    return now.inverting
  }

  /// Adds the wait of a job, if it is one for a lock that another worker holds, and those of who holds it.
  private func addWaits(
    of suspect: Suspect, _ now: UInt64, to survey: inout Survey, _ engine: Engine
  ) {
    var (waiter, reading, isForeground) = (suspect.worker, suspect.reading, true)
    while survey.waits.count < Locks.most {
      let slice = InversionPolicy.Slice(waiter, reading)
      guard let lock = lockWait(waiter, &survey) else {
        // Of a link of a chain nothing is remembered: it is asked for the sake of who waits for it.
        if isForeground { waiter.notes.locks.waitsElsewhere(reading.sequence, cpu: suspect.cpu, now: now) }
        return
      }
      guard waiter.report.isStillInside(reading), let holder = worker(ofThread: lock.holder, engine),
        holder !== waiter, let held = holder.report.read()
      else {
        if isForeground { waiter.notes.locks.waitsForStranger(reading.sequence) }
        return
      }
      let isKnown = survey.waits.contains { $0.waiter.slice == slice && $0.isForeground == isForeground }
      survey.waits.append(
        InversionPolicy.Wait(
          waiter: party(waiter, reading, engine), holder: party(holder, held, engine),
          isForeground: isForeground))
      if isKnown { return }
      (waiter, reading, isForeground) = (holder, held, false)
    }
  }

  private func lockWait(_ worker: Worker, _ survey: inout Survey) -> opp_lock_wait? {
    if let known = survey.answers[worker.report.threadID] { return known }
    lockCounts.questions.add(1, ordering: .relaxed)  // a statistic
    var wait = opp_lock_wait()
    let waits = worker.report.meter.map { opp_thread_meter_lock_wait($0, &wait) == 1 } ?? false
    let answer = waits ? wait : nil
    survey.answers[worker.report.threadID] = .some(answer)
    return answer
  }

  private func worker(ofThread thread: Int32, _ engine: Engine) -> Worker? {
    for pool in engine.pools {
      for case let worker? in pool.workers where worker.report.threadID == thread { return worker }
    }
    return nil
  }

  private func party(
    _ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine
  ) -> InversionPolicy.Party {
    let slice = InversionPolicy.Slice(worker, reading)
    let own = locks.helps[slice]?.before ?? priority(worker, reading, engine)
    return InversionPolicy.Party(slice: slice, priority: own)
  }

  /// That the worker's thread has during the job. One in the real-time class counts as fresh work: it is
  /// there for a while, and nobody is put into it.
  private func priority(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) -> KernelPriority
  {
    worker.report.changed ?? (reading.isRealTime ? engine.priority(of: .foreground) : reading.priority)
  }

  // MARK: Help

  private func help(
    _ slice: InversionPolicy.Slice, as waiter: KernelPriority, _ engine: Engine
  ) {
    guard let holder = worker(ofThread: slice.thread, engine), let reading = holder.report.read(),
      reading.sequence == slice.job
    else { return }
    let isNew = locks.helps[slice] == nil
    var help =
      locks.helps[slice]
      ?? Help(holder: holder, reading: reading, before: priority(holder, reading, engine))
    let wanted = InversionPolicy.priority(
      for: help.before, as: waiter, foreground: engine.priority(of: .foreground),
      canRaise: engine.privileges.canRaise)
    help.given = wanted.flatMap { holder.report.setPriority($0, during: reading) ? $0 : nil }
    if isNew {
      lockCounts.inversions.add(1, ordering: .relaxed)  // statistics, all three
      if help.given != nil { lockCounts.raised.add(1, ordering: .relaxed) }
      warn(holder, reading, engine)
    }
    locks.helps[slice] = help
  }

  /// Others may have come to its CPU, or it to another's; and who was raised may have been lowered for
  /// another reason.
  private func goOnHelping(
    _ slice: InversionPolicy.Slice, _ waiters: Set<InversionPolicy.Slice>, _ now: UInt64, _ engine: Engine
  ) {
    guard var help = locks.helps[slice], help.holder.report.isStillInside(help.reading) else { return }
    if let given = help.given {
      guard let changed = help.holder.report.changed, changed != given else { return }
      help.before = changed
      help.given = help.holder.report.setPriority(given, during: help.reading) ? given : nil
    } else {
      makeRoom(for: &help, waiters, now, engine)
    }
    locks.helps[slice] = help
  }

  /// If the holder cannot be raised, what keeps it off its CPU is moved to other CPUs meanwhile; see
  /// ``InversionPolicy/move(_:for:waiters:)``.
  private func makeRoom(
    for help: inout Help, _ waiters: Set<InversionPolicy.Slice>, _ now: UInt64, _ engine: Engine
  ) {
    guard let meter = help.holder.report.meter else { return }
    let cpu = opp_thread_meter_cpu_number(meter)
    guard cpu >= 0 else { return }
    for pool in engine.pools where pool.pool == .foreground {
      for case let hog? in pool.workers where hog !== help.holder {
        guard !help.away.contains(where: { $0.hog === hog && $0.cpu == cpu }),
          let reading = hog.report.read(), let hogMeter = hog.report.meter
        else { continue }
        let own = priority(hog, reading, engine)
        let move = InversionPolicy.move(
          .init(
            party: .init(slice: .init(hog, reading), priority: own), isDemoted: hog.depth > 0,
            age: now.saturatingSubtract(reading.start)), for: help.before, waiters: waiters)
        guard move != .no, opp_thread_meter_cpu_number(hogMeter) == cpu else { continue }
        let left = opp_thread_leave_cpu(hog.report.threadID, cpu)
        if left == 1 {
          help.away.append((hog, cpu))
        } else if left == -EINVAL, move == .orLower, hog.report.setPriority(help.before, during: reading) {
          help.lowered.append((hog, reading, own))
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
      ["holder": "\(app(of: reading.app)?.name ?? "an app that is gone")"])
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
  let looks = Atomic<UInt64>(0)
  let questions = Atomic<UInt64>(0)
}
