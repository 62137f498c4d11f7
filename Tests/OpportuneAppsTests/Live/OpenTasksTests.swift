import Synchronization
import TestSupport
import Testing

@testable import OpportuneApps

@Suite(.bounded) struct OpenTasksTests {
  @Test func eachIsCancelledOnceOrClosed() async {
    let tasks = OpenTasks()
    let total = 4 * 2_000
    let closed = Counter()
    let cancelled = (0..<total).map { _ in Counter() }
    let entries = (0..<total).map { _ in OpenTasks.Entry() }
    await withTaskGroup { group in
      for part in 0..<4 {
        group.addTask {
          for number in stride(from: part, to: total, by: 4) {
            if number % 3 == 0 { entries[number].close() }
            tasks.add(entries[number]) { cancelled[number].value.add(1, ordering: .relaxed) }
            if number % 3 == 1 {
              entries[number].close()
              if cancelled[number].value.load(ordering: .relaxed) == 0 {
                closed.value.add(1, ordering: .relaxed)
              }
            }
            if number % 500 == part { tasks.cancelAll() }
          }
        }
      }
    }
    tasks.cancelAll()
    for number in 0..<total {
      let count = cancelled[number].value.load(ordering: .relaxed)
      switch number % 3 {
      case 0: #expect(count == 0, "an entry that was closed first was cancelled")
      case 1: #expect(count <= 1)
      default: #expect(count == 1)
      }
    }
    #expect(closed.value.load(ordering: .relaxed) > 0)
  }

  @Test func endedTasksDoNotPileUp() {
    let tasks = OpenTasks()
    let open = OpenTasks.Entry()
    let cancelled = Counter()
    tasks.add(open) { cancelled.value.add(1, ordering: .relaxed) }
    let ended = (0..<10_000).map { _ in
      let entry = OpenTasks.Entry()
      tasks.add(entry) {}
      entry.close()
      return Weak(entry: entry)
    }
    #expect(ended.count { $0.entry != nil } <= 64)
    tasks.cancelAll()
    #expect(cancelled.value.load(ordering: .relaxed) == 1)
  }

  private struct Weak { weak var entry: OpenTasks.Entry? }
  private final class Counter: Sendable { let value = Atomic<Int>(0) }
}
