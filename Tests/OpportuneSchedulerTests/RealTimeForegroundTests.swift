import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// The real-time foreground on this machine: needs the privilege to enter `SCHED_RR`.
@Suite(.bounded, .timeLimit(.minutes(3)), .serialized)
struct RealTimeForegroundTests {
  private static let mayEnter = KernelPrivileges.probe().canUseRR

  private func scheduler(
    quantum: Duration = .milliseconds(1), share: Double = 0.7,
    _ change: (inout SchedulerConfiguration) -> Void = { _ in }
  ) async throws -> Scheduler {
    let scheduler = try Scheduler(
      configuration: SchedulerConfiguration(workers: 1) {
        $0.foregroundClass = .realTime(quantum: quantum, share: share)
        change(&$0)
      })
    // The monitor opens the class once it stands above it, before it answers anything.
    let access = await scheduler.statistics().realTimeForeground?.access
    #expect(access == .roundRobin)
    return scheduler
  }

  private static var ownClass: Int32 { sched_getscheduler(0) & 7 }

  // R-CPU-01
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here")) func freshJobsAreInTheClassAndOthersAreNot()
    async throws
  {
    let scheduler = try await scheduler()
    let app = try scheduler.makeApp(named: "app")
    #expect(await app.task { Self.ownClass }.value == SCHED_RR)
    let behind = try scheduler.makeApp(named: "behind", band: .background)
    #expect(await behind.task { Self.ownClass }.value == schedIdle)
    // A job that has been lowered is in no such class, and neither is what it submits.
    let deep = await app.task {
      spinCPU(milliseconds: 30)
      return Self.ownClass
    }.value
    #expect(deep == 0)
    #expect(await app.task { Self.ownClass }.value == SCHED_RR, "the next is fresh again")
    try app.setBand(.background)
    #expect(await app.task { Self.ownClass }.value == schedIdle)
    try await scheduler.shutdown()
  }

  // R-CPU-01
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here"))
  func aJobLeavesAfterItsQuantumAndTheNextEnters() async throws {
    // Far from the demotion after 10 ms of CPU time, so that a busy machine does not blur them.
    let scheduler = try await scheduler { $0.quantum.quantum = .milliseconds(500) }
    let app = try scheduler.makeApp(named: "app")
    let (first, last, used) = await app.task {
      let start = SystemClock.threadCPU()
      let first = Self.ownClass
      // Only the monitor takes it out. It must do so although this does not sleep.
      let hasLeft = spin { Self.ownClass == 0 }
      return (first, hasLeft, SystemClock.threadCPU() - start)
    }.value
    #expect(first == SCHED_RR && last)
    #expect(used < 100_000_000, "of CPU time, for a quantum of a millisecond: \(used)")
    #expect(await app.task { Self.ownClass }.value == SCHED_RR)
    let statistics = try #require(await scheduler.statistics().realTimeForeground)
    #expect(statistics.jobsLeft >= 1)
    try await scheduler.shutdown()
  }

  // R-CPU-01
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here")) func aJobThatIsBlockedLeavesAndLooksEnd()
    async throws
  {
    let scheduler = try await scheduler()
    let app = try scheduler.makeApp(named: "app")
    let gate = DispatchSemaphore(value: 0)
    let thread = Record<Int32>()
    try app.submit {
      thread.add(opp_thread_id())
      gate.wait()
    }
    let blocked = try #require(await thread.reaching(1).first)
    #expect(spin { sched_getscheduler(blocked) & 7 == 0 })
    gate.signal()
    try await scheduler.shutdown()
  }

  // R-CPU-01
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here")) func theClassLeavesAfterItsShare()
    async throws
  {
    // Short jobs without end, each well within its quantum: the share alone stops them.
    let scheduler = try await scheduler(quantum: .milliseconds(2), share: 0.1) {
      $0.quantum.quantum = .milliseconds(500)
    }
    let app = try scheduler.makeApp(named: "app")
    let classes = Record<Int32>()
    var exhausted: UInt64 = 0
    // How long the share lasts depends on what else runs: until it is used up, and that was seen by a job.
    for _ in 0..<10_000 where exhausted == 0 || !classes.values.contains(0) {
      for _ in 0..<20 {
        try app.submit {
          classes.add(Self.ownClass)
          spinCPU(microseconds: 500)
        }
      }
      await app.task {}.value
      exhausted = await scheduler.statistics().realTimeForeground?.exhausted ?? 0
    }
    #expect(exhausted > 0)
    #expect(classes.values.contains(SCHED_RR) && classes.values.contains(0))
    // It comes back by itself.
    var isBack = false
    for _ in 0..<100_000 where !isBack { isBack = await app.task { Self.ownClass == SCHED_RR }.value }
    #expect(isBack)
    try await scheduler.shutdown()
  }

  // R-CPU-01
  /// Of jobs that the monitor has taken from the class too: the kernel ends a process whose thread is in the
  /// class for longer than `RLIMIT_RTTIME` without a sleep.
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here")) func timeWithoutASleepIsCounted() async throws
  {
    let scheduler = try await scheduler { $0.quantum.quantum = .milliseconds(500) }
    let app = try scheduler.makeApp(named: "app")
    let engine = scheduler.engine
    let seen = Record<UInt64>()
    for _ in 0..<50 {
      try app.submit {
        seen.add(Worker.current(of: engine)?.unslept ?? 0)
        while Self.ownClass == SCHED_RR { spinCPU(microseconds: 20) }
      }
    }
    let counted = await seen.reaching(50)
    // Some began on a worker that had run another without a sleep between.
    #expect(counted.contains { $0 > 0 })
    try await scheduler.shutdown()
  }

  // R-CPU-01, R-CPU-02
  /// Measured from outside: threads that belong to no scheduler, one for each CPU, kept to it and before all
  /// others there, count while hogs run that end once they have left the class, or after 50 ms.
  /// Not under a sanitizer: its own allocator has the monitor wait for threads that get no CPU beside the
  /// hogs.
  @Test(
    .enabled(
      if: mayEnter && KernelPrivileges.probe().canRaise, "SCHED_RR or a lower nice value is not allowed here"),
    .disabled(if: isSanitized, "the sanitizer has the monitor wait for other threads"))
  func noHogKeepsACPUToItself() async throws {
    let quantum = Duration.milliseconds(1)
    let cpus = Outsider.usableCPUs
    let scheduler = try await scheduler(quantum: quantum) {
      $0.quantum.quantum = .milliseconds(500)
      $0.workers = .fixed(cpus.count)
    }
    let app = try scheduler.makeApp(named: "app")
    let outsiders = cpus.map { Outsider(on: $0) }
    for outsider in outsiders { #expect(spin { outsider.count > 0 }) }
    var times: [ClosedRange<UInt64>?] = []
    let hogs = 40 * cpus.count
    for _ in 0..<hogs {
      let time: ClosedRange<UInt64>? = await app.task {
        let start = opp_now_ns()
        let hasBegunInIt = Self.ownClass == SCHED_RR
        while Self.ownClass == SCHED_RR && opp_now_ns() - start < Outsider.hog { spinCPU(microseconds: 20) }
        return hasBegunInIt ? start...opp_now_ns() : nil
      }.value
      times.append(time)
    }
    for outsider in outsiders { await outsider.stop() }
    // Not those that began while the class had used its share.
    let gaps = times.compactMap(\.self).map { time in outsiders.map { $0.longestGap(in: time) }.max() ?? 0 }
      .sorted()
    #expect(gaps.count > hogs / 10, "they did begin in the class")
    // Nine quanta for others of a busy machine, some of them of the class; a hog that stays takes fifty.
    let median = try #require(gaps.dropFirst(gaps.count / 2).first)
    #expect(median < 10 * UInt64(quantum / .nanoseconds(1)), "in ns, beside each hog: \(gaps)")
    // Of a quarter nothing else was in the way.
    #expect(gaps[gaps.count / 4] < 3 * UInt64(quantum / .nanoseconds(1)), "in ns, beside each hog: \(gaps)")
    #expect(try #require(await scheduler.statistics().realTimeForeground).jobsLeft > 0)
    try await scheduler.shutdown()
  }

  // R-CPU-01
  /// Whoever starts a thread may wait for others that the class keeps from every CPU: it is not the monitor.
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here"), arguments: [0, EAGAIN])
  func aHogLeavesWhileAThreadIsBeingStarted(refusal: Int32) async throws {
    let (isArmed, begun, gate) = (Flag(), Flag(), DispatchSemaphore(value: 0))
    let configuration = SchedulerConfiguration(workers: 1) {
      $0.foregroundClass = .realTime(quantum: .milliseconds(1), share: 0.7)
      $0.quantum.quantum = .milliseconds(500)
    }
    let engine = try Engine(
      configuration, .silent,
      startThread: { name, stack, body, context in
        guard isArmed.isUp, name.contains("-fg") else { return opp_thread_start(name, stack, body, context) }
        begun.raise()
        gate.wait()
        return refusal == 0 ? opp_thread_start(name, stack, body, context) : -refusal
      })
    let app = try engine.makeApp(named: "app", band: .foreground)
    // No answer of the monitor has told that the class is open.
    var isOpen = false
    for _ in 0..<100_000 where !isOpen { isOpen = await app.task { Self.ownClass == SCHED_RR }.value }
    #expect(isOpen)
    isArmed.raise()
    // Runs until a worker more is wanted and is being started. What follows it on its worker is a hog again.
    let ends = Record<Bool>()
    try app.submit { ends.add(begun.spin()) }
    for _ in 0..<50 { try app.submit { if !begun.isUp { gate.wait() } } }
    try app.submit {
      ends.add(Self.ownClass == SCHED_RR)
      ends.add(spin { Self.ownClass == 0 })
      for _ in 0..<100 { gate.signal() }
    }
    #expect(await ends.reaching(3) == [true, true, true])
    #expect(await app.task { true }.value)
    await engine.end()
  }

  // R-CPU-01
  @Test(.enabled(if: mayEnter, "SCHED_RR is not allowed here"))
  func aThreadThatServesIsInTheClassUnlessItNeverSleeps() async throws {
    let scheduler = try await scheduler()
    let app = try scheduler.makeApp(named: "app")
    let steps = Record<Bool>()
    await onThread {
      guard let server = app.serveForeground() else { return }
      steps.add(spin { Self.ownClass == SCHED_RR })
      // As if there were always something to do.
      steps.add(
        spin {
          server.woke()
          return Self.ownClass == 0
        })
      // As if something came every two milliseconds.
      steps.add(
        spin {
          usleep(2000)
          server.woke()
          return Self.ownClass == SCHED_RR
        })
      server.leave()
      steps.add(Self.ownClass == 0)
    }
    #expect(steps.values == [true, true, true, true])
    try await scheduler.shutdown()
  }

  @Test func withoutTheSettingThereIsNothingToTell() async throws {
    let scheduler = try Scheduler()
    #expect(await scheduler.statistics().realTimeForeground == nil)
    let app = try scheduler.makeApp(named: "app")
    #expect(await app.task { Self.ownClass }.value == 0)
    #expect(app.serveForeground() == nil)
    try await scheduler.shutdown()
  }
}

/// A plain thread of the program's, kept to one CPU, that counts as fast as it may run there: nobody of an
/// ordinary class goes before it.
private final class Outsider: @unchecked Sendable {
  // Sendable: `gaps` is the thread's until that has ended.
  /// How long a hog runs that nobody takes from the class, in nanoseconds.
  static let hog: UInt64 = 50_000_000

  private let turns = Atomic<UInt64>(0)
  /// When it did not run: only what matters beside the length of a hog.
  private var gaps: [ClosedRange<UInt64>] = []
  private let isOver = Flag()
  private let hasEnded = Flag()

  /// Numbers of the CPUs that the process may use.
  static var usableCPUs: [Int] {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let list = status.split(separator: "\n").first { $0.hasPrefix("Cpus_allowed_list:") } ?? ""
    return list.dropFirst("Cpus_allowed_list:".count).split(separator: ",").flatMap { range in
      let ends = range.split(separator: "-").compactMap { Int($0.trimmingCharacters(in: .whitespaces)) }
      return ends.first.map { Array($0...(ends.last ?? $0)) } ?? []
    }
  }

  init(on cpu: Int) {
    let thread = Thread { [self] in
      for other in Self.usableCPUs where other != cpu { _ = opp_thread_leave_cpu(0, Int32(other)) }
      _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -20)
      var last = opp_now_ns()
      while !isOver.isUp {
        turns.add(1, ordering: .relaxed)
        let now = opp_now_ns()
        if now - last > Self.hog / 100 { gaps.append(last...now) }
        last = now
      }
      hasEnded.raise()
    }
    thread.start()
  }

  var count: UInt64 { turns.load(ordering: .relaxed) }

  func stop() async {
    isOver.raise()
    while !hasEnded.isUp { await Task.yield() }
  }

  /// The longest time within `time` in which it did not run; to be asked after its end.
  func longestGap(in time: ClosedRange<UInt64>) -> UInt64 {
    gaps.lazy.filter { $0.overlaps(time) }.map { $0.clamped(to: time) }.map { $0.upperBound - $0.lowerBound }
      .max() ?? 0
  }
}
