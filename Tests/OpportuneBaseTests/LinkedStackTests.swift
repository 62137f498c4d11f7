import Dispatch
import OpportuneBase
import TestSupport
import Testing

@Suite(.bounded) struct LinkedStackTests {
  private final class Item: Linked, @unchecked Sendable {
    // Sendable: the stack's own, and constant.
    var below: UInt = 0
    let thread: Int
    let number: Int

    init(_ thread: Int, _ number: Int) { (self.thread, self.number) = (thread, number) }
  }

  private final class Shared: Sendable {
    let stack = LinkedStack<Item>()
  }

  @Test func theLastComesFirst() {
    let stack = LinkedStack<Item>()
    var isEmpty = stack.isEmpty
    #expect(isEmpty)
    for number in 0..<3 { stack.push(Item(0, number)) }
    let second = stack.first { $0.number < 2 }
    #expect(second?.number == 1)
    var seen: [Int] = []
    stack.visit { seen.append($0.number) }
    isEmpty = stack.isEmpty
    #expect(seen == [2, 1, 0] && !isEmpty)
    let taken = stack.takeAll() + stack.takeAll()
    isEmpty = stack.isEmpty
    #expect(taken.map(\.number) == [2, 1, 0] && isEmpty)
  }

  @Test func itRetainsItsMembersAndLetsThemGo() {
    weak var last: Item?
    do {
      let stack = LinkedStack<Item>()
      for number in 0..<1000 {
        let item = Item(0, number)
        stack.push(item)
        last = item
      }
      #expect(last != nil)
    }
    #expect(last == nil)
  }

  /// Each item is taken once, and of one thread's the earlier before the later.
  @Test func whatManyPushIsTakenOnceAndInOrder() async throws {
    let (threads, count) = (4, 20_000)
    let shared = Shared()
    let taken = try await onOwnThread {
      let group = DispatchGroup()
      for thread in 0..<threads {
        DispatchQueue.global().async(group: group) {
          for number in 0..<count { shared.stack.push(Item(thread, number)) }
        }
      }
      var taken: [[Int]] = Array(repeating: [], count: threads)
      var isOver = false
      while !isOver {
        isOver = group.wait(timeout: .now()) == .success
        for item in shared.stack.takeAll().reversed() { taken[item.thread].append(item.number) }
      }
      return taken
    }
    for thread in 0..<threads { #expect(taken[thread] == Array(0..<count), "thread \(thread)") }
    let isEmpty = shared.stack.isEmpty
    #expect(isEmpty)
  }
}
