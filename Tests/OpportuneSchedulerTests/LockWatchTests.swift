import COpportune
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

/// In virtual time: who waits for a lock is asked soon, and who does not is asked seldom.
@Suite(.bounded) struct LockWatchTests {
  /// A thread inside one job after another, as the monitor sees it.
  private struct Thread {
    enum Doing { case running, waitingForCPU, locked, elsewhere }
    var watch = LockWatch()
    var job: UInt64 = 1
    var start: UInt64 = 0
    var cpuBefore: UInt64 = 0
    var cpu: UInt64 = 0
    var doing = Doing.running
    var since: UInt64 = 0
    var until: UInt64 = 0
    /// It rested as it began to wait, so that looks at it come once a quantum.
    var rested = false
    /// When it was first asked while it waits for this lock.
    var asked: UInt64?
  }

  // R-CPU-01
  /// A fresh job must not wait for lower ones for long; who has been lowered has waited before.
  @Test func onlyJobsThatMayWaitForLowerOnesAreLookedAt() {
    for kinds in [[.fresh, .low], [.fresh, .lowered], [.fresh, .lowered, .low]] as [LockWatch.Kinds] {
      #expect(kinds.mayHoldUpFresh && kinds.mayHoldUpLowered == kinds.contains(.lowered))
    }
    for kinds in [[.lowered, .low], .lowered] as [LockWatch.Kinds] {
      #expect(!kinds.mayHoldUpFresh && kinds.mayHoldUpLowered)
    }
    for kinds in [[], .fresh, .low] as [LockWatch.Kinds] {
      #expect(!kinds.mayHoldUpFresh && !kinds.mayHoldUpLowered)
    }
    #expect(LockWatch.Kinds(.background, depth: 0) == .low && LockWatch.Kinds(.background, depth: 2) == .low)
    #expect(LockWatch.Kinds(.foreground, depth: 0) == .fresh)
    #expect(LockWatch.Kinds(.foreground, depth: 1) == .lowered)
  }

  // R-CPU-01
  /// The last worker to leave the fresh jobs disarms the look for their sake, and not the one for the sake of
  /// lowered ones.
  @Test func theLookForLoweredJobsStaysArmedAsFreshOnesLeave() throws {
    let monitor = try Monitor()
    monitor.enterForeground()
    monitor.armLocks([.fresh, .lowered, .low])
    monitor.leaveForeground(disarms: true)
    monitor.armTick()  // goes off later, so that the wait ends in any case
    #expect(opp_alarms_wait(monitor.alarms) == 1 << Monitor.Alarm.locksLate.rawValue)
  }

  // R-CPU-01
  /// Looks come each interval, once in a while one that leaves out nobody: each wait for a lock is asked
  /// about within a millisecond of its beginning, and what rested before within a quantum more.
  @Test(arguments: [1, 2, 3, 4] as [UInt64], [LockWatch.interval, LockWatch.lateInterval])
  func eachWaitForALockIsAskedAboutWithinAMillisecond(seed: UInt64, interval: UInt64) {
    var random = SplitMix64(seed: seed)
    var threads = [Thread](repeating: Thread(), count: 4)
    var (now, due, thorough) = (UInt64(1), interval, UInt64(0))
    var (locked, found, others, steps) = (0, 0, 0, 0)
    while now < 4_000_000_000 {
      // Whatever comes first: somebody's next step, or a look.
      let next = min(due, threads.map(\.until).min() ?? .max)
      for index in threads.indices where threads[index].doing == .running {
        threads[index].cpu += max(next, now) - now
      }
      now = max(next, now)
      for index in threads.indices where threads[index].until <= now {
        if threads[index].doing == .locked, now - threads[index].since >= interval + 300_000 {
          locked += 1
        }
        step(&threads[index], now, &random)
        steps += 1
      }
      guard now == due else { continue }
      due += interval
      let isThorough = now >= thorough
      if isThorough { thorough = now + 9_000_000 }
      for index in threads.indices {
        let thread = threads[index]
        let rests = thread.watch.rests(thread.job, now: now)
        if rests { threads[index].rested = true }
        guard isThorough || !rests, thread.watch.needsClock(thread.job, start: thread.start, now: now),
          threads[index].watch.look(
            thread.job, start: thread.start, cpuBefore: thread.cpuBefore, cpu: thread.cpu, now: now)
        else { continue }
        guard thread.doing == .locked else {
          threads[index].watch.waitsElsewhere(thread.job, cpu: thread.cpu, now: now)
          others += 1
          continue
        }
        if thread.asked == nil {
          found += 1
          threads[index].asked = now
        }
      }
      for thread in threads where thread.doing == .locked && thread.asked == nil {
        #expect(now - thread.since <= interval + 300_000 + (thread.rested ? 10_000_000 : 0), "seed \(seed)")
      }
    }
    #expect(locked > 20 && found >= locked, "\(found) of \(locked)")
    // Who does not wait for a lock is asked once for each time off the CPU, and once more after it, at most.
    #expect(others <= 2 * steps, "\(others) of \(steps)")
  }

  private func step(_ thread: inout Thread, _ now: UInt64, _ random: inout SplitMix64) {
    let before = thread.doing
    (thread.asked, thread.since, thread.rested) = (nil, now, false)
    if before != .running {
      // From the queue of a CPU, or from a wait, it first runs.
      thread.doing = .running
    } else {
      switch Int.random(in: 0..<4, using: &random) {
      case 0: thread.doing = .locked
      case 1: thread.doing = .elsewhere
      case 2: thread.doing = .waitingForCPU
      default:
        thread.job += 2
        (thread.start, thread.cpuBefore) = (now, thread.cpu - min(thread.cpu, 50_000))
      }
    }
    let longest: UInt64 = Int.random(in: 0..<8, using: &random) == 0 ? 60_000_000 : 3_000_000
    thread.until = now + .random(in: 1000...longest, using: &random)
  }

  // R-CPU-01
  /// A job that waits for no lock is asked once, however long that takes.
  @Test func whoWaitsElsewhereIsAskedOnce() {
    var watch = LockWatch()
    func asks(_ job: UInt64 = 1, start: UInt64 = 0, cpu: UInt64, now: UInt64) -> Bool {
      watch.look(job, start: start, cpuBefore: 5, cpu: cpu, now: now)
    }
    var questions = 0
    for now in stride(from: 0 as UInt64, to: 20_000_000, by: 700_000) where asks(cpu: 5, now: now) {
      questions += 1
      watch.waitsElsewhere(1, cpu: 5, now: now)
    }
    #expect(questions == 1 && watch.rests(1, now: 20_000_000))
    // It has run, and is off again.
    #expect(asks(cpu: 6, now: 20_000_000))
    watch.waitsElsewhere(1, cpu: 6, now: 20_000_000)
    #expect(!watch.rests(1, now: 20_700_000) && !asks(cpu: 6, now: 20_700_000))
    // Another job of the thread is another matter.
    #expect(!asks(3, start: 20_700_000, cpu: 5, now: 20_750_000))
  }

  // R-CPU-01
  /// Whose lock a stranger holds is asked again, with the tick after a while: a worker may hold it next.
  @Test func whoWaitsForAStrangerIsAskedAgain() {
    var watch = LockWatch()
    func asks(now: UInt64) -> Bool { watch.look(1, start: 0, cpuBefore: 5, cpu: 5, now: now) }
    #expect(asks(now: 300_000))
    watch.waitsForStranger(1)
    #expect(!watch.rests(1, now: 5_000_000) && watch.rests(1, now: 20_000_000))
    #expect(asks(now: 20_000_000))
    #expect(!watch.rests(1, now: 20_000_000))  // unless it is said again
  }

  // R-CPU-02
  /// Thirty queue for a lock, and another begins to wait at each look: a look asks a few, and each of them is
  /// asked within as many looks as it takes to go around, again and again.
  @Test func ofAQueueALookAsksAFew() {
    var watches: [Int: LockWatch] = [:]
    /// One look at those; returns whom it asks.
    func look(at threads: [Int], cpu: UInt64 = 5, start: UInt64, now: UInt64) -> [Int] {
      var waiting: [Int] = []
      for thread in threads {
        let asks = watches[thread, default: LockWatch()].look(
          1, start: start, cpuBefore: 5, cpu: cpu, now: now)
        if asks { waiting.append(thread) }
      }
      let chosen = LockWatch.choose(waiting.map { ($0, watches[$0]?.waitsSince ?? 0) })
      for thread in chosen { watches[thread]?.wasAsked(now: now) }
      return chosen
    }
    var queue = Array(1...30)
    var asked: [Int: UInt64] = [:]
    let around = UInt64(40 / LockWatch.most + 1) * LockWatch.interval
    for now in stride(from: LockWatch.interval, to: 100 * LockWatch.interval, by: Int(LockWatch.interval)) {
      // Who comes takes the place of one that has the lock now.
      queue.removeFirst()
      queue.append(queue[queue.count - 1] + 1)
      let chosen = look(at: queue, start: now - 300_000, now: now)
      #expect(chosen.count == LockWatch.most && Set(chosen).isSubset(of: queue))
      for thread in chosen { asked[thread] = now }
      for thread in queue.prefix(5) {
        #expect(asked[thread].map { now - $0 <= around } ?? false || now < 2 * around)
      }
    }
    #expect(asked.count > 60)
    // Who ran, and is off the CPU again, is behind those that are there.
    let last = queue.removeLast()
    let asRan = look(at: [last], cpu: 300_000_000, start: 1, now: 80_000_000)
    let asOff = look(at: [last], cpu: 300_000_000, start: 1, now: 80_300_000)
    #expect(asRan == [] && asOff == [last])
    let others = queue.suffix(LockWatch.most).map { ($0, watches[$0]?.waitsSince ?? 0) }
    let chosen = LockWatch.choose([(last, watches[last]?.waitsSince ?? 0)] + others)
    #expect(!chosen.contains(last))
  }
}
