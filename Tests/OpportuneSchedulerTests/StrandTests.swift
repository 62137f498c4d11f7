import COpportune
import Dispatch
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Strands whose jobs start work, and background strands that the foreground calls.
@Suite(.bounded, .timeLimit(.minutes(2))) struct StrandTests {
  // R-CPU-02
  @Test func whatAStrandsClosureStartsDoesNotWaitForItsEnd() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let strand = try app.makeStrand(named: "strand")
    let pool = try #require(scheduler.engine.pools.first { $0.pool == .foreground })
    // Nobody looks for work by himself.
    while opp_pool_sleeping(pool.raw) < 3 { await Task.yield() }
    let inTime = Record<Bool>()
    try strand.submit {
      let ran = DispatchSemaphore(value: 0)
      app.task { ran.signal() }
      inTime.add(ran.wait(timeout: .now() + 10) == .success)
    }
    #expect(await inTime.reaching(1) == [true])
    try await scheduler.shutdown()
  }

  private actor OnStrand {
    nonisolated let strand: Strand
    nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }
    init(_ strand: Strand) { self.strand = strand }

    func record(in record: Record<Bool?>) { record.add(strand.isIsolatingCurrentContext()) }

    /// Leaves a closure to the strand that blocks until `gate` is open.
    func visit(_ gate: DispatchSemaphore, _ inTime: Record<Bool>) throws {
      try strand.submit { inTime.add(gate.wait(timeout: .now() + 10) == .success) }
    }
  }

  /// The strand goes on, with a closure that waits for who has left.
  // R-CPU-02
  @Test func whoLeavesAStrandDoesNotWaitForWhatComesNextThere() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let pool = try #require(scheduler.engine.pools.first { $0.pool == .foreground })
    let actor = OnStrand(try app.makeStrand(named: "strand"))
    let inTime = Record<Bool>()
    for round in 1...20 {
      // Nobody looks for work by himself.
      while opp_pool_sleeping(pool.raw) < 3 { await Task.yield() }
      let gate = DispatchSemaphore(value: 0)
      try await app.task {
        try await actor.visit(gate, inTime)
        gate.signal()
      }.value
      #expect(await inTime.reaching(round).last == true)
    }
    try await scheduler.shutdown()
  }

  /// The job of a thread that is ending has no queue. It had looked again and again whether the runner had
  /// left.
  // R-CPU-02
  @Test func aJobWithoutAQueueWaitsForTheRunnerAtRest() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let actor = OnStrand(try app.makeStrand(named: "strand"))
    let (begun, gate, ran) = (Record<Bool>(), DispatchSemaphore(value: 0), Record<Bool?>())
    try actor.strand.submit {
      begun.add(true)
      gate.wait()
    }
    _ = await begun.reaching(1)
    let key = ThreadEnd()
    await onThread {
      try? app.submit {}  // so that it has a source, which it gives back before the key's turn
      key.atEnd { Task(executorPreference: CallersThread()) { await actor.record(in: ran) } }
    }
    // It had looked through the global pool.
    for _ in 0..<100 {
      await withCheckedContinuation { done in DispatchQueue.global().async { done.resume() } }
    }
    #expect(scheduler.engine.escapeCount == 0)
    gate.signal()
    #expect(await ran.reaching(1) == [true])
    #expect(scheduler.engine.escapeCount == 1)
    try await scheduler.shutdown()
  }

  /// It has nobody else run what the strand of a suspended app has to do.
  // R-CPU-02 R-FTS-09
  @Test func aJobWithoutAQueueLeavesTheOthersToTheWorkers() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let actor = OnStrand(try app.makeStrand(named: "strand"))
    let (ran, others) = (Record<Bool?>(), Record<Int>())
    app.suspend()
    try actor.strand.submit { others.add(1) }
    let key = ThreadEnd()
    await onThread {
      try? app.submit {}
      key.atEnd { Task(executorPreference: CallersThread()) { await actor.record(in: ran) } }
    }
    #expect(await ran.reaching(1) == [true])
    while actor.strand.hasRunner { await Task.yield() }
    #expect(others.count == 0)
    app.resume()
    _ = await others.reaching(1)
    try await scheduler.shutdown()
  }

  // R-CPU-02
  /// In the background's pool nobody runs beside it.
  @Test func aStrandWithMuchToDoGoesToTheBackOfTheQueue() async throws {
    let scheduler = try makeScheduler(workers: 1, background: .nice19)
    let (app, other) = (
      try scheduler.makeApp(named: "app", band: .background),
      try scheduler.makeApp(named: "other", band: .background)
    )
    let strand = try app.makeStrand(named: "strand")
    let order = Record<Int>()
    let release = try await other.hold()
    for number in 1...50 {
      try strand.submit {
        // From the strand's first job on another waits.
        if number == 1 { do { try other.submit { order.add(0) } } catch { Issue.record(error) } }
        spinCPU(milliseconds: 1)
        order.add(number)
      }
    }
    release.raise()
    let place = try #require(await order.reaching(51).firstIndex(of: 0))
    #expect(
      place < 25, "the other app's job was number \(place), with a strand's turn of a fifth of a millisecond")
    try await scheduler.shutdown()
  }

  /// A background app's strand, a foreground app, and a background that is held for as long as `release` is
  /// down.
  private struct Held {
    let scheduler: Scheduler
    let front: App
    let back: App
    let strand: Strand
    let release = Flag()
    let served = Record<Int>()

    init() throws {
      scheduler = try makeScheduler(workers: 1)
      front = try scheduler.makeApp(named: "front")
      back = try scheduler.makeApp(named: "back", band: .background)
      strand = try back.makeStrand(named: "strand")
    }

    /// The pool's one worker is held, at last when the job that it is inside of has ended. Notes when it is.
    @discardableResult func holdBackground() throws -> Record<Bool> {
      let isHeld = Record<Bool>()
      // Of a higher rank than a strand's token.
      try back.submit(priority: .high) { [release] in
        isHeld.add(true)
        release.spin()
      }
      return isHeld
    }

    func submitFromFront(_ number: Int) throws {
      try front.submit { [strand, served] in
        do { try strand.submit { served.add(number) } } catch { Issue.record(error) }
      }
    }

    /// What the foreground has asked for comes while the background is held.
    func expectServed(_ count: Int) async throws {
      _ = await served.reaching(count)
      #expect(!release.isUp)
      release.raise()
      try await scheduler.shutdown()
    }
  }

  // R-CPU-02 R-CPU-05
  @Test func theForegroundsJobIsServedInTheForegroundBehindABacklog() async throws {
    let held = try Held()
    _ = try await held.holdBackground().reaching(1)
    for _ in 0..<10 { try held.strand.submit { spinCPU(milliseconds: 1) } }
    try held.submitFromFront(0)
    try await held.expectServed(1)
  }

  // R-CPU-02 R-CPU-05
  @Test func theForegroundTakesAStrandOverThatTheBackgroundRuns() async throws {
    let held = try Held()
    let inside = Record<Int>()
    let mayEnd = Flag()
    try held.strand.submit {
      inside.add(0)
      mayEnd.spin()
    }
    _ = await inside.reaching(1)
    // The strand's own turn comes behind this.
    try held.holdBackground()
    let submitted = Record<Int>()
    for number in 0..<10 {
      try held.submitFromFront(number)
      try held.front.submit { submitted.add(number) }
    }
    _ = await submitted.reaching(10)
    spinCPU(milliseconds: 1)
    mayEnd.raise()
    try await held.expectServed(10)
  }

  // R-CPU-02 R-CPU-05
  @Test func aTokenThatMeetsARunnerIsNotLost() async throws {
    let held = try Held()
    let (front, strand, served) = (held.front, held.strand, held.served)
    let (inside, submitted) = (Record<Int>(), Record<Int>())
    let (blocker, mayEnd) = (Flag(), Flag())
    // The token stands in the foreground app's place, which waits until the background runs the strand.
    try held.back.submit { blocker.spin() }
    try strand.submit {
      inside.add(0)
      mayEnd.spin()
    }
    try front.submit {
      front.suspend()
      do { try strand.submit { served.add(0) } } catch { Issue.record(error) }
      submitted.add(0)
    }
    _ = await submitted.reaching(1)
    blocker.raise()
    _ = await inside.reaching(1)
    try held.holdBackground()
    front.resume()
    // Of a lower rank than the token.
    try front.submit(priority: .background) { submitted.add(1) }
    _ = await submitted.reaching(2)
    spinCPU(milliseconds: 1)
    mayEnd.raise()
    try await held.expectServed(1)
  }

  // R-CPU-05
  @Test func whatNobodyInFrontWaitsForStaysInTheBackground() async throws {
    let held = try Held()
    _ = try await held.holdBackground().reaching(1)
    let (front, strand, served) = (held.front, held.strand, held.served)
    let (inside, behind) = (Record<Int>(), Record<Int>())
    let mayEnd = Flag()
    try front.submit {
      do {
        try strand.submit {
          inside.add(0)
          mayEnd.spin()
          served.add(0)
        }
      } catch { Issue.record(error) }
    }
    _ = await inside.reaching(1)
    for number in 0..<10 { try strand.submit { behind.add(number) } }
    mayEnd.raise()
    _ = await served.reaching(1)
    for _ in 0..<100 { await front.task {}.value }
    #expect(behind.count == 0)
    try await held.expectServed(1)
    #expect(behind.values == Array(0..<10))
  }
}
