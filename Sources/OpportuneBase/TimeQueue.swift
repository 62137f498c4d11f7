public import HeapModule

/// Values by time: the earliest first, and of the same time the one that was added first.
///
/// Nothing is taken out of the middle. What does not matter any more stays until it is first, and whoever
/// gets it looks; ``skip(unless:)`` and ``compact(keeping:)`` let go of it earlier. Who needs to take back
/// one that he has added keeps a table beside it, as the scheduler's `TimerHeap` does.
@usableFromInline
package struct TimeQueue<Time: Comparable, Value> {
  @usableFromInline
  struct Entry: Comparable {
    @usableFromInline let time: Time
    @usableFromInline let number: UInt64
    @usableFromInline let value: Value

    @inlinable
    init(_ time: Time, _ number: UInt64, _ value: Value) {
      (self.time, self.number, self.value) = (time, number, value)
    }

    @inlinable
    static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }

    @inlinable
    static func < (left: Entry, right: Entry) -> Bool {
      left.time == right.time ? left.number < right.number : left.time < right.time
    }
  }

  @usableFromInline var heap = Heap<Entry>()
  @usableFromInline var added: UInt64 = 0

  @inlinable
  package init() {}

  @inlinable
  package var count: Int { heap.count }

  @inlinable
  package var next: Time? { heap.min?.time }

  @inlinable
  package var first: (time: Time, value: Value)? { heap.min.map { ($0.time, $0.value) } }

  @inlinable
  package mutating func add(_ value: Value, at time: Time) {
    heap.insert(Entry(time, added, value))
    added += 1
  }

  @inlinable
  @discardableResult
  package mutating func popFirst() -> (time: Time, value: Value)? {
    heap.popMin().map { ($0.time, $0.value) }
  }

  /// The earliest, where it is due at `now`.
  @inlinable
  package mutating func pop(dueAt now: Time) -> Value? {
    guard let next, next <= now else { return nil }
    return heap.popMin()?.value
  }

  /// Takes out from the front what does not matter any more, so that ``next`` is a time at which something
  /// happens.
  @inlinable
  package mutating func skip(unless isWanted: (Value, Time) -> Bool) {
    while let first = heap.min, !isWanted(first.value, first.time) { heap.removeMin() }
  }

  /// Keeps only what still matters. O(count).
  @inlinable
  package mutating func compact(keeping isWanted: (Value, Time) -> Bool) {
    heap = Heap(heap.unordered.filter { isWanted($0.value, $0.time) })
  }
}

extension TimeQueue: Sendable where Time: Sendable, Value: Sendable {}
extension TimeQueue.Entry: Sendable where Time: Sendable, Value: Sendable {}
