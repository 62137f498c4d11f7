/// What is to happen at a time: a binary heap, earliest first. Entries that do not matter any more stay until
/// they are at the top; whoever gets one looks.
struct TimerQueue<Value> {
  private var heap: [(at: UInt64, value: Value)] = []

  var next: UInt64? { heap.first?.at }
  var count: Int { heap.count }

  mutating func add(_ value: Value, at time: UInt64) {
    heap.append((time, value))
    var child = heap.count - 1
    while child > 0, heap[(child - 1) / 2].at > heap[child].at {
      heap.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }

  /// The earliest that is due at `now`.
  mutating func pop(dueAt now: UInt64) -> Value? {
    guard let first = heap.first, first.at <= now else { return nil }
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    siftDown()
    return first.value
  }

  private mutating func siftDown() {
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child].at < heap[least].at {
        least = child
      }
      guard least != parent else { return }
      heap.swapAt(parent, least)
      parent = least
    }
  }

  /// Takes out from the top what does not matter any more, so that ``next`` is a time at which something
  /// happens.
  mutating func skip(unless isWanted: (Value, UInt64) -> Bool) {
    while let first = heap.first, !isWanted(first.value, first.at) { _ = pop(dueAt: .max) }
  }

  /// Keeps only what still matters, where most does not.
  mutating func compact(keeping isWanted: (Value, UInt64) -> Bool) {
    let kept = heap.filter { isWanted($0.value, $0.at) }
    heap = []
    for entry in kept { add(entry.value, at: entry.at) }
  }
}
