import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A lock that both sides take, beside hogs of the foreground: who holds it is seen, helped, and let be
/// again.
@Suite(.bounded, .timeLimit(.minutes(3))) struct LockInversionTests {
  enum Kind: CaseIterable { case synchronization, glibc }

  private final class Lock: Sendable {
    private let kind: Kind
    private let own = Mutex(())
    private let glibc = NSLock()

    init(_ kind: Kind) { self.kind = kind }

    func hold(_ body: () -> Void) {
      switch kind {
      case .synchronization: own.withLock { _ in body() }
      case .glibc: glibc.withLock { body() }
      }
    }
  }

  private func take(_ lock: Lock, in app: App) async throws {
    let taken = Record<Bool>()
    try app.submit {
      lock.hold {}
      taken.add(true)
    }
    _ = await taken.reaching(1)
  }

  private func counts(_ engine: Engine) -> (inversions: UInt64, raised: UInt64, cleared: UInt64) {
    let monitor = engine.monitor
    return (
      monitor.lockCounts.inversions.load(ordering: .relaxed),
      monitor.lockCounts.raised.load(ordering: .relaxed), monitor.lockCounts.cleared.load(ordering: .relaxed)
    )
  }

  // R-CPU-01 R-CPU-02
  @Test(
    .enabled(if: opp_lock_wait_is_readable(), "this kernel does not tell what a thread waits for"),
    arguments: Kind.allCases, [true, false])
  func aHolderInTheBackgroundIsHelped(kind: Kind, mayRaise: Bool) async throws {
    var privileges = KernelPrivileges.probe()
    guard privileges.canRaise || !mayRaise else {
      return print("skipped: no privilege to raise a thread here")
    }
    privileges.canRaise = mayRaise
    let engine = try Engine(SchedulerConfiguration(workers: 2), .silent, privileges: privileges)
    let front = try engine.makeApp(named: "front", band: .foreground)
    let hogs = try engine.makeApp(named: "hogs", band: .foreground)
    let back = try engine.makeApp(named: "back", band: .background)
    let (lock, stop, ended, raised) = (Lock(kind), Flag(), Record<Bool>(), Record<Bool>())
    let cpus = Topology().cpuCount
    for _ in 0..<2 * cpus {
      try hogs.submit {
        while !stop.isUp { spinCPU(milliseconds: 1) }
        ended.add(true)
      }
    }
    try back.submit {
      while !stop.isUp {
        lock.hold {
          spinCPU(milliseconds: 2)
          if sched_getscheduler(0) != schedIdle { raised.add(true) }
        }
      }
      // No longer than it is waited for.
      if spin({ sched_getscheduler(0) == schedIdle }) { ended.add(true) }
    }
    let isSeen: @Sendable () -> Bool = { [self] in
      let now = counts(engine)
      return now.inversions > 2 && (mayRaise ? now.raised > 2 && raised.count > 0 : now.cleared > 0)
    }
    try await eventually("an inversion is seen and resolved") {
      try await take(lock, in: front)
      return isSeen()
    }
    let found = counts(engine)
    #expect(mayRaise ? found.cleared == 0 : found.raised == 0 && raised.count == 0)
    stop.raise()
    _ = await ended.reaching(2 * cpus + 1)
    await engine.end()
  }

  // R-CPU-01 R-CPU-02
  /// Hogs that are no demoted ones yet leave the holder's CPU too, where it cannot be raised.
  @Test(.enabled(if: opp_lock_wait_is_readable(), "this kernel does not tell what a thread waits for"))
  func freshHogsLeaveTheHoldersCPU() async throws {
    guard Topology().cpuCount > 1 else { return print("skipped: there is one CPU, and none to move to") }
    var privileges = KernelPrivileges.probe()
    privileges.canRaise = false
    let engine = try Engine(SchedulerConfiguration(workers: 2), .silent, privileges: privileges)
    let front = try engine.makeApp(named: "front", band: .foreground)
    let hogs = try engine.makeApp(named: "hogs", band: .foreground)
    let back = try engine.makeApp(named: "back", band: .background)
    let (lock, stop, ended) = (Lock(.glibc), Flag(), Record<Bool>())
    // Each shorter than a quantum, and none is ever demoted.
    @Sendable func hog() {
      spinCPU(milliseconds: 3)
      if stop.isUp { return ended.add(true) }
      do { try hogs.submit { hog() } } catch { Issue.record(error) }
    }
    let chains = 2 * Topology().cpuCount
    for _ in 0..<chains { try hogs.submit { hog() } }
    try back.submit {
      while !stop.isUp { lock.hold { spinCPU(milliseconds: 2) } }
      ended.add(true)
    }
    try await eventually("a fresh hog makes room") { [self] in
      try await take(lock, in: front)
      return counts(engine).cleared > 0
    }
    #expect(counts(engine).raised == 0)
    stop.raise()
    _ = await ended.reaching(chains + 1)
    let demotions = [front, hogs].map(\.statistics.demotions)
    #expect(demotions == [0, 0])
    await engine.end()
  }

  // R-CPU-01 R-CPU-05
  /// Foreground work that has sunk to the background's workers waits for nobody below it either.
  @Test(.enabled(if: opp_lock_wait_is_readable(), "this kernel does not tell what a thread waits for"))
  func whoHasSunkIsHelpedToo() async throws {
    guard KernelPrivileges.probe().canRaise else {
      return print("skipped: no privilege to raise a thread here")
    }
    let quantum = QuantumPolicy(quantum: .milliseconds(1), step: 63, recovery: .never)
    let (scheduler, front) = try makeApp(named: "front", workers: 2, quantum: quantum)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let (lock, stop, raised) = (Lock(.synchronization), Flag(), Record<Bool>())
    let holder = back.task {
      while !stop.isUp {
        lock.hold {
          spinCPU(milliseconds: 5)
          if sched_getscheduler(0) != schedIdle { raised.add(true) }
        }
        await Task.yield()
      }
    }
    let sunk = front.task {
      while !stop.isUp {
        if isOnWorker(of: .background) { lock.hold {} } else { spinCPU(milliseconds: 2) }
        await Task.yield()
      }
    }
    try await eventually("the holder is raised for who has sunk") { raised.count > 0 }
    stop.raise()
    await holder.value
    await sunk.value
    let statistics = await scheduler.statistics()
    #expect(statistics.lockInversions > 0 && statistics.lockHoldersRaised > 0)
    try await scheduler.shutdown()
  }

  // R-CPU-01
  /// Threads that nobody knows, and jobs that wait elsewhere, are none of its business.
  @Test func othersLocksAndOtherWaitsAreNoInversion() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let (lock, held, mayEnd) = (NSLock(), Record<Bool>(), Flag())
    let thread = Thread {
      lock.lock()
      held.add(true)
      while !mayEnd.isUp { usleep(1000) }
      lock.unlock()
    }
    thread.start()
    _ = await held.reaching(1)
    let ended = Record<Bool>()
    let gate = DispatchSemaphore(value: 0)
    try front.submit {
      lock.lock()
      lock.unlock()
      ended.add(true)
    }
    try front.submit {
      gate.wait()
      ended.add(true)
    }
    // Some looks.
    try await Task.sleep(for: .milliseconds(100))
    mayEnd.raise()
    gate.signal()
    _ = await ended.reaching(2)
    let statistics = await scheduler.statistics()
    #expect(
      statistics.lockInversions == 0 && statistics.lockHoldersRaised == 0 && statistics.cpusCleared == 0)
    try await scheduler.shutdown()
  }

  // R-CPU-02
  /// Beside a job of the foreground that has been lowered, and none that is fresh, looks come at the longer
  /// interval. Where the machine has no time for them there are fewer, never more.
  @Test func looksForTheSakeOfALoweredJobAreRarer() async throws {
    let engine = try Engine(SchedulerConfiguration(workers: 2), .silent)
    let front = try engine.makeApp(named: "front", band: .foreground)
    let back = try engine.makeApp(named: "back", band: .background)
    let (isOver, watched) = (Flag(), Record<(looks: UInt64, nanoseconds: UInt64)>())
    let looks = { @Sendable in engine.monitor.lockCounts.looks.load(ordering: .relaxed) }
    try back.submit { while !isOver.isUp { spinCPU(milliseconds: 1) } }
    try front.submit {
      guard spin({ front.statistics.demotions > 0 }) else { return isOver.raise() }
      let (before, from) = (looks(), opp_now_ns())
      _ = spin { looks() - before >= 50 }
      watched.add((looks() - before, opp_now_ns() - from))
      isOver.raise()
    }
    let seen = try #require(await watched.reaching(1).first)
    #expect(seen.nanoseconds > seen.looks * (LockWatch.interval + LockWatch.lateInterval) / 2)
    await engine.end()
  }

  // R-CPU-02
  /// Of many that queue for a lock of their equal a look asks a few, and its holder.
  @Test(.enabled(if: opp_lock_wait_is_readable(), "this kernel does not tell what a thread waits for"))
  func ofManyThatQueueForALockALookAsksAFew() async throws {
    let engine = try Engine(SchedulerConfiguration(workers: 2), .silent)
    let front = try engine.makeApp(named: "front", band: .foreground)
    let back = try engine.makeApp(named: "back", band: .background)
    let (lock, stop, held, begun) = (Lock(.synchronization), Flag(), Record<Bool>(), Record<Bool>())
    let (mayEnd, ended) = (DispatchSemaphore(value: 0), Record<Bool>())
    let counts = { @Sendable in
      (
        looks: engine.monitor.lockCounts.looks.load(ordering: .relaxed),
        questions: engine.monitor.lockCounts.questions.load(ordering: .relaxed)
      )
    }
    try back.submit { while !stop.isUp { spinCPU(milliseconds: 1) } }
    try front.submit {
      lock.hold {
        held.add(true)
        mayEnd.wait()
      }
    }
    _ = await held.reaching(1)
    let queue = 16
    for _ in 0..<queue {
      try front.submit {
        begun.add(true)
        lock.hold {}
        ended.add(true)
      }
    }
    _ = await begun.reaching(queue)
    // Each has been asked by then; who has just come costs a question more.
    let first = counts()
    try await eventually("a hundred looks") { counts().looks >= first.looks + 100 }
    let last = counts()
    let most = (last.looks - first.looks + 1) * UInt64(LockWatch.most + 1)
    #expect(last.questions > first.questions && last.questions - first.questions <= most)
    mayEnd.signal()
    _ = await ended.reaching(queue)
    stop.raise()
    await engine.end()
  }

  // R-CPU-02
  /// A worker that sleeps after a request disarms the look that was armed for its sake. In several tries:
  /// where others keep a request off the CPU for long, the look at it comes first, and rightly.
  @Test func thereIsNoLookAfterARequestThatIsOver() async throws {
    let engine = try Engine(SchedulerConfiguration(workers: 2), .silent)
    let front = try engine.makeApp(named: "front", band: .foreground)
    let back = try engine.makeApp(named: "back", band: .background)
    let looks = { engine.monitor.lockCounts.looks.load(ordering: .relaxed) }
    let requests = 200
    var least = UInt64.max
    for tries in 1...5 where least >= UInt64(requests / 2) {
      let (before, answered) = (looks(), Record<Bool>())
      try back.submit {
        for _ in 0..<requests {
          _ = try? front.submit {
            spinCPU(microseconds: 2 * LockWatch.leastToDisarm / 1000)
            answered.add(true)
          }
          spinCPU(milliseconds: 1)
        }
      }
      _ = await answered.reaching(requests)
      least = min(least, looks() - before)
      if tries > 1 { print("try \(tries): \(least) looks at the least") }
    }
    #expect(least < requests / 2)
    await engine.end()
  }
}
