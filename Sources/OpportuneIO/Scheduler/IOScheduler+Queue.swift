import DequeModule

extension IOScheduler {
  struct Entry {
    let ticket: Ticket
    let item: Item
    let cost: Cost
    /// Whether somebody of the foreground waits for who has asked for it.
    var isDonated: Bool
    /// Bytes that background must still pay for before the request may go.
    var due: UInt64
  }

  /// The queue of one app in one class, in the order of tickets.
  ///
  /// Removal from the middle leaves a gap. Closing it would move up to half of the queue for each of
  /// thousands of cancellations, while foreground requests wait for the reactor. Neither the first nor the
  /// last slot is a gap. Gaps are removed together once they outnumber the entries, so each removal costs
  /// constant amortised time.
  struct Queue {
    private struct QueueSlot {
      let number: UInt64
      var entry: Entry?
    }

    private var slots = Deque<QueueSlot>()
    /// The number of entries, gaps not included.
    private(set) var count = 0

    /// The number of slots, gaps included.
    var room: Int { slots.count }
    /// For tests of the cost of a search. `looks`: how many slots were looked at in total. `storage`: the
    /// current address of the slots.
    private(set) var looks = 0
    var storage: UnsafeRawPointer? {
      slots.withContiguousStorageIfAvailable { $0.baseAddress.map { UnsafeRawPointer($0) } } ?? nil
    }
    var isEmpty: Bool { count == 0 }
    var first: Entry? { slots.first?.entry }
    var entries: [Entry] { slots.compactMap(\.entry) }

    init() {}

    /// - Parameter entries: in the order of tickets.
    init(_ entries: [Entry]) {
      slots = Deque(entries.map { QueueSlot(number: $0.ticket.number, entry: $0) })
      count = entries.count
    }

    mutating func append(_ entry: Entry) {
      assert(slots.last.map { $0.number < entry.ticket.number } ?? true)
      slots.append(QueueSlot(number: entry.ticket.number, entry: entry))
      count += 1
    }

    /// Puts back an entry that was granted before; few entries lie before it as a rule.
    mutating func insert(_ entry: Entry) {
      let position = position(of: entry.ticket.number)
      slots.insert(QueueSlot(number: entry.ticket.number, entry: entry), at: position)
      count += 1
    }

    mutating func popFirst() -> Entry? {
      guard let entry = slots.popFirst()?.entry else { return nil }
      count -= 1
      sweep()
      return entry
    }

    /// Removes the entry with that number; nil if it is not here.
    mutating func remove(_ number: UInt64) -> Entry? {
      let slot = position(of: number)
      guard slot < slots.count, slots[slot].number == number, let entry = slots[slot].entry else {
        return nil
      }
      slots[slot].entry = nil
      count -= 1
      sweep()
      return entry
    }

    /// Notes that somebody of the foreground waits. False if the entry is not here.
    mutating func setDonated(_ number: UInt64) -> Bool {
      let slot = position(of: number)
      guard slot < slots.count, slots[slot].number == number, slots[slot].entry != nil else { return false }
      slots[slot].entry?.isDonated = true
      return true
    }

    /// Sets the bytes that the first entry must still pay for.
    mutating func setDue(_ due: UInt64) { slots[0].entry?.due = due }

    private mutating func sweep() {
      while let slot = slots.first, slot.entry == nil { slots.removeFirst() }
      while let slot = slots.last, slot.entry == nil { slots.removeLast() }
      assert(slots.isEmpty == (count == 0))
      if slots.count > 2 * count + 64 { slots.removeAll { $0.entry == nil } }
    }

    /// The first slot whose number is not below `number`.
    private mutating func position(of number: UInt64) -> Int {
      var low = 0
      var high = slots.count
      while low < high {
        let middle = (low + high) / 2
        looks += 1
        if slots[middle].number < number { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }
}
