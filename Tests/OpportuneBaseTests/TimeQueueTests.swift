import OpportuneBase
import TestSupport
import Testing

@Suite(.bounded) struct TimeQueueTests {
  @Test func timersComeInOrder() {
    var generator = SplitMix64(seed: 4)
    var queue = TimeQueue<UInt64, Int>()
    var times = (0..<500).map { _ in Int.random(in: 0..<1000, using: &generator) }
    for time in times { queue.add(time, at: UInt64(time)) }
    queue.compact { time, at in
      #expect(UInt64(time) == at)
      return time % 3 != 0
    }
    queue.skip { time, _ in time >= 10 }
    times.removeAll { $0 % 3 == 0 || $0 < 10 }
    #expect(queue.next == times.min().map { UInt64($0) })
    var popped: [Int] = []
    for now in 0..<1000 as Range<UInt64> {
      while let time = queue.pop(dueAt: now) {
        #expect(time == now)
        popped.append(time)
      }
    }
    #expect(popped == times.sorted())
    #expect(queue.next == nil)
  }

  @Test func whatIsOfTheSameTimeComesInTheOrderOfAddition() {
    var queue = TimeQueue<Int, Int>()
    for number in 0..<100 { queue.add(number, at: 7) }
    queue.add(-1, at: 6)
    queue.compact { number, _ in number % 2 != 0 }
    var popped: [Int] = []
    while let (time, number) = queue.popFirst() {
      #expect(time == (number < 0 ? 6 : 7))
      popped.append(number)
    }
    #expect(popped == [-1] + stride(from: 1, to: 100, by: 2))
    #expect(queue.first == nil && queue.count == 0)
  }
}
