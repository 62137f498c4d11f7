public import HeapModule

/// A queue of values by time: the earliest first; of equal times, the one that was added first.
///
/// Values cannot be removed from the middle. A value that is no longer wanted stays until it is first, and is
/// then checked by the caller. ``skip(unless:)`` and ``compact(keeping:)`` remove such values earlier. A
/// caller that must remove a certain value keeps a table beside the queue, like the scheduler's `TimerHeap`.
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

  /// Removes and returns the earliest value, if it is due at `now`.
  @inlinable
  package mutating func pop(dueAt now: Time) -> Value? {
    guard let next, next <= now else { return nil }
    return heap.popMin()?.value
  }

  /// Removes unwanted values from the front, so that ``next`` is the time of a wanted one.
  @inlinable
  package mutating func skip(unless isWanted: (Value, Time) -> Bool) {
    while let first = heap.min, !isWanted(first.value, first.time) { heap.removeMin() }
  }

  /// Keeps only wanted values. O(count).
  @inlinable
  package mutating func compact(keeping isWanted: (Value, Time) -> Bool) {
    heap = Heap(heap.unordered.filter { isWanted($0.value, $0.time) })
  }
}

extension TimeQueue: Sendable where Time: Sendable, Value: Sendable {}
extension TimeQueue.Entry: Sendable where Time: Sendable, Value: Sendable {}
