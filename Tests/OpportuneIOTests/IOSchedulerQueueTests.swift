import TestSupport
import Testing

@testable import OpportuneIO

/// The queue of an app, from whose middle entries may be removed at any time.
@Suite(.bounded) struct IOSchedulerQueueTests {
  private func entry(_ number: UInt64) -> IOScheduler<Int>.Entry {
    let ticket = IOScheduler<Int>.Ticket(number: number, app: 0, origin: .foreground)
    return IOScheduler<Int>.Entry(
      ticket: ticket, item: Int(number), cost: IOScheduler<Int>.Cost(bytes: 1), isDonated: false, due: 1)
  }

  /// And no more gaps than that: else one request that waits for long would keep the memory of all that were
  /// cancelled.
  @Test(arguments: 0..<10 as Range<UInt64>)
  func itHoldsWhatAListHolds(seed: UInt64) {
    var generator = SplitMix64(seed: seed)
    var queue = IOScheduler<Int>.Queue()
    var (list, out, last) = ([UInt64](), [UInt64](), 0 as UInt64)
    for _ in 0..<3000 {
      switch Int.random(in: 0..<9, using: &generator) {
      case 0...4:
        last += 1
        queue.append(entry(last))
        list.append(last)
      case 5:
        let first = queue.popFirst()
        #expect(first?.ticket.number == list.first)
        if !list.isEmpty { out.append(list.removeFirst()) }
      case 6 where !out.isEmpty:
        let number = out.remove(at: Int.random(in: 0..<out.count, using: &generator))
        queue.insert(entry(number))
        list.insert(number, at: list.firstIndex { $0 > number } ?? list.count)
      default:
        let number = UInt64.random(in: 0...last + 1, using: &generator)
        let (place, removed) = (list.firstIndex(of: number), queue.remove(number))
        #expect(removed?.ticket.number == place.map { list[$0] })
        if let place { list.remove(at: place) }
      }
      #expect(queue.count == list.count && queue.first?.ticket.number == list.first, "seed \(seed)")
      #expect(queue.room <= 2 * list.count + 64, "seed \(seed)")
    }
    #expect(queue.entries.map(\.ticket.number) == list, "seed \(seed)")
    // One that stays in front of all that come and go.
    queue = IOScheduler<Int>.Queue([entry(1)])
    for number in 2...5000 as ClosedRange<UInt64> {
      queue.append(entry(number))
      if number > 2 { _ = queue.remove(number - 1) }
    }
    #expect(queue.count == 2 && queue.room <= 68)
  }

  /// An app that cancels thousands would else hold up everybody's requests.
  // R-DISK-01
  @Test func aCancellationTakesNoWalk() {
    let count = 1 << 14
    var scheduler = IOScheduler<Int>(DevicePolicy(), now: 0)
    scheduler.addApp(0, state: .background)
    var tickets = (0..<count).compactMap {
      scheduler.submit($0, app: 0, cost: IOScheduler<Int>.Cost(bytes: 4096))
    }
    let before = scheduler.look(at: .background, of: 0)
    #expect(before.room == count && before.storage != nil)
    for ticket in tickets[(count / 2 - 100)..<(count / 2 + 100)] { #expect(scheduler.cancel(ticket) != nil) }
    let after = scheduler.look(at: .background, of: 0)
    // As many looks as the number of places has bits; nothing was moved into the gaps, and nothing copied.
    #expect(after.looks - before.looks <= 200 * 15)
    #expect(after.room == count && after.storage == before.storage)
    // And all are cancelled, in no order: the gaps are swept up each time when they are half of the places.
    var generator = SplitMix64(seed: 1)
    tickets.shuffle(using: &generator)
    var (room, sweeps) = (count, 0)
    for ticket in tickets {
      _ = scheduler.cancel(ticket)
      let now = scheduler.look(at: .background, of: 0).room
      if now < room - 64 { sweeps += 1 }
      room = now
    }
    #expect(room == 0 && sweeps <= 14)
  }
}
