import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

private final class Turns: Sendable {
  private let number = Atomic<Int>(0)

  var count: Int { number.load(ordering: .relaxed) }
  func add() { number.add(1, ordering: .relaxed) }

  /// Until a hundred more were taken.
  func hundredMore() async {
    let goal = count + 100
    while count < goal { await Task.yield() }
  }
}

@Suite(.bounded, .timeLimit(.minutes(3)), .serialized) struct OverlapTests {
  // R-CPU-03 R-CPU-04 R-CPU-05: in the levels that they share, neither band starves the other.
  @Test(arguments: [1, 5], OverlapClass.allCases)
  func bandsShareTheOverlap(levels: Int, overlap: OverlapClass) async throws {
    let scheduler = try Scheduler(
      configuration: SchedulerConfiguration(workers: 1) {
        $0.overlapClass = overlap
        $0.bands = try .overlapping(by: levels)
        $0.quantum = QuantumPolicy(quantum: .milliseconds(1), step: 63, recovery: .never)
      })
    let ui = try scheduler.makeApp(named: "ui")
    let indexer = try scheduler.makeApp(named: "indexer", band: .background)
    let sunk = Record<Int>()
    let release = Flag()
    let turns = Turns()
    // Foreground tasks that never block: each sinks to the bottom of its band, and stays runnable there.
    let hogs = (0..<3).map { number in
      ui.task {
        while !isOnWorker(of: .background) {
          spinCPU(milliseconds: 2)
          await Task.yield()
        }
        sunk.add(number)
        while !release.isUp {
          turns.add()
          await Task.yield()
        }
      }
    }
    _ = await sunk.reaching(3)
    // The background pool has one worker, which serves both.
    let rounds = Record<Int>()
    for round in 0..<50 {
      try indexer.submit { rounds.add(turns.count) }
      _ = await rounds.reaching(round + 1)
    }
    #expect(!release.isUp)
    // And the foreground's turns went on between the background's jobs, all of them submitted one after the
    // other.
    let seen = rounds.values
    #expect(seen[49] > seen[0], "\(seen)")
    // Nor is either starved where the background never pauses.
    let stop = Flag()
    let background = Turns()
    let chains = (0..<3).map { _ in
      indexer.task {
        while !stop.isUp {
          background.add()
          await Task.yield()
        }
      }
    }
    await turns.hundredMore()
    await background.hundredMore()
    stop.raise()
    release.raise()
    for task in hogs + chains { await task.value }
    try await scheduler.shutdown()
  }
}
