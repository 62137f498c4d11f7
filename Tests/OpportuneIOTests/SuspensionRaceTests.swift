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
@Suite(.serialized) struct SuspensionRaceTests {
  private func read(_ count: Int, _ app: App, _ io: AppIO, from end: FileDescriptor) throws -> [AppTask<Int>] {
    try (0..<count).map { _ in
      let buffer = try IOBuffer(count: 1)
      return app.task { try await io.read(end, into: buffer) }
    }
  }

  private func numbers(_ broker: IOBroker) async throws -> (inFlight: Int, held: Int) {
    let app = try #require(try await broker.statistics().apps.first)
    return (app.inFlight, app.held)
  }

  // R-FTS-07, R-FTS-08
  @Test(.timeLimit(.minutes(2)), arguments: backends, 0..<2)
  func whatCompletesAfterASuspensionIsHeldAndReported(backend: IOConfiguration.Backend, seed: Int) async throws {
    var generator = SeededGenerator(seed: UInt64(seed) + 1)
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "suspended", band: .foreground)
    let reported = Numbers()
    let broker = try makeBroker(backend) {
      $0.heldCompletions = .report
      $0.onHeldCompletion = { _ in reported.add(1) }
    }
    let io = try broker.attach(app)
    let ends = try FileDescriptor.pipe()
    for round in 0..<300 {
      let racing = Int.random(in: 0...2, using: &generator)
      let reads = try read(racing + 1, app, io, from: ends.readEnd)
      while try await numbers(broker).inFlight < reads.count { await Task.yield() }
      let reports = reported.count
      let turns = (Int.random(in: 0..<2000, using: &generator), Int.random(in: 0..<2000, using: &generator))
      let racer = Task {
        spin(turns.0)
        for _ in 0..<racing { _ = try ends.writeEnd.writeAll([1]) }
      }
      spin(turns.1)
      app.suspend()
      _ = try ends.writeEnd.writeAll([2])
      try await racer.value
      while try await numbers(broker).inFlight > 0 { await Task.yield() }
      // At least that of the byte that was written after the suspension.
      let held = try await numbers(broker).held
      #expect(held >= 1 && reported.count > reports, "seed \(seed), round \(round), \(racing) racing")
      app.resume()
      for read in reads { #expect(try await read.value == 1) }
      #expect(try await numbers(broker) == (0, 0), "seed \(seed), round \(round)")
    }
    await broker.shutdown()
    try await scheduler.shutdown()
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  // R-FTS-08
  @Test(.timeLimit(.minutes(2)), arguments: backends, 0..<2)
  func aReportReanimatesHoweverSoonTheAppIsSuspendedAgain(backend: IOConfiguration.Backend, seed: Int) async throws {
    var generator = SeededGenerator(seed: UInt64(seed) + 11)
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "reanimated", band: .background)
    let reported = Numbers()
    let broker = try makeBroker(backend) {
      $0.heldCompletions = .report
      $0.onHeldCompletion = { _ in
        reported.add(1)
        app.resume()
        // Back to sleep before the broker's thread, which calls this, can have heard of it: the next report wakes it.
        if reported.count % 2 == 1 { app.suspend() }
      }
    }
    let io = try broker.attach(app)
    let ends = try FileDescriptor.pipe()
    for _ in 0..<300 {
      let reads = try read(2, app, io, from: ends.readEnd)
      while try await numbers(broker).inFlight < reads.count { await Task.yield() }
      spin(Int.random(in: 0..<2000, using: &generator))
      app.suspend()
      _ = try ends.writeEnd.writeAll([1, 2])
      // Nobody else resumes it.
      for read in reads { #expect(try await read.value == 1) }
      #expect(try await numbers(broker) == (0, 0))
    }
    #expect(reported.count >= 300)
    await broker.shutdown()
    try await scheduler.shutdown()
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  // R-FTS-07, R-CARD-04
  @Test(.timeLimit(.minutes(2)), arguments: backends, 0..<2)
  func noneIsLostWhoeverSuspendsAndResumes(backend: IOConfiguration.Backend, seed: Int) async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "both", band: .foreground)
    let broker = try makeBroker(backend)
    let io = try broker.attach(app)
    let ends = try FileDescriptor.pipe()
    for round in 0..<20 {
      let reads = try read(32, app, io, from: ends.readEnd)
      try await withThrowingTaskGroup { group in
        for number in 0..<3 {
          group.addTask {
            var generator = SeededGenerator(seed: UInt64((seed * 20 + round) * 3 + number))
            for _ in 0..<32 {
              spin(Int.random(in: 0..<500, using: &generator))
              switch number {
              case 0: _ = try ends.writeEnd.writeAll([1])
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
      #expect(io.state != .suspended)
      for read in reads { #expect(try await read.value == 1, "seed \(seed), round \(round)") }
      #expect(try await numbers(broker) == (0, 0), "seed \(seed), round \(round)")
    }
    await broker.shutdown()
    try await scheduler.shutdown()
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }
}
