import COpportune
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Work of one app that runs from the queue of another app, which waits for it; and that no references
/// remain.
@Suite(.bounded, .timeLimit(.minutes(2))) struct DonationTests {
  private actor Account {
    nonisolated let strand: Strand
    private var value = 0
    private let inside = Atomic<Int>(0)
    nonisolated let overlaps = Record<Int>()

    init(_ strand: Strand) { self.strand = strand }

    nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

    func add() -> Int {
      if inside.add(1, ordering: .relaxed).oldValue != 0 { overlaps.add(value) }
      let old = value
      spinCPU(milliseconds: 1)
      value = old + 1
      inside.subtract(1, ordering: .relaxed)
      return value
    }
  }

  // R-CPU-02
  @Test func aShutdownLeavesActorsIsolated() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let account = Account(try app.makeStrand(named: "account"))
    app.suspend()
    await withTaskGroup(of: Void.self) { group in
      let called = Record<Int>()
      for number in 0..<200 {
        group.addTask {
          called.add(number)
          _ = await account.add()
        }
      }
      _ = await called.reaching(200)
      try? await scheduler.shutdown(within: .milliseconds(100))
      await group.waitForAll()
    }
    #expect(account.overlaps.values.isEmpty)
    #expect(await account.add() == 201)
  }

  // R-FTS-09 R-CPU-10
  @Test func aSuspendedDonorStopsNoTask() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let steps = Record<Int>()
    let task = back.task {
      var number = 0
      while !Task.isCancelled {
        steps.add(number)
        number += 1
        await Task.yield()
      }
    }
    let waiting = Record<Bool>()
    let waiter = front.task {
      waiting.add(true)
      await task.value
    }
    _ = await waiting.reaching(1)
    _ = await steps.reaching(steps.count + 100)
    front.suspend()
    _ = await steps.reaching(steps.count + 100)
    task.cancel()
    front.resume()
    await waiter.value
    try await scheduler.shutdown()
  }

  enum Fate: CaseIterable { case suspended, background, suspendedLater }

  // R-CPU-02 R-CPU-05
  @Test(arguments: Fate.allCases) func theNextToAwaitCountsAsWell(firstIs fate: Fate) async throws {
    let scheduler = try makeScheduler(workers: 1)
    let (a, b) = (try scheduler.makeApp(named: "a"), try scheduler.makeApp(named: "b"))
    let back = try scheduler.makeApp(named: "back", band: .background)
    let release = try await back.hold()
    let steps = Record<Int>()
    let goOn = Flag()
    let task = back.task {
      while !goOn.isUp {
        steps.add(0)
        await Task.yield()
      }
      for _ in 0..<10 { await Task.yield() }
    }
    let waiting = Record<Bool>()
    let first = a.task {
      if fate != .suspendedLater { a.suspend() }
      waiting.add(true)
      await task.value
    }
    _ = await waiting.reaching(1)
    if fate == .background {
      await a.untilSuspended()
      try a.setBand(.background)
      a.resume()
    } else if fate == .suspended {
      await a.untilSuspended()
    }
    let second = b.task {
      waiting.add(true)
      await task.value
    }
    _ = await waiting.reaching(2)
    if fate == .suspendedLater {
      _ = await steps.reaching(steps.count + 100)
      a.suspend()
    }
    _ = await steps.reaching(steps.count + 100)
    goOn.raise()
    await second.value
    #expect(!release.isUp)
    release.raise()
    a.resume()
    await first.value
    try await scheduler.shutdown()
  }

  // R-FTS-09 R-CPU-02
  @Test func aSuspendedDonorStopsNoStrand() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let other = try scheduler.makeApp(named: "other")
    let back = try scheduler.makeApp(named: "back", band: .background)
    let strand = try back.makeStrand(named: "strand")
    let ran = Record<Int>()
    let submit: @Sendable (Int) -> Void = { number in
      do { try strand.submit { ran.add(number) } } catch { Issue.record(error) }
    }
    try front.submit {
      front.suspend()
      submit(0)
    }
    try other.submit { submit(1) }
    submit(2)
    _ = await ran.reaching(3)
    // The job that suspended its own app may still be on its last instructions.
    await front.untilSuspended()
    #expect(front.activity == .suspended)
    try await scheduler.shutdown(within: .seconds(60))
  }

  enum Raiser: CaseIterable { case await, escalate, nobody }

  // R-CPU-02
  @Test(arguments: Raiser.allCases) func anAwaitedTaskIsQueuedWithThePriorityOfWhoAwaits(raiser: Raiser)
    async throws
  {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    // The worker may be kept off the CPU inside the very task, and the spare worker does all the rest; not
    // three times.
    var place = -1
    for _ in 0..<3 where raiser == .nobody ? place < 10 : !(0..<10).contains(place) {
      // All are queued before the first runs.
      app.suspend()
      let order = Record<Int>()
      let low = app.task(priority: .background) { order.add(-1) }
      for number in 0..<100 { try app.submit { order.add(number) } }
      switch raiser {
      // The first statement of a task that goes before all the others.
      case .await: _ = app.task(priority: .high) { await low.value }
      case .escalate: low.escalatePriority(to: .high)
      case .nobody: break
      }
      app.resume()
      place = try #require(await order.reaching(101).firstIndex(of: -1))
    }
    // Every sixteenth pick is another level's.
    #expect(raiser == .nobody ? place >= 10 : place < 10, "it was number \(place)")
    try await scheduler.shutdown()
  }

  // R-CPU-02 R-CARD-03
  @Test func aDonorThatGoesTakesNoJobWithIt() async throws {
    let (scheduler, back) = try makeApp(named: "back", band: .background, workers: 2)
    let strand = try back.makeStrand(named: "strand")
    let ran = Record<Int>()
    for number in 0..<300 {
      let front = try scheduler.makeApp(named: "front \(number)")
      try front.submit {
        do { try strand.submit { ran.add(number) } } catch { Issue.record(error) }
      }
    }
    #expect(Set(await ran.reaching(300)) == Set(0..<300))
    try await scheduler.shutdown()
  }

  // R-LIFE-06 R-CPU-10
  @Test(arguments: [true, false]) func anAppIsQuietOnceItsDonatedSliceHasEnded(isStrand: Bool) async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let inside = Record<Bool>()
    let mayEnd = Flag()
    let slice: @Sendable () -> Void = {
      inside.add(true)
      mayEnd.spin()
    }
    let keeper = Flag()
    if isStrand {
      let strand = try back.makeStrand(named: "strand")
      try front.submit {
        do {
          try strand.submit {
            slice()
            keeper.raise()
          }
        } catch { Issue.record(error) }
      }
    } else {
      let waiting = Record<Bool>()
      let task = back.task {
        while waiting.count == 0 { await Task.yield() }
        // From here on in the place of the app that waits.
        for _ in 0..<1000 { await Task.yield() }
        slice()
        keeper.raise()
      }
      _ = front.task {
        waiting.add(true)
        await task.value
      }
    }
    _ = await inside.reaching(1)
    back.suspend()
    #expect(back.activity != .suspended)
    mayEnd.raise()
    await back.untilSuspended()
    #expect(keeper.isUp)
    back.resume()
    try await scheduler.shutdown(within: .seconds(60))
  }

  // R-CPU-05
  @Test func backgroundHogsKeepToTheTokens() async throws {
    let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "back", band: .background)
    let done = Record<Int>()
    let inside = Gauge()
    for number in 0..<20 {
      try app.submit {
        inside.enter()
        spinCPU(milliseconds: 3)
        inside.leave()
        done.add(number)
      }
    }
    _ = await done.reaching(20)
    // Whoever the machine kept off the CPU for long was replaced, as one that is blocked.
    let replaced = await scheduler.statistics().pools.reduce(0) { $0 + Int($1.replaced) }
    #expect(inside.maximum <= 1 + replaced, "\(inside.maximum) at once, \(replaced) replaced")
    try await scheduler.shutdown()
  }
}
