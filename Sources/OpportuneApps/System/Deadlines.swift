/// What an app's timers are for; one of each at a time.
package enum DeadlineKind: UInt8, Sendable, CaseIterable {
  case callback, grace, slice, tasks, handler, idle, event, fetch, fetchLimit, heartbeat, batch, local, front
}

/// The timers of all apps: a heap whose entries are stale when the app's own note says otherwise.
struct DeadlineHeap: Sendable {
  struct Entry: Sendable {
    let moment: Moment
    let order: UInt64
    let app: Int32
    let kind: DeadlineKind

    func precedes(_ other: Entry) -> Bool {
      moment == other.moment ? order < other.order : moment < other.moment
    }
  }

  private var entries: [Entry] = []
  private var order: UInt64 = 0
  var count: Int { entries.count }
  var first: Entry? { entries.first }

  mutating func push(_ moment: Moment, app: Int, kind: DeadlineKind) {
    entries.append(Entry(moment: moment, order: order, app: Int32(truncatingIfNeeded: app), kind: kind))
    order += 1
    var child = entries.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard entries[child].precedes(entries[parent]) else { break }
      entries.swapAt(child, parent)
      child = parent
    }
  }

  mutating func pop() -> Entry? {
    guard let first = entries.first else { return nil }
    let last = entries.removeLast()
    if !entries.isEmpty {
      entries[0] = last
      sink(0)
    }
    return first
  }

  /// Drops the entries that are not wanted any more.
  mutating func keep(where isWanted: (Entry) -> Bool) {
    entries.removeAll { !isWanted($0) }
    for index in stride(from: entries.count / 2 - 1, through: 0, by: -1) { sink(index) }
  }

  private mutating func sink(_ start: Int) {
    var parent = start
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2]
      where child < entries.count && entries[child].precedes(entries[least]) {
        least = child
      }
      if least == parent { return }
      entries.swapAt(parent, least)
      parent = least
    }
  }
}
