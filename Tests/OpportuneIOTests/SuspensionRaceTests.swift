import COpportune
import OpportuneScheduler
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

private func spin(_ turns: Int) {
  for _ in 0..<turns { opp_pause() }
}

/// Completions that arrive while their app is being suspended or resumed.
@Suite(.bounded, .serialized) struct SuspensionRaceTests {
  /// An app that reads from a pipe, and what is reported of its completions.
  private struct Race {
    let scheduler: Scheduler
    let app: App
    let broker: IOBroker
    let io: AppIO
    let readEnd: FileDescriptor
    let writeEnd: FileDescriptor
    let reported = Numbers()

    init(
      _ backend: IOConfiguration.Backend, _ band: Band,
      onReport: @escaping @Sendable (App, Int) -> Void = { _, _ in }
    ) throws {
      scheduler = try Scheduler()
      let (app, reported) = (try scheduler.makeApp(named: "race", band: band), self.reported)
      broker = try makeBroker(backend) {
        $0.heldCompletions = .report
        $0.triesInline = false  // what is being tried counts as in flight, and the kernel does not have it
        $0.onHeldCompletion = { _ in
          reported.add(1)
          onReport(app, reported.count)
        }
      }
      self.app = app
      io = try broker.makeIO(for: app)
      (readEnd, writeEnd) = try FileDescriptor.pipe()
    }

    /// Reads of a byte each, once the kernel has them all.
    func read(_ count: Int) async throws -> [AppTask<Int, any Error>] {
      let (io, readEnd) = (io, readEnd)
      let reads = try (0..<count).map { _ in
        let buffer = try IOBuffer(count: 1)
        return app.task { try await io.read(readEnd, into: buffer) }
      }
      try await eventually("the reads") { try await numbers().inFlight >= count }
      return reads
    }

    func numbers() async throws -> (inFlight: Int, held: Int) {
      let app = try #require(try await broker.statistics().apps.first)
      return (app.inFlight, app.held)
    }

    func end() async throws {
      await broker.shutdown()
      try await scheduler.shutdown()
      for end in [readEnd, writeEnd] { try end.close() }
    }
  }

  // R-FTS-07, R-FTS-08
  @Test(.timeLimit(.minutes(2)), arguments: backends, 0..<2)
  func whatCompletesAfterASuspensionIsHeldAndReported(backend: IOConfiguration.Backend, seed: Int)
    async throws
  {
    var generator = SplitMix64(seed: UInt64(seed) + 1)
    let race = try Race(backend, .foreground)
    for round in 0..<300 {
      let racing = Int.random(in: 0...2, using: &generator)
      let reads = try await race.read(racing + 1)
      let reports = race.reported.count
      let turns = (Int.random(in: 0..<2000, using: &generator), Int.random(in: 0..<2000, using: &generator))
      let racer = Task {
        spin(turns.0)
        for _ in 0..<racing { _ = try race.writeEnd.writeAll([1]) }
      }
      spin(turns.1)
      race.app.suspend()
      _ = try race.writeEnd.writeAll([2])
      try await racer.value
      try await eventually("the answers") { try await race.numbers().inFlight == 0 }
      // At least that of the byte that was written after the suspension.
      let held = try await race.numbers().held
      #expect(held >= 1 && race.reported.count > reports, "seed \(seed), round \(round), \(racing) racing")
      race.app.resume()
      for read in reads { #expect(try await read.value == 1) }
      #expect(try await race.numbers() == (0, 0), "seed \(seed), round \(round)")
    }
    try await race.end()
  }

  // R-FTS-08
  @Test(.timeLimit(.minutes(2)), arguments: backends, 0..<2)
  func aReportReanimatesHoweverSoonTheAppIsSuspendedAgain(backend: IOConfiguration.Backend, seed: Int)
    async throws
  {
    var generator = SplitMix64(seed: UInt64(seed) + 11)
    let race = try Race(backend, .background) { app, count in
      app.resume()
      // Back to sleep before the broker's thread, which calls this, can have heard of it: the next report
      // wakes it.
      if count % 2 == 1 { app.suspend() }
    }
    for _ in 0..<300 {
      let reads = try await race.read(2)
      spin(Int.random(in: 0..<2000, using: &generator))
      race.app.suspend()
      _ = try race.writeEnd.writeAll([1, 2])
      // Nobody else resumes it.
      for read in reads { #expect(try await read.value == 1) }
      #expect(try await race.numbers() == (0, 0))
    }
    #expect(race.reported.count >= 300)
    try await race.end()
  }

  // R-FTS-07, R-CARD-04
  @Test(.timeLimit(.minutes(2)), arguments: backends, 0..<2)
  func noneIsLostWhoeverSuspendsAndResumes(backend: IOConfiguration.Backend, seed: Int) async throws {
    let race = try Race(backend, .foreground)
    let app = race.app
    for round in 0..<20 {
      let reads = try await race.read(32)
      try await withThrowingTaskGroup { group in
        for number in 0..<3 {
          group.addTask {
            var generator = SplitMix64(seed: UInt64((seed * 20 + round) * 3 + number))
            for _ in 0..<32 {
              spin(Int.random(in: 0..<500, using: &generator))
              switch number {
              case 0: _ = try race.writeEnd.writeAll([1])
              default:
                if Bool.random(using: &generator) { app.suspend() } else { app.resume() }
                if Int.random(in: 0..<4, using: &generator) == 0 {
                  try app.setBand(Bool.random(using: &generator) ? .foreground : .background)
                }
              }
            }
          }
        }
        try await group.waitForAll()
      }
      app.resume()
      #expect(race.io.state != .suspended)
      for read in reads { #expect(try await read.value == 1, "seed \(seed), round \(round)") }
      #expect(try await race.numbers() == (0, 0), "seed \(seed), round \(round)")
    }
    try await race.end()
  }
}
