import COpportune
import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

private enum Trace {
  @TaskLocal static var name = "none"
}

private actor Counter {
  private(set) var value = 0
  func add() { value += 1 }

  /// Keeps the actor until the flag is up.
  func hold(_ held: Record<Int>, until flag: Flag) {
    held.add(0)
    flag.spin()
  }
}

private actor Keeper {
  nonisolated let strand: Strand
  private(set) var value = 0

  init(_ strand: Strand) { self.strand = strand }

  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  func add() -> Int {
    strand.checkIsolated()
    value += 1
    return value
  }

  nonisolated func addFromStrand() { assumeIsolated { $0.value += 1 } }
}

@Suite(.bounded, .timeLimit(.minutes(3))) struct ExecutorTests {
  private static func onWorker() -> Bool { opp_thread_worker() != nil }

  // R-CPU-02 R-CARD-07
  @Test func childTasksStayOnTheExecutor() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let stayed = await app.task {
      async let first = Self.onWorker()
      async let second = Self.onWorker()
      let group = await withTaskGroup(of: Bool.self) { group in
        for _ in 0..<50 {
          group.addTask {
            await Task.yield()
            return Self.onWorker()
          }
        }
        return await group.reduce(true) { $0 && $1 }
      }
      let here = Self.onWorker()
      let (one, two) = await (first, second)
      return one && two && group && here
    }.value
    #expect(stayed)
    let preferred = Task(executorPreference: app.executor) { Self.onWorker() }
    #expect(await preferred.value)
    #expect(app.statistics.escapes == 0)
    try await scheduler.shutdown()
  }

  // R-CARD-07
  @Test func groupsSumAndErrorsTravel() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let sum = try await app.task {
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 1...1000 { group.addTask { number } }
        return try await group.reduce(0, +)
      }
    }.value
    #expect(sum == 500_500)
    await #expect(throws: Failure(number: 3)) { try await app.task { throw Failure(number: 3) }.value }
    try await scheduler.shutdown()
  }

  private struct Failure: Error, Equatable { let number: Int }

  // R-CARD-07
  /// What cannot throw is awaited without `try`; what can throws what its operation throws.
  @Test func valuesThrowWhatTheirOperationsDo() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let safe: AppTask<Int, Never> = app.task { 1 }
    let value = await safe.value
    #expect(value == 1)
    let result: Result<Int, Never> = await safe.result
    #expect(result.get() == 1)
    let failing: AppTask<Int, any Error> = app.task { throw Failure(number: 4) }
    await #expect(throws: Failure(number: 4)) { try await failing.value }
    guard case .failure(let error) = await failing.result else {
      Issue.record("the failure is the result's")
      return
    }
    #expect(error as? Failure == Failure(number: 4))
    try await scheduler.shutdown()
  }

  // R-CARD-07
  @Test func cancellationReachesTheTree() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let begun = Record<Int>()
    let task = app.task {
      await withTaskGroup(of: Bool.self) { group in
        for number in 0..<4 {
          group.addTask {
            begun.add(number)
            while !Task.isCancelled { await Task.yield() }
            return true
          }
        }
        return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
    }
    _ = await begun.reaching(4)
    task.cancel()
    #expect(await task.value == 4)
    #expect(task.isCancelled)
    try await scheduler.shutdown()
  }

  // R-CARD-07
  @Test func taskLocalsAreInherited() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let names = await Trace.$name.withValue("outer") {
      await app.task {
        await Task.yield()
        async let child = Trace.name
        let inner = await Trace.$name.withValue("inner") {
          await withTaskGroup(of: String.self) { group in
            group.addTask {
              await Task.yield()
              return Trace.name
            }
            return await group.next()
          }
        }
        return [Trace.name, await child, inner ?? ""]
      }.value
    }
    #expect(names == ["outer", "outer", "inner"])
    try await scheduler.shutdown()
  }

  // R-CPU-02
  @Test func strandActorIsIsolated() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let strand = try app.makeStrand(named: "keeper")
    let keeper = Keeper(strand)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<200 {
        group.addTask(executorPreference: app.executor) { _ = await keeper.add() }
        group.addTask { _ = await keeper.add() }
      }
    }
    #expect(await keeper.value == 400)
    let done = Record<Bool?>()
    try strand.submit {
      keeper.addFromStrand()
      done.add(strand.isIsolatingCurrentContext())
    }
    #expect(await done.reaching(1) == [true])
    #expect(await keeper.value == 401)
    #expect(strand.isIsolatingCurrentContext() == false)
    try await scheduler.shutdown()
  }

  // R-CPU-01 R-CPU-02
  @Test func prioritiesOrderWorkWithinAnApp() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1, spareDelay: .milliseconds(10))
    var inOrder = 0
    for _ in 0..<10 {
      app.suspend()
      await app.untilSuspended()
      let order = Record<Int>()
      try app.submit(priority: .background) { order.add(6) }
      let lowTask = Task(executorPreference: app.executor, priority: .low) { order.add(5) }
      try app.submit { order.add(3) }
      let highTask = Task(executorPreference: app.executor, priority: .high) { order.add(1) }
      try app.submit(priority: TaskPriority(rawValue: 33)) { order.add(0) }
      // A job is queued by the time that its submission, or the task's initialiser, has returned.
      app.resume()
      let ran = await order.reaching(5)
      #expect(ran.sorted() == [0, 1, 3, 5, 6])
      if lateOnes(ran) == 0 { inOrder += 1 }
      _ = (await lowTask.value, await highTask.value)
    }
    // A worker that is not given the CPU for 10 ms between taking a job and running it gets help, and is
    // late.
    #expect(inOrder >= 7)
    try await scheduler.shutdown()
  }

  // R-CARD-07 R-SYS-03 R-CPU-04
  @Test func schedulersLiveSideBySide() async throws {
    let schedulers = try [Bands.default, .disjoint, .default].map { bands in
      try Scheduler(configuration: SchedulerConfiguration(workers: 2) { $0.bands = bands })
    }
    let apps = try zip(schedulers, [.foreground, .background, .foreground] as [Band]).map {
      try $0.makeApp(named: "app", band: $1)
    }
    apps[2].suspend()
    // From one to the other and back: neither is the other's worker.
    let sum = await apps[0].task {
      var sum = 0
      for number in 0..<100 {
        sum += await apps[1].task { number }.value
        let back = Task(executorPreference: apps[0].executor) { 1 }
        sum += await back.value
      }
      return sum
    }.value
    #expect(sum == 4950 + 100)
    let ran = Record<Int>()
    try apps[2].submit { ran.add(1) }
    try await schedulers[0].shutdown()
    #expect(await apps[1].task { 7 }.value == 7)
    #expect(ran.count == 0)
    apps[2].resume()
    #expect(await ran.reaching(1) == [1])
    for scheduler in schedulers.dropFirst() { try await scheduler.shutdown() }
  }

  // R-FTS-09
  @Test func actorSharedWithASuspendedAppHangsNobody() async throws {
    let (scheduler, stopped) = try makeApp(named: "stopped", workers: 2)
    let other = try scheduler.makeApp(named: "other")
    for _ in 0..<20 {
      let counter = Counter()
      let held = Record<Int>()
      let release = Flag()
      let holder = Task(executorPreference: other.executor) { await counter.hold(held, until: release) }
      _ = await held.reaching(1)
      // The suspended app's message is the first in the actor's queue, so the actor goes on in that app's
      // name.
      let reached = Record<Int>()
      let first = Task(executorPreference: stopped.executor) {
        reached.add(1)
        await counter.add()
      }
      _ = await reached.reaching(1)
      stopped.suspend()
      await stopped.untilSuspended()
      let second = Task(executorPreference: other.executor) { await counter.add() }
      release.raise()
      await second.value
      await holder.value
      stopped.resume()
      await first.value
      #expect(await counter.value == 2)
    }
    try await scheduler.shutdown()
  }

  // R-CPU-02
  @Test func foregroundLendsItsBandToWhatItAwaits() async throws {
    let (scheduler, ui) = try makeApp(named: "ui", workers: 1)
    let worker = try scheduler.makeApp(named: "worker", band: .background)
    let release = try await worker.hold()
    let queued = worker.task { 42 }
    // The one background worker is held until after the value has come.
    let answer = await ui.task { await queued.value }.value
    #expect(answer == 42)
    #expect(!release.isUp)
    release.raise()
    try await scheduler.shutdown()
  }

  // R-CARD-07
  @Test func clockSleepsAndIsCancelled() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let clock = app.clock
    let passed = try await app.task {
      let start = clock.now
      try await clock.sleep(for: .milliseconds(3))
      return start.duration(to: clock.now)
    }.value
    #expect(passed >= .milliseconds(3))
    let begun = Record<Int>()
    let sleeper = app.task {
      begun.add(0)
      try await clock.sleep(for: .seconds(3600))
    }
    _ = await begun.reaching(1)
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
    try await scheduler.shutdown()
  }
}
