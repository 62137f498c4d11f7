import DequeModule

extension IOScheduler {
  struct Entry {
    let ticket: Ticket
    let item: Item
    let cost: Cost
    /// Bytes still to be paid for by background before it may go.
    var due: UInt64
  }

  /// What an app has queued in a class, in the order of tickets.
  ///
  /// What is taken out of the middle leaves a gap: to close it would move up to half of the queue, for each
  /// of thousands that are cancelled, while foreground waits for the reactor. Neither the first place nor the
  /// last is a gap, and gaps are soon swept up where they are the most, so they cost each removal a constant
  /// share.
  struct Queue {
    private struct Place {
      let number: UInt64
      var entry: Entry?
    }

    private var places = Deque<Place>()
    /// Without gaps.
    private(set) var count = 0

    /// With gaps.
    var room: Int { places.count }
    /// How many places were looked at to find one, ever; and where they all lie now. Both for tests of what
    /// finding costs.
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

    /// Puts back what was granted before: seldom behind many.
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

    /// Takes out the entry of that number, if it is here.
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

    /// Bytes that the first has still to pay for.
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
