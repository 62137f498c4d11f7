internal import HeapModule
internal import OpportuneBase

/// One-shot timers that fire together where their tolerance allows.
///
/// A timer may fire between its deadline and its deadline plus its tolerance, its latest point. The next
/// wake-up is at the earliest latest point of all timers. Every timer whose deadline has passed by then fires
/// with it. So timers with tolerance share wake-ups.
///
/// Two heaps hold the same timers: one ordered by latest point (when to wake), one by deadline (what is due
/// then). A timer that was cancelled or has fired is only removed from the table. Its nodes are removed when
/// they reach the top of their heap, or all at once when they outnumber the live ones. So memory is bounded
/// by the number of live timers, and every call is O(log n), amortised. The table is why this is not a
/// `TimeQueue`: a cancelled sleep gets its payload back at once, by its id.
///
/// Pure: no clock, no lock. Times are nanoseconds of any one clock.
struct TimerHeap<Payload> {
  /// Identifies a timer of this heap; never reused. Later timers have larger ids, which break ties.
  struct ID: Hashable, Comparable, Sendable {
    fileprivate let sequence: UInt64
    static func < (lhs: ID, rhs: ID) -> Bool { lhs.sequence < rhs.sequence }
  }

  private struct Timer {
    let deadline: UInt64
    let latest: UInt64
    let payload: Payload
  }

  private var live: [ID: Timer] = [:]
  private var byLatest = Heap<Node>()
  private var byDeadline = Heap<Node>()
  private var nextSequence: UInt64 = 0

  init() {}

  /// The number of timers that are set.
  var count: Int { live.count }

  var isEmpty: Bool { live.isEmpty }

  /// When to wake up next; nil where no timer is set. O(1).
  var nextFire: UInt64? { byLatest.min?.time }

  /// Sets a timer that fires from `deadline` on, at most `tolerance` after it.
  mutating func insert(deadline: UInt64, tolerance: UInt64, payload: Payload) -> ID {
    let id = ID(sequence: nextSequence)
    nextSequence += 1
    let latest = deadline.saturatingAdd(tolerance)
    live[id] = Timer(deadline: deadline, latest: latest, payload: payload)
    byLatest.insert(Node(time: latest, id: id))
    byDeadline.insert(Node(time: deadline, id: id))
    return id
  }

  /// Cancels a timer. Returns its payload; nil if the timer has fired or was cancelled before.
  @discardableResult
  mutating func cancel(_ id: ID) -> Payload? {
    guard let timer = live.removeValue(forKey: id) else { return nil }
    prune()
    return timer.payload
  }

  /// Removes and returns every timer whose deadline is `now` or earlier: by deadline, then in the order in
  /// which they were set.
  mutating func popDue(now: UInt64) -> [Payload] {
    var due: [Payload] = []
    while let first = byDeadline.min, first.time <= now {
      byDeadline.removeMin()
      if let timer = live.removeValue(forKey: first.id) { due.append(timer.payload) }
    }
    prune()
    return due
  }

  /// Removes dead nodes, until a live timer is at the top of both heaps and dead nodes do not outnumber live
  /// ones.
  private mutating func prune() {
    Self.prune(&byLatest, of: live) { $0.latest }
    Self.prune(&byDeadline, of: live) { $0.deadline }
  }

  private static func prune(_ heap: inout Heap<Node>, of live: [ID: Timer], time: (Timer) -> UInt64) {
    // The constant 16 keeps a small heap from being rebuilt again and again.
    if heap.count > 2 * live.count + 16 {
      heap = Heap(live.map { Node(time: time($0.value), id: $0.key) })
    }
    while let first = heap.min, live[first.id] == nil { heap.removeMin() }
  }

  /// The number of nodes in both heaps, for tests of the memory bound.
  var nodeCount: Int { byLatest.count + byDeadline.count }
}

extension TimerHeap {
  fileprivate struct Node: Comparable {
    let time: UInt64
    let id: ID

    static func < (lhs: Node, rhs: Node) -> Bool { (lhs.time, lhs.id) < (rhs.time, rhs.id) }
  }
}
