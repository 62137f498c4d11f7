/// What is to happen at a time: a binary heap, earliest first. Entries are not taken out before; whoever gets one looks
/// whether it still matters.
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

  /// Keeps only what still matters, where most does not.
  mutating func compact(keeping isWanted: (Value) -> Bool) {
    let kept = heap.filter { isWanted($0.value) }
    heap = []
    for entry in kept { add(entry.value, at: entry.at) }
  }
}
