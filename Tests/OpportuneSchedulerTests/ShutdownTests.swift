import COpportune
import Foundation
import Logging
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded, .timeLimit(.minutes(3))) struct ShutdownTests {
  // R-CARD-07
  @Test(arguments: [1, 2]) func runsWhatIsQueued(workers: Int) async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: workers)
    let background = try scheduler.makeApp(named: "background", band: .background)
    let strand = try app.makeStrand(named: "strand")
    let ran = Record<Int>()
    for number in 0..<300 {
      let home = number % 2 == 0 ? app : background
      try home.submit(onCancel: { ran.add(-1) }, { ran.add(number) })
      try strand.submit { ran.add(1000 + number) }
    }
    // A job that submits more on its way: refused, or run; nothing in between.
    let late = Record<Bool>()
    try app.submit {
      do {
        try app.submit(onCancel: { ran.add(-1) }, { ran.add(5000) })
        late.add(true)
      } catch {
        late.add(false)
      }
    }
    try await scheduler.shutdown()
    #expect(ran.values.filter { $0 < 5000 }.sorted() == Array(0..<300) + Array(1000..<1300))
    let lately = ran.values.filter { $0 == 5000 }.count
    #expect(late.values == [lately == 1])
  }

  // R-CARD-07
  /// Between two of its slices it is in no queue and inside of nothing.
  @Test(arguments: [1, 2]) func aTaskThatYieldsRunsToItsEnd(workers: Int) async throws {
    for _ in 0..<5 {
      let (scheduler, app) = try makeApp(named: "app", workers: workers)
      let begun = Record<Int>()
      let elsewhere = app.task {
        begun.add(0)
        var elsewhere = 0
        for _ in 0..<(isSanitized ? 4_000 : 20_000) {
          await Task.yield()
          if opp_thread_worker() == nil { elsewhere += 1 }
        }
        return elsewhere
      }
      _ = await begun.reaching(1)
      try await scheduler.shutdown(within: .seconds(100))
      #expect(await elsewhere.value == 0, "slices in the global pool")
    }
  }

  // R-FTS-09 R-CARD-07
  @Test func closuresOfSuspendedAppsAreCancelledOnce() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let active = try scheduler.makeApp(named: "active")
    app.suspend()
    let cancelled = Record<Int>()
    let ran = Record<Int>()
    for number in 0..<200 {
      try app.submit(onCancel: { cancelled.add(number) }, { ran.add(number) })
      try active.submit(onCancel: { cancelled.add(-1) }, { ran.add(1000 + number) })
    }
    // Its tasks cannot be cancelled; they end elsewhere.
    let task = app.task { 5 }
    try await scheduler.shutdown()
    #expect(cancelled.values.sorted() == Array(0..<200))
    #expect(ran.values.sorted() == Array(1000..<1200))
    #expect(app.statistics.cancelled == 200 && app.statistics.submitted == 200)
    #expect(await task.value == 5)
    app.resume()
    #expect(ran.count == 200)
  }

  // R-CPU-01
  @Test(.enabled(if: KernelPrivileges.probe().canUseRR, "SCHED_RR is not allowed here"))
  func theProgramsCodeRunsInNoRealTimeClass() async throws {
    var configuration = SchedulerConfiguration()
    configuration.pools.insert(.realTime)
    let classes = Record<Int32>()
    let logger = Logger(telling: { _ in classes.add(sched_getscheduler(0) & 7) })
    let scheduler = try Scheduler(configuration: configuration, logger: logger)
    let app = try scheduler.makeApp(named: "app")
    app.suspend()
    try app.submit(onCancel: { classes.add(sched_getscheduler(0) & 7) }, {})
    let engine = scheduler.engine
    await onThread {
      _ = KernelPriority.monitor(engine.configuration.pools, engine.privileges).apply(to: 0)
      classes.add(sched_getscheduler(0) & 7)
      engine.log(.info, "from the monitor's class", [:])
    }
    #expect(await classes.reaching(2) == [SCHED_RR, 0])
    try await scheduler.shutdown()
    #expect(classes.values == [SCHED_RR, 0, 0])
  }

  // R-CARD-07
  @Test func refusesAfterwards() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let strand = try app.makeStrand(named: "strand")
    try await scheduler.shutdown()
    let shutDown = SchedulerError(.shutDown, "")
    #expect(throws: shutDown) { try app.submit {} }
    #expect(throws: shutDown) { try strand.submit {} }
    #expect(throws: shutDown) { try scheduler.makeApp(named: "late") }
    await #expect(throws: shutDown) { try await scheduler.shutdown() }
    // Harmless, all of them.
    app.suspend()
    app.resume()
    try app.setBand(.background)
    await app.untilSuspended()
    #expect(await scheduler.statistics().apps.map(\.name) == ["app"])
    try await app.clock.sleep(for: .seconds(1_000_000))
  }

  // R-CARD-07
  @Test func whoAsksWhileTheThreadsEndIsAnswered() async throws {
    for _ in 0..<100 {
      let (scheduler, app) = try makeApp(named: "app", workers: 1)
      app.suspend()
      await withTaskGroup(of: Void.self) { group in
        let asked = Record<Int>()
        for number in 0..<4 {
          group.addTask {
            for round in 0..<50 {
              asked.add(round)
              switch number {
              case 0: _ = await scheduler.statistics()
              case 1: await app.untilSuspended()
              case 2: try? await app.clock.sleep(for: .nanoseconds(1))
              default: try? await app.clock.sleep(for: .seconds(round == 49 ? 1_000_000 : 0))
              }
            }
          }
        }
        _ = await asked.reaching(100)
        try? await scheduler.shutdown()
        await group.waitForAll()
      }
    }
  }

  // R-CARD-07
  @Test func namesAJobThatDoesNotEnd() async throws {
    let (scheduler, app) = try makeApp(named: "endless", workers: 2)
    let innocent = try scheduler.makeApp(named: "innocent")
    let held = Record<Int>()
    let release = Flag()
    let ended = Record<Int>()
    try app.submit {
      held.add(0)
      release.spin()
      ended.add(0)
    }
    _ = await held.reaching(1)
    #expect(await innocent.task { 1 }.value == 1)
    do {
      try await scheduler.shutdown(within: .milliseconds(20))
      Issue.record("a job was running")
    } catch {
      #expect(error.code == .jobsStillRunning)
      #expect(error.message.contains("\"endless\"") && !error.message.contains("innocent"))
    }
    release.raise()
    #expect(await ended.reaching(1) == [0])
  }

  // R-CARD-07
  @Test func tasksAndActorsGoOnElsewhere() async throws {
    actor Keeper {
      nonisolated let strand: Strand
      private var inside = false
      private(set) var value = 0
      init(_ strand: Strand) { self.strand = strand }
      nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }
      func add() {
        precondition(!inside)
        inside = true
        value += 1
        inside = false
      }
    }
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let keeper = Keeper(try app.makeStrand(named: "strand"))
    let begun = Record<Int>()
    let go = Flag()
    let survivor = app.task {
      begun.add(0)
      while !go.isUp { await Task.yield() }
      await keeper.add()
      return await withTaskGroup(of: Int.self) { group in
        for number in 0..<20 { group.addTask { number } }
        return await group.reduce(0, +)
      }
    }
    _ = await begun.reaching(1)
    // It yields for ever, so the shutdown's limit cuts it off; what remains of it runs in the global pool.
    do { try await scheduler.shutdown(within: .milliseconds(20)) } catch {
      #expect(error.code == .jobsStillRunning)
    }
    go.raise()
    #expect(await survivor.value == 190)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<100 { group.addTask(executorPreference: app.executor) { await keeper.add() } }
    }
    #expect(await keeper.value == 101)
    #expect(await Task(executorPreference: app.executor) { opp_thread_worker() == nil }.value)
    #expect(app.statistics.escapes > 0)
  }

  // R-CARD-07
  @Test func sleepersAreWokenByAShutdown() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let clock = app.clock
    let begun = Record<Int>()
    let sleeper = app.task {
      begun.add(0)
      try await clock.sleep(for: .seconds(3600))
      return 1
    }
    _ = await begun.reaching(1)
    try await scheduler.shutdown()
    #expect(try await sleeper.value == 1)
    try await clock.sleep(for: .seconds(3600))  // there is nobody to wait for any more
  }

  // R-CARD-03
  /// A task may be queued between the look at the phase and the last draining of the queues.
  @Test func tasksThatComeAsItClosesAreNotLost() async throws {
    for _ in 0..<300 * stressScale {
      let (scheduler, app) = try makeApp(named: "app", workers: 1)
      let ready = Record<Int>()
      let started = Tally()
      let ended = Record<Int>()
      let over = Flag()
      let threads = Task {
        await withTaskGroup(of: Void.self) { group in
          for number in 0..<3 {
            group.addTask {
              await onThread {
                ready.add(number)
                while !over.isUp, started.count < 1000 {
                  let task = started.add(1)
                  Task(executorPreference: app.executor) { ended.add(task) }
                }
              }
            }
          }
        }
      }
      _ = await ready.reaching(3)
      try? await scheduler.shutdown(within: .microseconds(200))
      over.raise()
      await threads.value
      #expect(await ended.reaching(started.count).count == started.count)
    }
  }

  // R-CARD-07
  @Test func submitWhileTheThreadEnds() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let ran = Record<Int>()
    let codes = Record<SchedulerError.Code?>()
    // Once from here, so that the library's own key comes before the one made now.
    try app.submit { ran.add(0) }
    let key = ThreadEnd()
    for hasSource in [true, false] {
      for _ in 0..<10 {
        await onThread {
          if hasSource { do { try app.submit { ran.add(0) } } catch { codes.add(nil) } }
          key.atEnd {
            do throws(SchedulerError) {
              try app.submit { ran.add(1) }
              codes.add(nil)
            } catch {
              codes.add(error.code)
            }
          }
        }
      }
    }
    // Those that had a source have given it back by then; the others get one, and give it back after this.
    #expect(codes.count == 20)
    #expect(codes.values.prefix(10) == Array(repeating: .threadEnding, count: 10)[...])
    #expect(codes.values.allSatisfy { $0 == nil || $0 == .threadEnding })
    try await scheduler.shutdown()
    #expect(ran.values.filter { $0 == 1 }.count == codes.values.filter { $0 == nil }.count)
    #expect(ran.values.filter { $0 == 0 }.count == 11)
  }
}
