import Foundation
import OpportuneFuzz
import Synchronization
import TestSupport
import Testing

/// The explorer itself, checked against what the language is known to allow and forbid.
@Suite(.bounded) struct LitmusTests {
  // R-CARD-09
  @Test(arguments: LitmusTest.all.map(\.name))
  func outcomeAppearsOnlyWhereAllowed(name: String) throws {
    let test = try #require(LitmusTest.all.first { $0.name == name })
    #expect(try test.appears() == test.isAllowed)
  }
}

/// The small worlds: the quick ones to their ends, the others for a moment.
@Suite(.bounded) struct WorldTests {
  private final class Worlds: Sendable {
    private let left = Mutex(World.all[...])
    func next() -> World? { left.withLock { $0.popFirst() } }
  }

  /// What is wrong in a world; nil is nothing.
  private static func explore(_ world: World) throws -> String? {
    let (figures, finding) = try Explorer().exhaust(world, milliseconds: world.isQuick ? 240_000 : 400)
    if let finding { return finding.timeline }
    guard figures.executions > 0 else { return "nothing was executed" }
    return figures.isComplete || !world.isQuick ? nil : "it was not explored to its end"
  }

  /// As many at a time as there are CPUs, each on a thread: no other test takes as long.
  // R-CARD-09
  @Test func nothingIsBroken() async throws {
    let worlds = Worlds()
    try await withThrowingTaskGroup(of: [(World, String)].self) { threads in
      for _ in 0..<ProcessInfo.processInfo.activeProcessorCount {
        threads.addTask {
          try await onOwnThread {
            var wrong: [(World, String)] = []
            while let world = worlds.next() {
              if let what = try Self.explore(world) { wrong.append((world, what)) }
            }
            return wrong
          }
        }
      }
      for try await wrong in threads {
        for (world, what) in wrong { Issue.record("\(world.name): \(what)") }
      }
    }
  }
}
