import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Options that no other test uses, each tested by its effect on a running scheduler.
@Suite(.bounded, .timeLimit(.minutes(3)), .serialized) struct ConfiguredTests {
  private func scheduler(_ change: (inout SchedulerConfiguration) -> Void) throws -> Scheduler {
    try Scheduler(configuration: SchedulerConfiguration(workers: 1, change))
  }

  // R-CPU-01
  @Test(arguments: BackgroundClass.allCases) func backgroundClassIsTheWorkers(choice: BackgroundClass)
    async throws
  {
    let scheduler = try scheduler { $0.backgroundClass = choice }
    let app = try scheduler.makeApp(named: "app", band: .background)
    let (policy, nice, slice) = await app.task {
      var parameters = opp_sched_params()
      _ = opp_thread_get_sched(0, &parameters)
      return (sched_getscheduler(0), Int(parameters.nice), parameters.slice_ns)
    }.value
    let hasSlice = KernelPrivileges.probe().canSetSlice
    switch choice {
    case .idle: #expect(policy == schedIdle)
    case .nice19: #expect(policy == 0 && nice == 19)
    case .nice19LongSlice: #expect(policy == 0 && nice == 19 && (slice == 100_000_000 || !hasSlice))
    }
    try await scheduler.shutdown()
  }

  // R-SYS-03
  @Test func workersFollowTheMachineOrTheNumber() async throws {
    let automatic = try scheduler { $0.workers = .automatic }
    #expect(automatic.width == Topology().width)
    let tokens = { (scheduler: Scheduler, pool: WorkerPool) in
      scheduler.engine.pools.first { $0.pool == pool }.map { Int(opp_pool_tokens($0.raw)) }
    }
    // A fresh job of the foreground does not wait for another, which the kernel may preempt.
    #expect(tokens(automatic, .foreground) == 2 * automatic.width)
    #expect(tokens(automatic, .background) == automatic.width)
    try await automatic.shutdown()
    let fixed = try scheduler { $0.workers = .fixed(5) }
    #expect(fixed.width == 5)
    #expect(tokens(fixed, .foreground) == 5 && tokens(fixed, .background) == 5)
    // So many run at once, whatever the machine has.
    let app = try fixed.makeApp(named: "app")
    try await app.hold(jobs: 5).raise()
    try await fixed.shutdown()
  }

  // R-CPU-06
  @Test func demotedWorkersAreBoundedByTheOption() async throws {
    // On a busy machine more start before the first is found out; not each time.
    var (few, more): ([Int], [Int]) = ([], [])
    for _ in 0..<5 where few.count >= more.count {
      few = try await hogsThatStart(perCore: 1)
      more = try await hogsThatStart(perCore: 4)
    }
    #expect(few.count < more.count, "\(few), and \(more)")
  }

  /// Which of 40 jobs that do not end have begun once fresh work has been served beside them.
  private func hogsThatStart(perCore: Int) async throws -> [Int] {
    let scheduler = try scheduler {
      $0.quantum = QuantumPolicy(quantum: .milliseconds(1))
      $0.demotedLimitPerCore = perCore
    }
    let app = try scheduler.makeApp(named: "app")
    let other = try scheduler.makeApp(named: "other")
    let inside = Record<Int>()
    let release = Flag()
    let refused = Record<Int>()
    await onThread {
      for number in 0..<40 {
        do {
          try app.submit {
            inside.add(number)
            release.spin()
          }
        } catch { refused.add(number) }
      }
    }
    // Hogs that do not end: known for what they are after the first, they wait, and fresh work keeps its
    // workers.
    for number in 0..<100 { #expect(await other.task { number }.value == number) }
    #expect(!release.isUp && refused.count == 0)
    // Up to the bound; up to three times the bound of those found out while they ran, and beyond only
    // while fresh work waits behind them; token and spare worker. In the background's pool, which serves the
    // overlap, the bound and a token.
    let begun = inside.values
    release.raise()
    _ = await inside.reaching(40)
    try await scheduler.shutdown()
    return begun
  }

  // R-CPU-06
  @Test(arguments: [1, 64]) func boundOfDemotedWorkersIsPerCore(perCore: Int) throws {
    var configuration = SchedulerConfiguration()
    configuration.demotedLimitPerCore = perCore
    let pool = try PoolState(pool: .foreground, width: 3, configuration: configuration)
    #expect(pool.takeable == pool.mask && pool.demotedMask != 0)
    for _ in 0..<3 * perCore { #expect(opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_KNOWN)) }
    #expect(!opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_KNOWN) && pool.demotedCount == 3 * perCore)
    let lowered = pool.loweredOnceMask
    #expect(lowered != 0 && lowered & ~pool.demotedMask == 0)
    #expect(
      pool.takeable == pool.mask & ~pool.demotedMask | lowered,
      "beyond it fresh work, and what may be no hog")
    for _ in 0..<3 * perCore { #expect(opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_ONCE)) }
    #expect(!opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_ONCE), "of which there may be as many again")
    #expect(pool.takeable == pool.mask & ~pool.demotedMask, "beyond that only fresh work")
    for _ in 0..<3 * perCore { #expect(opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_FOUND)) }
    #expect(
      !opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_FOUND),
      "those that were found out as they ran may be as many again")
    #expect(
      opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_STARVES),
      "those beside which fresh work waits may be more")
    for _ in 0..<6 * perCore + 2 { opp_pool_leave_demoted(pool.raw) }
    #expect(pool.takeable == pool.mask && pool.demotedCount == 3 * perCore - 1)
    pool.setWidth(2, configuration)
    #expect(pool.takeable & pool.demotedMask == lowered, "a machine that shrinks lowers it")
  }

  // R-CPU-02 R-CPU-06
  @Test func thereIsRoomForWhatMayBeNoHogNowAndThen() throws {
    var configuration = SchedulerConfiguration()
    configuration.demotedLimitPerCore = 1
    let pool = try PoolState(pool: .foreground, width: 2, configuration: configuration)
    #expect(opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_KNOWN))
    // When is decided by PoolPolicy.
    func grows() -> Bool { !pool.hasRoom(.OPP_DEMOTION_ONCE) && opp_pool_add_room(pool.raw) }
    #expect(!grows(), "there is room for a second")
    #expect(opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_KNOWN))
    // Known hogs and long jobs have all their room: as much is left to what may be short.
    for _ in 0..<2 {
      #expect(pool.takeable & pool.demotedMask == pool.loweredOnceMask && !grows())
      #expect(opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_ONCE))
    }
    #expect(pool.takeable & pool.loweredOnceMask == 0)
    #expect(grows() && pool.takeable & pool.loweredOnceMask == pool.loweredOnceMask)
    #expect(!grows(), "nothing has taken it yet")
    #expect(
      opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_ONCE)
        && !opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_ONCE))
    #expect(pool.takeable & pool.loweredOnceMask == 0)
    #expect(grows() && opp_pool_room(pool.raw, .OPP_DEMOTION_ONCE) == 6)
    opp_pool_take_room(pool.raw)
    #expect(opp_pool_room(pool.raw, .OPP_DEMOTION_ONCE) == 5, "a hog has ended")
    for _ in 0..<100 {
      _ = grows()
      _ = opp_pool_enter_demoted(pool.raw, .OPP_DEMOTION_ONCE)
    }
    #expect(pool.demotedCount == 32 && opp_pool_room(pool.raw, .OPP_DEMOTION_ONCE) == 32, "it is bounded")
    for _ in 0..<100 { opp_pool_take_room(pool.raw) }
    #expect(opp_pool_room(pool.raw, .OPP_DEMOTION_ONCE) == 4)
  }

  @Test(arguments: [.microseconds(50), .milliseconds(10)] as [Duration])
  func spareComesAfterItsDelay(delay: Duration) async throws {
    let scheduler = try scheduler {
      $0.quantum = QuantumPolicy(quantum: .milliseconds(500))
      $0.spareDelay = delay
    }
    let app = try scheduler.makeApp(named: "app")
    let held = Record<AppClock.Instant>()
    let release = Flag()
    try app.submit {
      held.add(app.clock.now)
      release.spin()
    }
    let begun = try #require(await held.reaching(1).first)
    try app.submit { held.add(app.clock.now) }
    let served = await held.reaching(2)[1]
    // How much later is the machine's affair; that it is not earlier is the option's.
    #expect(begun.duration(to: served) >= delay)
    release.raise()
    try await scheduler.shutdown()
  }

  @Test func timersWaitForEachOtherWithinTheTolerance() async throws {
    let scheduler = try scheduler { $0.timerTolerance = .seconds(1) }
    let clock = try scheduler.makeApp(named: "app").clock
    let start = clock.now
    async let exact: Void = clock.sleep(until: start.advanced(by: .milliseconds(300)), tolerance: .zero)
    // It could fire after 50 ms; with a second's tolerance it waits for the other one.
    try await clock.sleep(until: start.advanced(by: .milliseconds(50)))
    #expect(start.duration(to: clock.now) >= .milliseconds(300))
    try await exact
    try await scheduler.shutdown()
  }

  // R-SYS-03
  @Test func aChangedWidthReachesWhatRunsAndWhatWaits() async throws {
    let scheduler = try scheduler {
      $0.workers = .fixed(3)
      $0.backgroundClass = .nice19  // gets its share of a machine that is busy with something else
    }
    // The background's pool has no spare worker: nothing but the tokens decides how many run.
    let app = try scheduler.makeApp(named: "app", band: .background)
    let (narrow, ran) = (Gauge(), Record<Int>())
    func hold() throws -> (held: Record<Int>, release: Flag) {
      let (held, release) = (Record<Int>(), Flag())
      for number in 0..<3 {
        try app.submit {
          held.add(number)
          release.spin()
        }
      }
      return (held, release)
    }
    let wide = try hold()
    _ = await wide.held.reaching(3)
    scheduler.engine.setWidth(1)
    // A number of workers that was set does not follow the machine: it would be three again, a second later
    // at most.
    scheduler.engine.readLimits()
    #expect(scheduler.width == 1)
    for number in 0..<20 {
      try app.submit {
        narrow.enter()
        spinCPU(milliseconds: 1)
        narrow.leave()
        ran.add(number)
      }
    }
    wide.release.raise()
    _ = await ran.reaching(20)
    #expect(narrow.maximum == 1)
    let (held, release) = try hold()
    _ = await held.reaching(1)
    scheduler.engine.setWidth(3)
    _ = await held.reaching(3)
    release.raise()
    try await scheduler.shutdown()
  }

  // R-CPU-02
  /// As long as short jobs end in thousands a quantum there is a run token for each CPU and not two;
  /// afterwards there are two again.
  @Test func aFloodHasARunTokenForEachCPU() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "app")
    let engine = scheduler.engine
    let pool = try #require(engine.pools.first { $0.pool == .foreground })
    @Sendable func tokens() -> Int { Int(opp_pool_tokens(pool.raw)) }
    #expect(tokens() == 2 * scheduler.width)
    // What many jobs would count, so that it does not depend on how fast they are here.
    let isNarrow = await app.task {
      guard let worker = Worker.current(of: engine) else { return false }
      return spin {
        for _ in 0..<1000 { worker.report.addOrdinary(cpu: 100) }
        return tokens() == engine.width
      }
    }.value
    #expect(isNarrow)
    try await eventually("there are two for each CPU again") { tokens() == 2 * scheduler.width }
    try await scheduler.shutdown()
  }

  // R-SYS-03
  /// As when somebody writes to cpu.max, which Tests/c/topology_test.c does.
  @Test func aChangedQuotaIsFollowedWhileJobsRun() async throws {
    let quota = Atomic<UInt64>(0)
    let engine = try Engine(
      SchedulerConfiguration(), .silent,
      readTopology: {
        Topology {
          ($0.pointee.cpu_count, $0.pointee.node_count) = (4, 1)
          $0.pointee.quota_milli = quota.load(ordering: .relaxed)
          return 0
        }
      })
    let app = try engine.makeApp(named: "app", band: .background)
    #expect(engine.width == 4)
    for (milli, width) in [(1500, 2), (100, 1), (0, 4)] {
      quota.store(UInt64(milli), ordering: .relaxed)
      // The monitor looks once a second, while a worker is inside a job.
      let isFollowed = await app.task {
        let end = opp_now_ns() + 60_000_000_000
        while engine.width != width, opp_now_ns() < end { opp_pause() }
        return engine.width == width
      }.value
      #expect(isFollowed, "\(milli) thousandths of a CPU")
    }
    await engine.end()
  }

  @Test func aCancelledSleepIsNotKept() async throws {
    let scheduler = try scheduler { $0.name = "sleepers" }
    let app = try scheduler.makeApp(named: "app")
    let begun = Record<Int>()
    let sleepers = (0..<1000).map { number in
      app.task {
        begun.add(number)
        try await app.clock.sleep(for: .seconds(3600))
      }
    }
    _ = await begun.reaching(1000)
    for sleeper in sleepers { sleeper.cancel() }
    for sleeper in sleepers { await #expect(throws: CancellationError.self) { try await sleeper.value } }
    #expect(await scheduler.statistics().timers == 0)
    // The monitor, awake for these questions at the latest, no more wakes up for them.
    var alarm: UInt64 = 0
    for _ in 0..<10 where alarm != .max {
      alarm = await withCheckedContinuation { scheduler.engine.monitor.post(.snapshot(scheduler.engine, $0)) }
        .alarm
    }
    #expect(alarm == .max)
    try await scheduler.shutdown()
  }

  @Test func appsAreBounded() async throws {
    let scheduler = try scheduler { $0.maximumApps = 2 }
    var apps = try (0..<2).map { try scheduler.makeApp(named: "app \($0)") }
    let error = #expect(throws: SchedulerError.self) { try scheduler.makeApp(named: "third") }
    #expect(error?.code == .tooManyApps && error?.message.contains("third") == true)
    // One that has gone makes room.
    apps.removeLast()
    while true {
      do throws(SchedulerError) {
        apps.append(try scheduler.makeApp(named: "again"))
        break
      } catch { #expect(error.code == .tooManyApps) }
      await Task.yield()
    }
    #expect(await apps[1].task { 1 }.value == 1)
    try await scheduler.shutdown()
  }

  // R-CPU-09
  @Test(.enabled(if: isRoot, "SCHED_RR needs privilege")) func realTimePoolIsRoundRobin() async throws {
    try #require(KernelPrivileges.probe().canUseRR)
    let scheduler = try scheduler { $0.pools = [.foreground, .background, .realTime] }
    let app = try scheduler.makeApp(named: "app", band: .realTime)
    #expect(await app.task { sched_getscheduler(0) & 7 }.value == SCHED_RR)
    try app.setBand(.background)
    #expect(await app.task { sched_getscheduler(0) & 7 }.value == schedIdle)
    try await scheduler.shutdown()
  }

  // R-CPU-09
  @Test func theRealTimeBandNeedsItsPool() async throws {
    let without = try scheduler { $0.pools = [.foreground, .background] }
    #expect(throws: SchedulerError.self) { try without.makeApp(named: "audio", band: .realTime) }
    try await without.shutdown()
    let with = try scheduler { $0.pools = Set(WorkerPool.allCases) }
    let audio = try with.makeApp(named: "audio", band: .realTime)
    #expect(await audio.task { isOnWorker(of: .realTime) }.value)
    try audio.setBand(.background)
    #expect(await audio.task { isOnWorker(of: .background) }.value)
    try await with.shutdown()
  }

  @Test func threadsHaveTheName() async throws {
    let scheduler = try scheduler { $0.name = "kitchen" }
    let app = try scheduler.makeApp(named: "app")
    let thread = await app.task { opp_thread_id() }.value
    let name = try String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8)
    #expect(name.hasPrefix("kitchen-fg"))
    try await scheduler.shutdown()
  }

  // R-CPU-01
  @Test(
    .enabled(if: KernelPrivileges.probe().canUseRR, "SCHED_RR is not allowed here"),
    arguments: [[.foreground, .background], Set(WorkerPool.allCases)])
  func theMonitorRunsAboveTheRealTimePool(pools: Set<WorkerPool>) async throws {
    // A name of its own: the last case's thread may still have its files in /proc.
    let name = pools.contains(.realTime) ? "all" : "two"
    let scheduler = try scheduler { ($0.name, $0.pools) = (name, pools) }
    // It sets its class before it answers anything.
    _ = await scheduler.statistics()
    let monitor = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").compactMap(
      Int32.init
    ).first {
      // A thread that has ended meanwhile has no name.
      (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "\(name)-mon\n"
    }
    var parameters = sched_param()
    #expect((sched_getscheduler(try #require(monitor)) & 7 == SCHED_RR) == pools.contains(.realTime))
    #expect(sched_getparam(try #require(monitor), &parameters) == 0)
    #expect(
      parameters.sched_priority == KernelPriority.monitor(pools, KernelPrivileges.probe()).realTimePriority)
    try await scheduler.shutdown()
  }
}
