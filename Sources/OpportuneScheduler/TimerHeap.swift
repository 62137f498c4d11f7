internal import HeapModule
internal import OpportuneBase

/// One-shot timers that fire together where they may.
///
/// A timer may fire from its deadline until its deadline plus its tolerance. The next time to wake is the
/// earliest of those latest points, and by then every timer whose deadline has passed fires with it: so
/// timers with tolerance wait for each other and cost one wake-up.
///
/// Two heaps hold the same timers, one by latest point (when to wake), one by deadline (what is due then). A
/// timer that is cancelled or has fired is only taken out of the table; its nodes go when they come to the
/// top of their heap, or all at once when they outnumber the living, so memory is bounded by the living and
/// every call is O(log n), amortised. The table is why this is no `TimeQueue`: a sleep that is cancelled
/// gives its payload back at once, by its id.
///
/// Pure: no clock, no lock. Times are nanoseconds of whatever clock the caller uses.
struct TimerHeap<Payload> {
  /// Names a timer of this heap; never used again. Later timers have larger ids, which breaks ties.
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

  /// How many timers are set.
  var count: Int { live.count }

  var isEmpty: Bool { live.isEmpty }

  /// When to wake, or nil where no timer is set. O(1).
  var nextFire: UInt64? { byLatest.min?.time }

  /// Sets a timer that fires from `deadline` on, at the latest `tolerance` after it.
  mutating func insert(deadline: UInt64, tolerance: UInt64, payload: Payload) -> ID {
    let id = ID(sequence: nextSequence)
    nextSequence += 1
    let latest = deadline.saturatingAdd(tolerance)
    live[id] = Timer(deadline: deadline, latest: latest, payload: payload)
    byLatest.insert(Node(time: latest, id: id))
    byDeadline.insert(Node(time: deadline, id: id))
    return id
  }

  /// Takes a timer back. Returns its payload, or nil where it has fired or was cancelled already.
  @discardableResult
  mutating func cancel(_ id: ID) -> Payload? {
    guard let timer = live.removeValue(forKey: id) else { return nil }
    prune()
    return timer.payload
  }

  /// Takes out every timer whose deadline is `now` or earlier, by deadline, then in the order in which they
  /// were set.
  mutating func popDue(now: UInt64) -> [Payload] {
    var due: [Payload] = []
    while let first = byDeadline.min, first.time <= now {
      byDeadline.removeMin()
      if let timer = live.removeValue(forKey: first.id) { due.append(timer.payload) }
    }
    prune()
    return due
  }

  /// Leaves a living timer at the top of both heaps, and no more dead nodes than living ones.
  private mutating func prune() {
    prune(\.byLatest) { $0.latest }
    prune(\.byDeadline) { $0.deadline }
  }

  private mutating func prune(_ heap: WritableKeyPath<Self, Heap<Node>>, time: (Timer) -> UInt64) {
    // 16 spare a small heap from being rebuilt over and over.
    if self[keyPath: heap].count > 2 * live.count + 16 {
      self[keyPath: heap] = Heap(live.map { Node(time: time($0.value), id: $0.key) })
    }
    while let first = self[keyPath: heap].min, live[first.id] == nil { self[keyPath: heap].removeMin() }
  }

  /// Nodes held by both heaps, for tests of the memory bound.
  var nodeCount: Int { byLatest.count + byDeadline.count }
}

extension TimerHeap {
  fileprivate struct Node: Comparable {
    let time: UInt64
    let id: ID

    static func < (lhs: Node, rhs: Node) -> Bool { (lhs.time, lhs.id) < (rhs.time, rhs.id) }
  }
}
