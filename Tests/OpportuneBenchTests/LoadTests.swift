import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ArrivalScheduleTests {
  // R-CARD-06: the same open-loop load for every contender.
  @Test func theSameSeedGivesTheSameTimes() {
    var one = ArrivalSchedule(mean: 2000, jitter: 1000, seed: 9)
    var two = ArrivalSchedule(mean: 2000, jitter: 1000, seed: 9)
    for _ in 0..<1000 {
      #expect(one.next == two.next)
      one.advance()
      two.advance()
    }
  }

  @Test func gapsStayInTheirRangeAndAverageToTheMean() {
    var schedule = ArrivalSchedule(mean: 2000, jitter: 1000, seed: 5)
    let first = schedule.next
    for _ in 0..<10_000 {
      let before = schedule.next
      schedule.advance()
      #expect((1_000_000...3_000_001).contains(schedule.next - before))
    }
    #expect(abs(Double(schedule.next - first) / 10_000 - 2_000_000) < 40_000)
  }
}

@Suite(.bounded) struct ContenderTests {
  /// Every contender that any user may run.
  static let names = ContenderKind.all.filter { !$0.needsRoot }.map(\.name)

  // R-CARD-06: no contender loses or repeats a job.
  @Test(arguments: names)
  func everyAcceptedJobRunsOnce(_ name: String) async throws {
    let kind = try #require(ContenderKind.all.first { $0.name == name })
    let contender = kind.make()
    try contender.start(ContenderSetup(cores: 2, hasHogs: true))
    let ran = Tallies(count: 4)
    let state = WindowState()
    for _ in 0..<100 {
      state.submit({ ran.add(0) }, with: contender.submitForeground)
      state.submit({ ran.add(1) }, with: contender.submitSecondForeground)
      state.submit({ ran.add(2) }, with: contender.submitBackground)
      state.submit({ ran.add(3) }, with: contender.submitForegroundHog)
    }
    #expect(state.drain())
    await contender.stop()
    #expect(state.refused.load(ordering: .relaxed) == 0)
    #expect(ran.values == [100, 100, 100, 100])
  }

  @Test(arguments: names)
  func chainsEndWithTheirWindow(_ name: String) async throws {
    let kind = try #require(ContenderKind.all.first { $0.name == name })
    let contender = kind.make()
    try contender.start(ContenderSetup(cores: 2, hasHogs: true))
    let state = WindowState()
    let links = Tallies(count: 1)
    let reached = Gate()
    let chain = Chain(
      state: state, link: 100, chunk: 10, touchesMemory: false,
      submit: { job in
        if links.add(0) == 20 { reached.open() }
        return contender.submitForegroundHog(job)
      })
    chain.startLinked()
    reached.wait()
    state.isStopping.store(true, ordering: .releasing)
    #expect(state.drain())
    await contender.stop()
    #expect(state.work.load(ordering: .relaxed) >= 100 * 19)
  }

  @Test func aQueueKeepsItsOrderWhileItGrows() throws {
    let queue = JobQueue()
    let order = Order()
    for index in 0..<1000 {
      #expect(queue.push { order.append(index) })
    }
    queue.close()
    #expect(!queue.push {})
    while let job = queue.pop() { job() }
    #expect(order.values == Array(0..<1000))
  }
}

/// Counters that any thread may add to.
private final class Tallies: @unchecked Sendable {
  private let lock = Lock()
  private var counts: [Int]  // protected by `lock`

  init(count: Int) { counts = Array(repeating: 0, count: count) }

  @discardableResult
  func add(_ index: Int) -> Int {
    lock.withLock {
      counts[index] += 1
      return counts[index]
    }
  }

  var values: [Int] { lock.withLock { counts } }
}

/// Used by one thread.
private final class Order: @unchecked Sendable {
  private(set) var values: [Int] = []
  func append(_ value: Int) { values.append(value) }
}

@Suite(.bounded) struct SystemThreadTests {
  /// A worker's would be counted with the scheduler that is measured.
  @Test func threadsOfTheBenchHaveNamesOfTheirOwn() throws {
    final class Name: @unchecked Sendable { var text: String? }  // joined before it is read
    let seen = Name()
    let thread = try SystemThread(named: "generator") {
      seen.text = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
    }
    thread.join()
    #expect(seen.text == "bench-generator\n")
  }
}
