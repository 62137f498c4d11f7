import TestSupport
import Testing

@testable import OpportuneScheduler

/// Strands of the background whose jobs run in the foreground all the same.
@Suite(.bounded, .timeLimit(.minutes(2))) struct CeilingTests {
  private actor Account {
    nonisolated let strand: Strand
    nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }
    private let engine: Engine
    private var value = 0

    init(_ strand: Strand, _ engine: Engine) { (self.strand, self.engine) = (strand, engine) }

    func add() -> WorkerPool? {
      value += 1
      return Worker.current(of: engine)?.pool.pool
    }

    var total: Int { value }
  }

  // R-CPU-01 R-CPU-02
  @Test func aBackgroundAppsActorRunsInTheForeground() async throws {
    let (scheduler, back) = try makeApp(named: "back", band: .background, workers: 1)
    let account = Account(try back.makeStrand(named: "strand", ceiling: .foreground), scheduler.engine)
    let plain = Account(try back.makeStrand(named: "plain"), scheduler.engine)
    for _ in 0..<100 {
      #expect(await back.task { await account.add() }.value == .foreground)
      #expect(await back.task { await plain.add() }.value == .background)
      #expect(await account.add() == .foreground)
    }
    // All of the background stands still.
    let release = try await back.hold()
    #expect(await account.add() == .foreground)
    #expect(!release.isUp)
    release.raise()
    #expect(await account.total == 201)
    // It counts as the app's own.
    try await eventually("its jobs are counted") { back.statistics.counts(in: .foreground).jobs > 0 }
    try await scheduler.shutdown()
  }

  // R-FTS-09
  @Test func aSuspendedAppsStrandStandsStillAtItsCeilingToo() async throws {
    let (scheduler, back) = try makeApp(named: "back", band: .background, workers: 2)
    let strand = try back.makeStrand(named: "strand", ceiling: .foreground)
    let engine = scheduler.engine
    let ran = Record<WorkerPool?>()
    for round in 1...200 {
      back.suspend()
      await back.untilSuspended()
      let before = ran.count
      try strand.submit { ran.add(Worker.current(of: engine)?.pool.pool) }
      if round % 10 == 0 { for _ in 0..<50 { await Task.yield() } }
      // Its token may be in a worker's hand for a moment, on the way back to the app's queue.
      await back.untilSuspended()
      #expect(ran.count == before)
      back.resume()
      _ = await ran.reaching(round)
    }
    #expect(ran.values.allSatisfy { $0 == .foreground })
    try await scheduler.shutdown()
  }

  // R-CPU-02 R-CPU-10 R-CARD-03
  /// Every job once, one at a time and in order, while the app is moved, suspended and resumed.
  @Test func jobsRunOnceWhileTheAppIsMoved() async throws {
    let (scheduler, back) = try makeApp(named: "back", band: .background, workers: 2)
    let front = try scheduler.makeApp(named: "front")
    let strand = try back.makeStrand(named: "strand", ceiling: .foreground)
    let engine = scheduler.engine
    let (ran, inside, below, stop) = (Record<Int>(), Gauge(), Tally(), Flag())
    let rounds = 2000 * stressScale
    let mover = Task {
      while !stop.isUp {
        back.suspend()
        await Task.yield()
        try back.setBand(.foreground)
        back.resume()
        await Task.yield()
        try back.setBand(.background)
        await Task.yield()
      }
    }
    for number in 0..<rounds {
      let submit: @Sendable () -> Void = {
        do {
          try strand.submit {
            inside.enter()
            if Worker.current(of: engine)?.pool.pool == .background { below.add(1) }
            ran.add(number)
            inside.leave()
          }
        } catch { Issue.record(error) }
      }
      switch number % 3 {
      case 0: submit()
      case 1: try front.submit(submit)
      default: try back.submit(submit)
      }
      if number % 64 == 0 { await Task.yield() }
    }
    let all = await ran.reaching(rounds)
    stop.raise()
    try await mover.value
    #expect(Set(all).count == rounds && ran.count == rounds)
    #expect(inside.maximum == 1)
    #expect(below.count == 0)
    try await scheduler.shutdown()
  }
}
