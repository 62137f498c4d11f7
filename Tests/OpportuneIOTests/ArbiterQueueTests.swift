import TestSupport
import Testing

@testable import OpportuneIO

/// What an app has queued, from which anything may be taken out at any time.
@Suite struct ArbiterQueueTests {
  private func entry(_ number: UInt64) -> Arbiter<Int>.Entry {
    let ticket = Arbiter<Int>.Ticket(number: number, app: 0, origin: .foreground)
    return Arbiter<Int>.Entry(ticket: ticket, item: Int(number), cost: Arbiter<Int>.Cost(bytes: 1), due: 1)
  }

  /// And no more gaps than that: else one request that waits for long would keep the memory of all that were cancelled.
  @Test(arguments: 0..<10 as Range<UInt64>)
  func itHoldsWhatAListHolds(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var queue = Arbiter<Int>.Queue()
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
    queue = Arbiter<Int>.Queue([entry(1)])
    for number in 2...5000 as ClosedRange<UInt64> {
      queue.append(entry(number))
      if number > 2 { _ = queue.remove(number - 1) }
    }
    #expect(queue.count == 2 && queue.room <= 68)
  }

  /// An app that cancels thousands would else hold up everybody's requests.
  // R-DISK-01
  @Test func aCancellationTakesNoWalk() {
    let clock = ContinuousClock()
    func cancellations(of count: Int) -> Duration {
      let times = (0..<3).map { _ in
        var arbiter = Arbiter<Int>(DevicePolicy(), now: 0)
        arbiter.addApp(0, state: .background)
        let tickets = (0..<count).compactMap { arbiter.submit($0, app: 0, cost: Arbiter<Int>.Cost(bytes: 4096)) }
        let middle = tickets[(count / 2 - 100)..<(count / 2 + 100)]
        var count = 0
        let time = clock.measure { for ticket in middle where arbiter.cancel(ticket) != nil { count += 1 } }
        #expect(count == 200)
        return time
      }
      return times.min() ?? .zero
    }
    let (few, many) = (cancellations(of: 1000), cancellations(of: 64_000))
    #expect(many < few * 4, "\(many) among 64 times as many, \(few) otherwise")
  }
}
