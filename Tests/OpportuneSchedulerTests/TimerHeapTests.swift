import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct TimerHeapTests {
  @Test func emptyHeapHasNothingToWakeFor() {
    var timers = TimerHeap<Int>()
    #expect(timers.nextFire == nil)
    #expect(timers.popDue(now: .max).isEmpty)
  }

  @Test func firesFromTheDeadlineOn() {
    var timers = TimerHeap<String>()
    _ = timers.insert(deadline: 100, tolerance: 0, payload: "a")
    #expect(timers.nextFire == 100)
    #expect(timers.popDue(now: 99).isEmpty)
    #expect(timers.popDue(now: 100) == ["a"])
    #expect(timers.popDue(now: 100).isEmpty, "one-shot")
    #expect(timers.nextFire == nil)
  }

  @Test func timersWithToleranceShareOneWakeUp() {
    var timers = TimerHeap<String>()
    _ = timers.insert(deadline: 100, tolerance: 50, payload: "early, patient")
    _ = timers.insert(deadline: 120, tolerance: 10, payload: "late, strict")
    _ = timers.insert(deadline: 131, tolerance: 0, payload: "not yet")
    #expect(timers.nextFire == 130, "the earliest latest point")
    #expect(timers.popDue(now: 130) == ["early, patient", "late, strict"])
    #expect(timers.nextFire == 131)
  }

  @Test func tiesFireInTheOrderOfInsertion() {
    var timers = TimerHeap<Int>()
    for index in 0..<100 { _ = timers.insert(deadline: 7, tolerance: UInt64(100 - index), payload: index) }
    #expect(timers.popDue(now: 7) == Array(0..<100))
  }

  @Test func cancelledTimerNeitherFiresNorWakes() {
    var timers = TimerHeap<String>()
    let first = timers.insert(deadline: 10, tolerance: 0, payload: "first")
    _ = timers.insert(deadline: 20, tolerance: 0, payload: "second")
    #expect(timers.cancel(first) == "first")
    #expect(timers.cancel(first) == nil)
    #expect(timers.nextFire == 20)
    #expect(timers.popDue(now: 15).isEmpty)
    #expect(timers.popDue(now: 20) == ["second"])
    #expect(timers.count == 0)
  }

  @Test func endOfTimeIsNotPassed() {
    var timers = TimerHeap<Int>()
    _ = timers.insert(deadline: .max - 1, tolerance: 100, payload: 1)
    #expect(timers.nextFire == .max)
    #expect(timers.popDue(now: .max) == [1])
  }

  @Test func cancelledTimersDoNotPileUp() {
    var timers = TimerHeap<Int>()
    _ = timers.insert(deadline: 0, tolerance: 0, payload: 0)
    for index in 1...10_000 { timers.cancel(timers.insert(deadline: 1000, tolerance: 5, payload: index)) }
    #expect(timers.count == 1)
    #expect(timers.nodeCount <= 2 * (2 * timers.count + 16))
    #expect(timers.popDue(now: 0) == [0])
    #expect(timers.nodeCount == 0)
  }

  /// The same calls on a plain array.
  struct Model {
    var timers: [(id: TimerHeap<Int>.ID, deadline: UInt64, latest: UInt64, payload: Int)] = []

    var nextFire: UInt64? { timers.map(\.latest).min() }

    mutating func cancel(_ id: TimerHeap<Int>.ID) -> Int? {
      guard let index = timers.firstIndex(where: { $0.id == id }) else { return nil }
      return timers.remove(at: index).payload
    }

    mutating func popDue(now: UInt64) -> [Int] {
      let due = timers.filter { $0.deadline <= now }.sorted { ($0.deadline, $0.id) < ($1.deadline, $1.id) }
      timers.removeAll { $0.deadline <= now }
      return due.map(\.payload)
    }
  }

  @Test(arguments: 1...50 as ClosedRange<UInt64>)
  func agreesWithANaiveModel(seed: UInt64) {
    var generator = SplitMix64(seed: seed)
    var timers = TimerHeap<Int>()
    var model = Model()
    var ids: [TimerHeap<Int>.ID] = []
    var now: UInt64 = 0
    for payload in 0..<500 {
      switch Int.random(in: 0..<10, using: &generator) {
      case 0..<5:
        let deadline = now + UInt64.random(in: 0...50, using: &generator)
        let tolerance = UInt64.random(in: 0...20, using: &generator)
        let id = timers.insert(deadline: deadline, tolerance: tolerance, payload: payload)
        model.timers.append((id, deadline, deadline + tolerance, payload))
        ids.append(id)
      case 5..<8:
        guard let id = ids.randomElement(using: &generator) else { continue }
        #expect(timers.cancel(id) == model.cancel(id))
      case 8:
        now += UInt64.random(in: 0...10, using: &generator)
        #expect(timers.popDue(now: now) == model.popDue(now: now))
      default:
        now = max(now, timers.nextFire ?? now)
        #expect(timers.popDue(now: now) == model.popDue(now: now))
      }
      #expect(timers.nextFire == model.nextFire)
      #expect(timers.count == model.timers.count)
      #expect(timers.nodeCount <= 2 * (2 * timers.count + 17))
    }
  }
}
