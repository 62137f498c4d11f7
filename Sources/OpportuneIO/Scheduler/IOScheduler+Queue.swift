import DequeModule

extension IOScheduler {
  struct Entry {
    let ticket: Ticket
    let item: Item
    let cost: Cost
    /// Bytes that background must still pay for before the request may go.
    var due: UInt64
  }

  /// The queue of one app in one class, in the order of tickets.
  ///
  /// Removal from the middle leaves a gap. Closing it would move up to half of the queue for each of
  /// thousands of cancellations, while foreground requests wait for the reactor. Neither the first nor the
  /// last place is a gap. Gaps are removed together once they outnumber the entries, so each removal costs
  /// constant amortised time.
  struct Queue {
    private struct Place {
      let number: UInt64
      var entry: Entry?
    }

    private var places = Deque<Place>()
    /// The number of entries, gaps not included.
    private(set) var count = 0

    /// The number of places, gaps included.
    var room: Int { places.count }
    /// For tests of the cost of a search. `looks`: how many places were looked at in total. `storage`: the
    /// current address of the places.
    private(set) var looks = 0
    var storage: UnsafeRawPointer? {
      places.withContiguousStorageIfAvailable { $0.baseAddress.map { UnsafeRawPointer($0) } } ?? nil
    }
    var isEmpty: Bool { count == 0 }
    var first: Entry? { places.first?.entry }
    var entries: [Entry] { places.compactMap(\.entry) }

    init() {}

    /// - Parameter entries: in the order of tickets.
    init(_ entries: [Entry]) {
      places = Deque(entries.map { Place(number: $0.ticket.number, entry: $0) })
      count = entries.count
    }

    mutating func append(_ entry: Entry) {
      assert(places.last.map { $0.number < entry.ticket.number } ?? true)
      places.append(Place(number: entry.ticket.number, entry: entry))
      count += 1
    }

    /// Puts back an entry that was granted before; few entries lie before it as a rule.
    mutating func insert(_ entry: Entry) {
      let position = position(of: entry.ticket.number)
      places.insert(Place(number: entry.ticket.number, entry: entry), at: position)
      count += 1
    }

    mutating func popFirst() -> Entry? {
      guard let entry = places.popFirst()?.entry else { return nil }
      count -= 1
      sweep()
      return entry
    }

    /// Removes the entry with that number; nil if it is not here.
    mutating func remove(_ number: UInt64) -> Entry? {
      let place = position(of: number)
      guard place < places.count, places[place].number == number, let entry = places[place].entry else {
        return nil
      }
      places[place].entry = nil
      count -= 1
      sweep()
      return entry
    }

    /// Sets the bytes that the first entry must still pay for.
    mutating func setDue(_ due: UInt64) { places[0].entry?.due = due }

    private mutating func sweep() {
      while let place = places.first, place.entry == nil { places.removeFirst() }
      while let place = places.last, place.entry == nil { places.removeLast() }
      assert(places.isEmpty == (count == 0))
      if places.count > 2 * count + 64 { places.removeAll { $0.entry == nil } }
    }

    /// The first place whose number is not below `number`.
    private mutating func position(of number: UInt64) -> Int {
      var low = 0
      var high = places.count
      while low < high {
        let middle = (low + high) / 2
        looks += 1
        if places[middle].number < number { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }
}
