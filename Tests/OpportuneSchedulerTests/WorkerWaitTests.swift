import COpportune
import Glibc
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Jobs that wait in the kernel for a short time.
@Suite(.bounded, .serialized) struct WorkerWaitTests {
  /// What a job sees of its worker before, in and after a wait; the wait's own value is nil where there is
  /// none.
  private struct Seen: Sendable {
    var before = opp_worker_state.OPP_WORKER_IDLE
    var inside: opp_worker_state?
    var tokensInside: UInt32?
    var after = opp_worker_state.OPP_WORKER_IDLE
  }

  private func look(on app: App, of scheduler: Scheduler, _ body: @escaping @Sendable () -> Void = {})
    async throws -> Seen
  {
    let seen = Record<Seen>()
    let engine = scheduler.engine
    try app.submit {
      guard let worker = Worker.current(of: engine) else { return seen.add(Seen()) }
      var result = Seen(before: worker.state)
      WorkerWait.perform {
        result.inside = worker.state
        result.tokensInside = opp_pool_working(worker.pool.raw)
        body()
      }
      result.after = worker.state
      seen.add(result)
    }
    return try #require(await seen.reaching(1).first)
  }

  // R-CPU-02
  @Test func aWaitReturnsTheTokenAndRegainsIt() async throws {
    let (scheduler, app) = try makeApp(named: "front", workers: 1)
    var seen = try await look(on: app, of: scheduler)
    // Another worker, whose thread has just begun, may have the token for a moment as it looks for jobs.
    for _ in 0..<1000 where seen.tokensInside != 0 || seen.after != .OPP_WORKER_RUNNING {
      seen = try await look(on: app, of: scheduler)
    }
    #expect(seen.before == .OPP_WORKER_RUNNING)
    #expect(seen.inside == .OPP_WORKER_HANDED_OFF)
    #expect(seen.tokensInside == 0)
    #expect(seen.after == .OPP_WORKER_RUNNING)
    try await scheduler.shutdown()
  }

  // R-CPU-02
  /// What is queued behind the only token begins while the job that had it waits.
  @Test func anotherWorksMeanwhile() async throws {
    let (scheduler, app) = try makeApp(named: "front", workers: 1, spareDelay: .milliseconds(10))
    let hasRun = Flag()
    let state = Record<opp_worker_state>()
    let engine = scheduler.engine
    let seen = try await look(on: app, of: scheduler) {
      try? app.submit {
        if let worker = Worker.current(of: engine) { state.add(worker.state) }
        hasRun.raise()
      }
      hasRun.spin()
    }
    #expect(seen.inside == .OPP_WORKER_HANDED_OFF)
    // By the token, and not as the spare worker, whom the monitor would have called later.
    #expect(await state.reaching(1) == [.OPP_WORKER_RUNNING])
    try await scheduler.shutdown()
  }

  // R-CPU-06 R-CPU-08
  /// Forty milliseconds of CPU time and more, with waits of two: they count as blocking where the gap is
  /// shorter.
  @Test(arguments: [(Duration.seconds(1), true), (.microseconds(250), false)])
  func waitsShorterThanTheGapAreNoBlocking(gap: Duration, demotes: Bool) async throws {
    let (scheduler, app) = try makeApp(named: "front", workers: 1, quantum: QuantumPolicy(blockingGap: gap))
    let ended = Record<Bool>()
    try app.submit {
      // Who is to be demoted goes on until the monitor, which a busy machine may keep waiting, has done it.
      for round in 0..<1000 where round < 20 || demotes && app.statistics.demotions == 0 {
        spinCPU(milliseconds: 2)
        WorkerWait.perform { _ = usleep(2000) }  // how long it waits is the subject
      }
      ended.add(true)
    }
    _ = await ended.reaching(1)
    try await scheduler.shutdown()
    #expect((app.statistics.demotions > 0) == demotes)
  }

  // R-CPU-01 R-CPU-06
  /// Whatever lock of the kernel it holds, it holds no longer than fresh work would.
  @Test func aDemotedJobWaitsAtThePriorityOfFreshWork() async throws {
    let (scheduler, app) = try makeApp(named: "front", workers: 1)
    let engine = scheduler.engine
    struct Nice { var fresh = niceValue(), before: Int32 = 0, inside: Int32?, after: Int32 = 0 }
    let seen = Record<Nice?>()
    try app.submit {
      guard let worker = Worker.current(of: engine) else { return seen.add(nil) }
      var nice = Nice()
      while worker.depth < 2 { spinCPU(milliseconds: 1) }
      nice.before = niceValue()
      nice.inside = WorkerWait.perform { niceValue() }
      nice.after = niceValue()
      seen.add(nice)
    }
    let first = await seen.reaching(1).first
    let nice = try #require(first.flatMap { $0 })
    try await scheduler.shutdown()
    #expect(nice.inside == (engine.privileges.canRaise ? nice.fresh : nice.before))
    #expect(nice.after >= nice.before)
    #expect(nice.before > nice.fresh || !engine.privileges.canRaise)
  }

  // R-CPU-01 R-CPU-06
  /// An ordinary user's keeps its nice value, has the slice of fresh work, and waits on its thread as well;
  /// but not in the class that may get no CPU for as long as others run.
  @Test(arguments: OverlapClass.allCases)
  func aDemotedJobThatCannotBeRaisedWaitsAtItsNiceValue(overlap: OverlapClass) async throws {
    var privileges = KernelPrivileges.probe()
    privileges.canRaise = false
    let configuration = SchedulerConfiguration(workers: 1) {
      $0.quantum.quantum = .milliseconds(1)
      $0.overlapClass = overlap
    }
    let engine = try Engine(configuration, .silent, privileges: privileges)
    let app = try engine.makeApp(named: "front", band: .foreground)
    struct Seen { var policy: Int32 = -1, inside: [UInt64]?, before: [UInt64] = [], after: [UInt64] = [] }
    /// Nice value and slice of the calling thread.
    @Sendable func share() -> [UInt64] {
      var own = opp_sched_params()
      return opp_thread_get_sched(0, &own) == 0 ? [UInt64(UInt8(bitPattern: own.nice)), own.slice_ns] : []
    }
    let seen = Record<Seen>()
    try app.submit {
      func isInOverlap() -> Bool {
        overlap == .background ? sched_getscheduler(0) != SCHED_OTHER : niceValue() == 19
      }
      while !isInOverlap() { spinCPU(milliseconds: 1) }
      var result = Seen(policy: sched_getscheduler(0), before: share())
      result.inside = WorkerWait.perform { share() }
      result.after = share()
      seen.add(result)
    }
    let result = try #require(await seen.reaching(1).first)
    await engine.end()
    #expect((result.policy == SCHED_OTHER) == (overlap == .nice19))
    let before = try #require(result.before.last)
    let slice = privileges.canSetSlice ? KernelPriority.foregroundSliceNanoseconds : before
    #expect(result.inside == (overlap == .nice19 ? [19, slice] : nil))
    #expect(result.after == result.before && (before != slice || !privileges.canSetSlice))
  }

  // R-CPU-01 R-CPU-06
  /// Who is demoted as it waits keeps its priority until it holds no lock of the kernel any more.
  @Test func whoIsDemotedMeanwhileIsLoweredAfterwards() async throws {
    let (scheduler, app) = try makeApp(named: "front", workers: 1)
    let engine = scheduler.engine
    struct Nice { var fresh: Int32 = 0, inside: Int32?, after: Int32 = 0 }
    let seen = Record<Nice?>()
    try app.submit {
      guard let worker = Worker.current(of: engine) else { return seen.add(nil) }
      var nice = Nice(fresh: niceValue())
      nice.inside = WorkerWait.perform {
        // An ordinary user's keeps its nice value at the first step.
        while worker.depth < 2 { spinCPU(milliseconds: 1) }
        // The monitor lowers it before it says so.
        return niceValue()
      }
      nice.after = niceValue()
      seen.add(nice)
    }
    let first = await seen.reaching(1).first
    let nice = try #require(first.flatMap { $0 })
    try await scheduler.shutdown()
    #expect(nice.inside == nice.fresh)
    #expect(nice.after > nice.fresh)
  }

  // R-CPU-05
  @Test func whoHasNoTokenDoesNotWaitHere() async throws {
    let (scheduler, back) = try makeApp(named: "back", band: .background, workers: 1)
    #expect(try await look(on: back, of: scheduler).inside == nil)
    #expect(WorkerWait.perform { true } == nil)  // on a thread that is no worker
    try await scheduler.shutdown()
  }
}
