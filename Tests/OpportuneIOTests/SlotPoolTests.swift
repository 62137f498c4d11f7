import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct SlotPoolTests {
  /// Else a program whose apps come and go, beside thousands that stay, would use ever more memory.
  @Test func numbersAreUsedAgainHoweverManyThereAre() {
    let pool = SlotPool()
    let count = 2 * SlotPool.blockCount + 100
    let first = (0..<count).map { _ in pool.take() }
    #expect(first == Array(0..<count))
    let back = first.filter { $0 % 3 == 1 }
    for slot in back { pool.giveBack(slot) }
    #expect(back.map { _ in pool.take() } == back)
    #expect(pool.take() == count)
  }

  @Test func numbersAreOnesOwn() async {
    let pool = SlotPool()
    let taken = await withTaskGroup(of: [Int].self) { group in
      for _ in 0..<8 {
        group.addTask {
          (0..<1000).map { number in
            if number % 2 == 1 { pool.giveBack(pool.take()) }
            return pool.take()
          }
        }
      }
      return await group.reduce(into: []) { $0 += $1 }
    }
    #expect(Set(taken).count == 8000)
    #expect(taken.allSatisfy { $0 < 2 * SlotPool.blockCount })
  }
}
