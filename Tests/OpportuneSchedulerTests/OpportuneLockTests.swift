import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A lock whose holder inherits the band of who waits for it, or runs at a ceiling.
@Suite(.bounded, .timeLimit(.minutes(2))) struct OpportuneLockTests {
  /// A task that holds the lock until the flag is raised, and sleeps meanwhile.
  private func hold<Value>(
    _ lock: OpportuneLock<Value>, in app: App, until flag: Flag,
    then: @escaping @Sendable () async throws -> Void = {}
  ) async -> AppTask<Void, any Error> {
    let begun = Record<Bool>()
    let task = app.task {
      try await lock.withLock { _ in
        begun.add(true)
        while !flag.isUp { try await app.clock.sleep(for: .microseconds(200)) }
        try await then()
      }
    }
    _ = await begun.reaching(1)
    return task
  }

  // R-CPU-02 R-CARD-03
  /// Each section alone, from apps of both bands and from none, some cancelled while they wait.
  @Test(arguments: [nil, .foreground] as [Band?]) func sectionsNeverOverlap(ceiling: Band?) async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let lock = try OpportuneLock(0, in: scheduler, ceiling: ceiling)
    let (inside, entered, refused) = (Gauge(), Tally(), Tally())
    let rounds = 200 * stressScale
    @Sendable func use(_ number: Int) async {
      do {
        try await lock.withLock { value in
          inside.enter()
          let old = value
          if number % 3 == 0 { await Task.yield() }
          value = old + 1
          inside.leave()
        }
        entered.add(1)
      } catch { refused.add(1) }
    }
    await withTaskGroup { group in
      for number in 0..<rounds {
        for task in [front.task { await use(number) }, back.task { await use(number + 1) }] {
          if number % 7 == 0 { task.cancel() }
          group.addTask { _ = await task.result }
        }
        group.addTask { await use(number) }
      }
    }
    let count = try await lock.withLock { $0 }
    #expect(entered.count + refused.count == 3 * rounds)
    #expect(count == entered.count)
    #expect(inside.maximum == 1)
    try await scheduler.shutdown()
  }

  // R-CPU-01 R-CPU-02
  /// All of the background stands still, and yet who holds the lock comes to its end.
  @Test func aHolderInheritsTheBandOfWhoWaits() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 1)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let lock = try OpportuneLock((), in: scheduler)
    let goOn = Flag()
    let holder = await hold(lock, in: back, until: goOn)
    let release = try await back.hold()
    goOn.raise()
    try await front.task { try await lock.withLock { _ in } }.value
    #expect(!release.isUp)
    release.raise()
    _ = await holder.result
    try await scheduler.shutdown()
  }

  // R-CPU-01 R-CPU-02
  /// 1 holds a lock and waits for the second, whose holder waits for the third, and so on. Whether the
  /// foreground comes before the chain is closed or after, its last link inherits.
  @Test(arguments: [true, false]) func aChainOfFiveInherits(comesFirst: Bool) async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 1)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let locks = try (0..<5).map { try OpportuneLock($0, named: "\($0)", in: scheduler) }
    let (goOn, closes) = (Flag(), Flag())
    var tasks = [await hold(locks[4], in: back, until: goOn)]
    for number in (0..<4).reversed() {
      tasks.append(
        await hold(locks[number], in: back, until: closes) { try await locks[number + 1].withLock { _ in } })
    }
    // It waits for the first while the others have not begun to, or once they all do.
    let waiter = front.task {
      while !comesFirst && !goOn.isUp { await Task.yield() }
      return try await locks[0].withLock { $0 }
    }
    if comesFirst { try await eventually("the foreground waits") { locks[0].core.waiterCount == 1 } }
    closes.raise()
    try await eventually("the chain is closed") { locks[1...].allSatisfy { $0.core.waiterCount == 1 } }
    let release = try await back.hold()
    goOn.raise()
    #expect(try await waiter.value == 0)
    #expect(!release.isUp)
    release.raise()
    for task in tasks { _ = await task.result }
    try await scheduler.shutdown()
  }

  // R-CPU-02
  /// Two that wait for each other wait on, but nobody else is caught by that; and one can be cancelled.
  @Test func aCircleEndsWhereOneIsCancelled() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let (a, b) = (try OpportuneLock(1, in: scheduler), try OpportuneLock(2, in: scheduler))
    let closes = Flag()
    let first = await hold(a, in: back, until: closes) { try await b.withLock { _ in } }
    let second = await hold(b, in: back, until: closes) { try await a.withLock { _ in } }
    closes.raise()
    let waiters = (0..<4).map { number in
      front.task { try await (number % 2 == 0 ? a : b).withLock { $0 } }
    }
    await front.task { await Task.yield() }.value
    second.cancel()
    await #expect(throws: CancellationError.self) { try await second.result.get() }
    try await first.value
    for (number, waiter) in waiters.enumerated() { #expect(try await waiter.value == number % 2 + 1) }
    try await scheduler.shutdown()
  }

  // R-CPU-02
  @Test func aCancelledWaiterIsPassedOver() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let lock = try OpportuneLock(0, in: scheduler)
    let goOn = Flag()
    let holder = await hold(lock, in: app, until: goOn)
    let ran = Record<Int>()
    let waiters = (0..<10).map { number in
      app.task { try await lock.withLock { _ in ran.add(number) } }
    }
    for number in [0, 3, 9] { waiters[number].cancel() }
    for number in [0, 3, 9] {
      await #expect(throws: CancellationError.self) { try await waiters[number].result.get() }
    }
    goOn.raise()
    try await holder.value
    for number in [1, 2, 4, 5, 6, 7, 8] { try await waiters[number].value }
    #expect(Set(ran.values) == [1, 2, 4, 5, 6, 7, 8])
    // One that was cancelled before it came does not wait at all, and takes what is free.
    let late = app.task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await lock.withLock { $0 }
    }
    #expect(try await late.value == 0)
    try await scheduler.shutdown()
  }

  // R-CPU-01
  @Test func theForegroundGoesFirst() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let lock = try OpportuneLock((), in: scheduler)
    let goOn = Flag()
    let holder = await hold(lock, in: front, until: goOn)
    let order = Record<String>()
    var tasks: [AppTask<Void, any Error>] = []
    for app in [back, front] {
      tasks.append(app.task { try await lock.withLock { _ in order.add(app.name) } })
      let count = tasks.count
      try await eventually("\(app.name) waits") { lock.core.waiterCount == count }
    }
    goOn.raise()
    for task in tasks { try await task.value }
    try await holder.value
    #expect(order.values == ["front", "back"])
    try await scheduler.shutdown()
  }

  // R-CPU-01 R-FTS-09
  /// At a ceiling a section is the foreground's, and goes on though its app is suspended; the app's own code
  /// does not.
  @Test func sectionsRunAtTheCeiling() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let lock = try OpportuneLock(0, in: scheduler, ceiling: .foreground)
    let engine = scheduler.engine
    let pools = Record<WorkerPool?>()
    let (goOn, after) = (Flag(), Record<Bool>())
    let begun = Record<Bool>()
    let task = back.task {
      try await lock.withLock { value in
        begun.add(true)
        while !goOn.isUp {
          pools.add(Worker.current(of: engine)?.pool.pool)
          await Task.yield()
        }
        value = 1
      }
      after.add(true)
    }
    _ = await begun.reaching(1)
    back.suspend()
    goOn.raise()
    #expect(try await front.task { try await lock.withLock { $0 } }.value == 1)
    #expect(pools.values.allSatisfy { $0 == .foreground })
    #expect(after.count == 0)
    back.resume()
    try await task.value
    #expect(after.count == 1)
    try await scheduler.shutdown()
  }

  // R-FTS-09
  @Test func aSuspendedAppIsPassedOver() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let other = try scheduler.makeApp(named: "other")
    let lock = try OpportuneLock(0, in: scheduler)
    let goOn = Flag()
    let holder = await hold(lock, in: front, until: goOn)
    var tasks: [AppTask<Void, any Error>] = []
    for app in [other, front] {
      tasks.append(app.task { try await lock.withLock { $0 += 1 } })
      let count = tasks.count
      try await eventually("\(app.name) waits") { lock.core.waiterCount == count }
    }
    other.suspend()
    await other.untilSuspended()
    goOn.raise()
    try await holder.value
    try await tasks[1].value
    other.resume()
    try await tasks[0].value
    #expect(try await lock.withLock { $0 } == 2)
    try await scheduler.shutdown()
  }

  @Test func aCeilingNeedsItsPool() throws {
    let scheduler = try makeScheduler(workers: 1)
    #expect(throws: SchedulerError.self) { try OpportuneLock(0, in: scheduler, ceiling: .realTime) }
    let app = try scheduler.makeApp(named: "app")
    #expect(throws: SchedulerError.self) { try app.makeStrand(named: "strand", ceiling: .realTime) }
  }
}
