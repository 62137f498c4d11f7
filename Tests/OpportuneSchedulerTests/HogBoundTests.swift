import COpportune
import COpportuneRuntime
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Many times as many hogs as the limits allow at once.
private let hogCount = isSanitized ? 1_000 : 2_000

/// Where the hogs come from.
enum HogOrigin: CaseIterable {
  /// One thread outside: after the first hogs the scheduler knows what to think of its jobs.
  case thread
  /// Short jobs of the app itself: each hog is taken for fresh work until it has used up its quantum.
  case shortJobs
}

@Suite(.bounded, .timeLimit(.minutes(5)), .serialized) struct HogBoundTests {
  private func foreground(of scheduler: Scheduler) async throws -> SchedulerStatistics.PoolStatistics {
    try #require(await scheduler.statistics().pools.first { $0.pool == .foreground })
  }

  // R-CPU-02 R-CPU-06
  @Test(arguments: HogOrigin.allCases) func manyOneShotHogsStayWithinTheBound(origin: HogOrigin) async throws
  {
    let width = 2
    let scheduler = try makeScheduler(workers: width, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "app")
    let limit = width * scheduler.configuration.demotedLimitPerCore
    let inside = Gauge()
    let ended = Atomic<Int>(0)
    let submitted = Record<Bool>()
    @Sendable func submitHogs(_ count: Int) {
      for _ in 0..<count {
        do {
          try app.submit {
            inside.enter()
            spinCPU(milliseconds: 2)
            inside.leave()
            ended.add(1, ordering: .relaxed)
          }
        } catch { submitted.add(false) }
      }
      submitted.add(true)
    }
    switch origin {
    case .thread:
      await onThread { submitHogs(hogCount) }
    case .shortJobs:
      for _ in 0..<hogCount / 50 { try app.submit(priority: .high) { submitHogs(50) } }
      _ = await submitted.reaching(hogCount / 50)
    }
    // The interactive part of the same app: each job waits for the one before. Hogs that nothing is known of
    // yet are as good as any other job of their priority.
    let priority: TaskPriority = origin == .thread ? .medium : .high
    var demoted = 0
    var passedBy = 0
    for _ in 0..<hogCount / 100 {
      let before = ended.load(ordering: .relaxed)
      let passed = await app.task(priority: priority) { @Sendable in
        ended.load(ordering: .relaxed) - before
      }.value
      passedBy = max(passedBy, passed)
      demoted = max(demoted, try await foreground(of: scheduler).demoted)
    }
    // Fresh work goes before the hogs that wait: of those, none at all or a few end between a submission and
    // its start, beside those that run already.
    #expect(passedBy < hogCount / 2)
    try await scheduler.shutdown(within: .seconds(240))
    let replaced = try await foreground(of: scheduler).replaced
    #expect(ended.load(ordering: .relaxed) == hogCount && submitted.values.allSatisfy { $0 })
    #expect(app.statistics.demotions > 0)
    // Those known for hogs are bounded by the limit; jobs that were lowered once, by as many again; those
    // that turn out to be hogs, by as many as that again; and there may be one that is not known yet in every
    // token and in the spare worker. Beyond it are only those that were blocked once, such as in a page fault
    // that waited for another thread's, and gave their place away; and now and then one or two that may be
    // none, as far as is known.
    let tried = 2
    #expect(demoted <= 3 * limit + tried + Int(replaced))
    #expect(inside.maximum <= 3 * limit + tried + width + 1 + Int(replaced))
  }

  // R-CPU-02 R-CPU-06
  @Test func hogsThatWereBlockedOnceCountAsHogs() async throws {
    // A quantum that the short jobs beside them do not reach, also where a sanitizer slows them down.
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let blocked = 4 * scheduler.configuration.demotedLimitPerCore
    let gate = DispatchSemaphore(value: 0)
    let engine = scheduler.engine
    let known = Flag()
    let (begun, refused) = (Record<Int>(), Record<Int>())
    let release = Flag()
    let submitted = Record<Bool>()
    @Sendable func submit(_ number: Int) {
      do {
        try app.submit {
          begun.add(number)
          if number < blocked { gate.wait() }
          // What a known hog submits is known for a hog. Of those that were lowered once, one may now and
          // then be tried.
          if number == 0 {
            known.spin()
            while Worker.current(of: engine)?.depth ?? 2 < 2 { spinCPU(milliseconds: 1) }
            for number in blocked..<blocked + 8 { submit(number) }
            submitted.add(true)
          }
          release.spin()
        }
      } catch { refused.add(number) }
    }
    for number in 0..<blocked { submit(number) }
    _ = await begun.reaching(blocked)
    for _ in 0..<blocked { gate.signal() }
    // All run at once, and are counted once each has used its quantum, but for one with the token and the
    // spare worker.
    let other = try scheduler.makeApp(named: "other")
    while try await foreground(of: scheduler).demoted < blocked - 2 {
      await other.task {}.value
    }
    // Others that are known for hogs before they begin do not run beside so many.
    known.raise()
    _ = await submitted.reaching(1)
    for _ in 0..<20 { await other.task {}.value }
    #expect(begun.count == blocked && refused.count == 0)
    release.raise()
    _ = await begun.reaching(blocked + 8)
    try await scheduler.shutdown()
  }

  // R-CPU-02
  @Test func hogsThatBlockMakeRoomForOthers() async throws {
    let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "app")
    let count = 6 * scheduler.configuration.demotedLimitPerCore
    let gate = DispatchSemaphore(value: 0)
    let inside = Record<Int>()
    for number in 0..<count {
      try app.submit {
        spinCPU(milliseconds: 5)
        inside.add(number)
        gate.wait()
      }
    }
    // Each is known for a hog by then, and waits for something that may be queued behind the others.
    _ = await inside.reaching(count)
    for _ in 0..<count { gate.signal() }
    try await scheduler.shutdown()
  }

  // R-CPU-02
  @Test(arguments: 0..<10) func aBlockedJobMakesRoomForADemotedOne(round: Int) async throws {
    // Blocking restores nothing, so that the hog is queued as one; a level or two down, so that it stays in
    // this pool.
    let (scheduler, app) = try makeApp(named: "app", workers: 1, quantum: QuantumPolicy(recovery: .never))
    let (calls, caller) = AsyncStream.makeStream(of: Bool.self)
    let gate = DispatchSemaphore(value: 0)
    let (parked, begun) = (Record<Bool>(), Record<Bool>())
    let hog = app.task {
      while app.statistics.demotions == 0 { spinCPU(milliseconds: 2) }
      parked.add(true)
      for await _ in calls { break }
      gate.signal()
    }
    _ = await parked.reaching(1)
    let other = try scheduler.makeApp(named: "other")
    for _ in 0..<20 { await other.task {}.value }
    // It keeps the only token, and waits for the hog; nothing fresh waits behind it. Of another app, whose
    // jobs from this thread are no hogs.
    try other.submit {
      begun.add(true)
      gate.wait()
    }
    _ = await begun.reaching(1)
    // Nobody is awake who would find the hog.
    while try await foreground(of: scheduler).sleeping == 0 {}
    caller.yield(true)
    await hog.value
    try await scheduler.shutdown()
  }

  // R-CPU-02 R-CPU-06
  @Test(arguments: [1, 5, 12, 30])
  func aThreadsShortJobsDoNotWaitForItsHogs(hogs: Int) async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let release = Flag()
    let (hogsBegun, refused, ended) = (Record<Int>(), Record<Int>(), DispatchSemaphore(value: 0))
    // All by one thread, as a main thread does: long work first, then what a person waits for, some of it at
    // once.
    let short = Tally()
    await onThread {
      defer { release.raise() }
      do {
        for number in 0..<hogs {
          try app.submit {
            hogsBegun.add(number)
            release.spin()
          }
        }
        for _ in 0..<20 {
          for _ in 0..<5 { try app.submit { ended.signal() } }
          // The hogs go on meanwhile, until this gives up.
          for _ in 0..<5 where ended.wait(timeout: .now() + 20) == .timedOut { return }
          short.add(5)
        }
      } catch { refused.add(0) }
    }
    #expect(short.count == 100 && refused.count == 0, "short jobs that ended beside the hogs")
    _ = await hogsBegun.reaching(hogs)
    try await scheduler.shutdown()
  }

  // R-CPU-06
  @Test func aJobDoesNotPayForThoseMovedDownBeforeIt() async throws {
    // A worker that takes thousands of jobs of a suspected thread, only to queue each again at a lower level,
    // spends milliseconds on no job at all. The first job after them is not charged with that, so it is not
    // taken for a hog.
    let (scheduler, app) = try makeApp(
      named: "app", workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let isOver = Flag()
    let refused = Record<Int>()
    app.suspend()
    await onThread {
      for number in 0..<20_000 {
        do {
          try app.submit { if number < 50 || !isOver.isUp { spinCPU(milliseconds: 2) } }
        } catch { refused.add(number) }
      }
    }
    let short = app.task { opp_runtime_current_task_id() }
    app.resume()
    let identity = await short.value
    isOver.raise()
    try await scheduler.shutdown(within: .seconds(100))
    #expect(refused.count == 0 && app.statistics.demotions > 0)
    let account = app.core.engine.accounts.read(identity)
    #expect(account?.depth ?? 0 == 0 && account?.cpuNanoseconds ?? 0 < 1_000_000, "the short job paid")
  }

  // R-CPU-06 R-CPU-02
  @Test func aNewThreadDoesNotWaitBehindTheHogsOfADeadOne() async throws {
    let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "app")
    let ended = Atomic<Int>(0)
    let submitted = Record<Bool>()
    await onThread {
      for _ in 0..<1000 {
        do {
          try app.submit {
            spinCPU(milliseconds: 3)
            ended.add(1, ordering: .relaxed)
          }
        } catch { submitted.add(false) }
      }
    }
    let seen = Record<Int>()
    for _ in 0..<5 {
      let before = seen.count
      await onThread {
        do { try app.submit { seen.add(ended.load(ordering: .relaxed)) } } catch { submitted.add(false) }
      }
      _ = await seen.reaching(before + 1)
    }
    #expect(seen.values.allSatisfy { $0 < 500 } && submitted.count == 0)
    try await scheduler.shutdown(within: .seconds(100))
  }
}
