import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A value that readers never wait for.
@Suite(.bounded, .timeLimit(.minutes(2))) struct PublishedTests {
  /// A value whose parts belong together, and that says when it goes.
  private final class Pair: Sendable {
    let first: Int
    let second: Int
    private let alive: Alive

    init(_ number: Int, _ alive: Alive) {
      (first, second) = (number, -number)
      self.alive = alive
      alive.add(1)
    }

    deinit { alive.add(-1) }
  }

  /// How many pairs there are, and were at most.
  private final class Alive: Sendable {
    private let now = Tally()
    private let greatest = Atomic<Int>(0)

    func add(_ amount: Int) { greatest.max(now.add(amount), ordering: .relaxed) }
    var count: Int { now.count }
    var most: Int { greatest.load(ordering: .relaxed) }
  }

  // R-CPU-02
  @Test func theLastIsReadAndOldOnesGo() {
    let alive = Alive()
    do {
      let published = Published(Pair(0, alive))
      for number in 1...100 {
        published.publish(Pair(number, alive))
        #expect(published.value.first == number)
        #expect(alive.count == 1)
      }
      let held = published.value
      published.publish(Pair(101, alive))
      #expect(held.first == 100 && alive.count == 2, "who reads keeps what he has")
      withExtendedLifetime(held) {}
    }
    #expect(alive.count == 0)
  }

  // R-CPU-02
  @Test func anUpdateThatThrowsPublishesNothing() {
    struct Refused: Error {}
    let published = Published(1)
    #expect(throws: Refused.self) { try published.update { _ throws(Refused) in throw Refused() } }
    #expect(published.value == 1)
    #expect(published.update { $0 + 1 } == 2)
    #expect(published.value == 2)
  }

  // R-CPU-02 R-CARD-03
  /// No update is lost, no reader sees half of one or an older one after a newer, and all but the last are
  /// freed though readers never stop.
  @Test func readersAndWritersAtOnce() async throws {
    let (alive, stop, reads) = (Alive(), Flag(), Tally())
    let rounds = (isSanitized ? 2_000 : 20_000) * stressScale
    do {
      let published = Published(Pair(0, alive))
      await withTaskGroup { group in
        for _ in 0..<3 {
          group.addTask {
            await onThread {
              var last = 0
              while !stop.isUp {
                let value = published.value
                if value.first != -value.second || value.first < last {
                  Issue.record("\(value.first) after \(last)")
                }
                last = value.first
                reads.add(1)
              }
            }
          }
        }
        await withTaskGroup { writers in
          for _ in 0..<2 {
            writers.addTask {
              await onThread {
                for _ in 0..<rounds {
                  published.update { Pair($0.first + 1, alive) }
                }
              }
            }
          }
        }
        stop.raise()
      }
      #expect(published.value.first == 2 * rounds)
      #expect(reads.count > 0)
      // Who is stopped inside of a read keeps what is retired meanwhile; the next publication frees it.
      published.publish(Pair(2 * rounds + 1, alive))
      #expect(published.kept == 0 && alive.count == 1, "\(alive.count) alive, \(published.kept) kept")
      print(
        "\(reads.count) reads beside \(2 * rounds) updates; \(alive.most) values at most")
    }
    // What the threads held of it goes a moment after them.
    try await eventually("the last value goes") { alive.count == 0 }
  }
}
