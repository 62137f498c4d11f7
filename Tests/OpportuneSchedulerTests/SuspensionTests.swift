import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded, .timeLimit(.minutes(3))) struct SuspensionTests {
  // R-FTS-09 R-CPU-02
  /// One worker is woken for each run token, of which the foreground has more than there are CPUs.
  @Test func aResumedAppHasAllRunTokens() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "app", band: .foreground)
    let engine = scheduler.engine
    let pool = try #require(engine.pools.first { $0.pool == .foreground })
    let tokens = engine.configuration.runTokens(of: .foreground, width: engine.width)
    app.suspend()
    let (isOver, ends) = (Flag(), Record<Bool>())
    for _ in 0..<tokens { try app.submit { ends.add(isOver.spin()) } }
    try await eventually("\(tokens) sleep") { opp_pool_sleeping(pool.raw) >= UInt32(tokens) }
    app.resume()
    let working = opp_pool_working(pool.raw)
    isOver.raise()
    #expect(working == UInt32(tokens))
    #expect(await ends.reaching(tokens).allSatisfy(\.self))
    try await scheduler.shutdown()
  }

  // R-FTS-09 R-CPU-10
  @Test func suspendedAppStartsNothingAndOthersGoOn() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1, spareDelay: .milliseconds(10))
    let other = try scheduler.makeApp(named: "other")
    app.suspend()
    let order = Record<Int>()
    for number in 0..<300 { try app.submit { order.add(number) } }
    let others = Record<Int>()
    for number in 0..<300 { try other.submit { others.add(number) } }
    // One worker, one source: what was queued before would have run before.
    #expect(lateOnes(await others.reaching(300)) < 20)
    #expect(order.count == 0)
    #expect(app.activity == .suspended)
    #expect(other.activity == .active)
    for number in 300..<600 { try app.submit { order.add(number) } }
    app.resume()
    let ran = await order.reaching(600)
    #expect(ran.sorted() == Array(0..<600))
    // Each half was queued by one thread, whose order is kept.
    #expect(lateOnes(ran.filter { $0 < 300 }) < 20)
    #expect(lateOnes(ran.filter { $0 >= 300 }) < 20)
    #expect(app.activity == .active)
    try await scheduler.shutdown()
  }

  // R-FTS-09
  @Test func readsSuspendedOnlyAfterTheRunningSlice() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let other = try scheduler.makeApp(named: "other")
    let held = Record<Int>()
    let release = Flag()
    let ended = Flag()
    try app.submit {
      held.add(0)
      release.spin()
      ended.raise()
    }
    _ = await held.reaching(1)
    app.suspend()
    #expect(app.activity == .suspending)
    let waiter = Task {
      await app.untilSuspended()
      return ended.isUp
    }
    #expect(await other.task { 1 }.value == 1)
    #expect(app.activity == .suspending)
    release.raise()
    #expect(await waiter.value)
    #expect(app.activity == .suspended)
    await app.untilSuspended()
    // Suspended once more, it stays so; resumed while somebody waits, the wait ends.
    app.suspend()
    #expect(app.activity == .suspended)
    app.resume()
    await app.untilSuspended()
    #expect(app.activity == .active)
    try await scheduler.shutdown()
  }

  /// Who finds an app suspended finds all that it has run counted, whether it waited for that or not.
  // R-FTS-09
  @Test func whatHasRunIsCountedOnceTheAppIsSuspended() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let other = try scheduler.makeApp(named: "other")
    let ran = Atomic<UInt64>(0)
    for round in 1...2000 {
      for _ in 0..<3 { try app.submit { ran.add(1, ordering: .relaxed) } }
      // So that workers leave the app for another, and for none.
      if round % 2 == 0 { try other.submit {} }
      // Before it is suspended all has run in some rounds, nothing or a part of it in others.
      if round % 3 == 0 { while ran.load(ordering: .relaxed) < 3 * UInt64(round) { await Task.yield() } }
      app.suspend()
      await app.untilSuspended()
      #expect(app.statistics.jobs == ran.load(ordering: .relaxed), "round \(round)")
      app.resume()
    }
    try await scheduler.shutdown()
  }

  // R-FTS-09
  @Test func aCancelledWaitForSuspensionEnds() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let release = try await app.hold()
    app.suspend()
    let patient = Task {
      await app.untilSuspended()
      return release.isUp
    }
    for round in 0..<100 {
      let waiter = Task { await app.untilSuspended() }
      // Sometimes before it waits, sometimes while it does.
      for _ in 0..<(round % 10) { await Task.yield() }
      waiter.cancel()
      await waiter.value
    }
    #expect(!release.isUp)
    #expect(app.activity == .suspending)
    release.raise()
    #expect(await patient.value)
    try await scheduler.shutdown(within: .seconds(60))
  }

  // R-CPU-10
  @Test func concurrentMovesLeaveAnAppInOneBand() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let arrived = Tally()
    let differences = Tally()
    await onThread {
      DispatchQueue.concurrentPerform(iterations: 2) { thread in
        for round in 0..<2000 * stressScale {
          arrived.increment()
          while arrived.count < 4 * round + 2 { sched_yield() }
          for _ in 0..<3 { app.core.setBand(thread == 0 ? .background : .foreground) }
          arrived.increment()
          while arrived.count < 4 * round + 4 { sched_yield() }
          // The place of actors' jobs as well.
          let (place, actors) = (opp_app_state_read(app.core.raw), opp_app_state_read(app.core.runner))
          if thread == 0, place.band != actors.band { differences.increment() }
        }
      }
    }
    #expect(differences.count == 0)
    try await scheduler.shutdown()
  }

  // R-FTS-09
  @Test func suspendedTasksAndStrandsGoOnWhereTheyWere() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let strand = try app.makeStrand(named: "strand")
    let order = Record<Int>()
    let steps = Atomic<Int>(0)
    let task = app.task {
      for _ in 0..<1000 {
        steps.add(1, ordering: .relaxed)
        await Task.yield()
      }
    }
    for round in 0..<50 {
      app.suspend()
      await app.untilSuspended()
      let before = steps.load(ordering: .relaxed)
      for number in 0..<10 { try strand.submit { order.add(round * 10 + number) } }
      #expect(order.count == round * 10)
      #expect(steps.load(ordering: .relaxed) == before)
      app.resume()
      _ = await order.reaching(round * 10 + 10)
    }
    await task.value
    #expect(order.values == Array(0..<500))
    #expect(steps.load(ordering: .relaxed) == 1000)
    try await scheduler.shutdown()
  }

  // R-FTS-09 R-CPU-10
  @Test func racesOfSuspensionLoseNothing() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let ran = Record<Int>()
    let seen = Atomic<Int>(0)
    for round in 0..<1000 {
      async let steps: Void = onGlobalPool { app.suspend() }
      try app.submit {
        seen.add(1, ordering: .relaxed)
        ran.add(round)
      }
      app.resume()
      await steps
      // Whoever came last, it runs now.
      app.resume()
      if round % 10 == 0 { await app.untilSuspended() }
    }
    #expect(await ran.reaching(1000).sorted() == Array(0..<1000))
    try await scheduler.shutdown()
    #expect(seen.load(ordering: .relaxed) == 1000)
    #expect(app.statistics.submitted == 1000 && app.statistics.cancelled == 0)
  }

  private func onGlobalPool(_ body: @escaping @Sendable () -> Void) async { body() }

  // R-CPU-10
  @Test func queuedJobsFollowTheirApp() async throws {
    let (scheduler, app) = try makeApp(named: "app", band: .background, workers: 1)
    let release = try await holdBackground(scheduler)
    let ran = Record<Int>()
    for number in 0..<100 { try app.submit { ran.add(number) } }
    try app.setBand(.foreground)
    #expect(app.band == .foreground)
    // The one background worker is still held.
    _ = await ran.reaching(100)
    #expect(!release.isUp)
    release.raise()
    try await scheduler.shutdown()
  }

  /// The pool's one worker is inside a job until the flag is up.
  private func holdBackground(_ scheduler: Scheduler) async throws -> Flag {
    let holder = try scheduler.makeApp(named: "holder", band: .background)
    return try await holder.hold()
  }

  // R-CPU-10 R-CPU-02
  /// In the background's pool nobody else looks after them: one that is not woken is missing for good.
  @Test func aResumedAppHasAsManyWorkersWokenAsItCanUse() async throws {
    let (scheduler, app) = try makeApp(named: "app", band: .background, workers: 4, background: .nice19)
    app.suspend()
    let met = try submitMeeting(of: 4, to: app)
    let pool = try #require(scheduler.engine.pools.first { $0.pool == .background })
    #expect(spin { opp_pool_sleeping(pool.raw) == 5 }, "nobody is awake who would find them")
    app.resume()
    #expect(await met.reaching(4) == [true, true, true, true], "each waits for the others to begin")
    try await scheduler.shutdown()
  }

  // R-CPU-10 R-CPU-02
  @Test func anAppThatMovesHasAsManyWorkersWokenAsItCanUse() async throws {
    let scheduler = try makeScheduler(
      workers: 4, quantum: QuantumPolicy(quantum: .milliseconds(500)), spareDelay: .milliseconds(10),
      background: .nice19)
    let app = try scheduler.makeApp(named: "app")
    let holder = try scheduler.makeApp(named: "holder")
    // Four workers and the spare one.
    var releases: [Flag] = []
    for _ in 0..<5 { releases.append(try await holder.hold()) }
    let met = try submitMeeting(of: 4, to: app)
    try app.setBand(.background)
    #expect(await met.reaching(4) == [true, true, true, true], "each waits for the others to begin")
    for release in releases { release.raise() }
    try await scheduler.shutdown()
  }

  /// Jobs each of which says whether all have begun before it ended.
  private func submitMeeting(of count: Int, to app: App) throws -> Record<Bool> {
    let (inside, ended) = (Tally(), Record<Bool>())
    for _ in 0..<count {
      try app.submit {
        inside.increment()
        ended.add(spin { inside.count == count })
      }
    }
    return ended
  }

  // R-CPU-10 R-CPU-02
  @Test func aRunningJobThatGoesToTheBackgroundFreesItsPlace() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let (begun, gate) = (Record<Bool>(), DispatchSemaphore(value: 0))
    // It uses no CPU time, and nothing waits: nobody else takes its place from it.
    try app.submit {
      begun.add(true)
      gate.wait()
    }
    _ = await begun.reaching(1)
    func working() async throws -> Int {
      try #require(await scheduler.statistics().pools.first { $0.pool == .foreground }).working
    }
    #expect(try await working() == 1)
    try app.setBand(.background)
    // The monitor answers after it has seen to that.
    #expect(try await working() == 0)
    gate.signal()
    try await scheduler.shutdown()
  }

  // R-CPU-10 R-CPU-01
  @Test(.enabled(if: isRoot, "the kernel lets only root leave SCHED_IDLE again"))
  func runningJobIsLoweredAndReplaced() async throws {
    let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(500)))
    let app = try scheduler.makeApp(named: "app")
    let other = try scheduler.makeApp(named: "other")
    let classes = Record<Int32>()
    let release = Flag()
    try app.submit {
      classes.add(sched_getscheduler(opp_thread_id()))
      _ = spin { sched_getscheduler(opp_thread_id()) == schedIdle }
      classes.add(sched_getscheduler(opp_thread_id()))
      release.spin()
    }
    #expect(await classes.reaching(1) == [0])
    try app.setBand(.background)
    #expect(await classes.reaching(2) == [0, schedIdle])
    // A substitute serves the pool, at the pool's own class.
    let substitute = await other.task { sched_getscheduler(0) }.value
    #expect(substitute == 0)
    #expect(!release.isUp)
    release.raise()
    // Back in the pool, the thread is a foreground one again.
    for _ in 0..<20 { #expect(await other.task { sched_getscheduler(0) }.value == 0) }
    try await scheduler.shutdown()
  }

  // R-CPU-10 R-CPU-01
  @Test(.enabled(if: isRoot, "the kernel lets only root leave SCHED_IDLE again"))
  func aRunningJobComesBackWithItsApp() async throws {
    let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(500)))
    let app = try scheduler.makeApp(named: "app")
    let seen = Record<Bool>()
    try app.submit {
      seen.add(true)
      seen.add(spin { sched_getscheduler(opp_thread_id()) == schedIdle })
      seen.add(spin { sched_getscheduler(opp_thread_id()) == 0 })
    }
    _ = await seen.reaching(1)
    try app.setBand(.background)
    _ = await seen.reaching(2)
    try app.setBand(.foreground)
    #expect(await seen.reaching(3) == [true, true, true])
    try await scheduler.shutdown()
  }
}
