import COpportune
import Dispatch
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Jobs that wait for the kernel's lock of the memory map, as seen by the monitor. (docs/decisions/0016)
@Suite(.bounded, .timeLimit(.minutes(2))) struct MemoryMapTests {
  /// How many of many jobs that wait for something the monitor has replaced after a while, where two may work
  /// at once.
  private func replaced(
    _ band: Band, _ pool: WorkerPool, waitingFor what: Int32,
    isEnough: @Sendable (_ replaced: UInt64, _ looks: Int) -> Bool
  ) async throws -> UInt64 {
    // More than spare and replacing workers take on a busy machine: where nothing is queued nobody looks.
    let jobs = 40
    let (looks, ended) = (Tally(), Record<Int>())
    let engine = try Engine(
      SchedulerConfiguration(workers: 2), .silent,
      isBlocked: {
        let state = opp_thread_meter_is_blocked($0)
        looks.increment()
        return state == OPP_BLOCKED ? what : state
      })
    let app = try engine.makeApp(named: "app", band: band)
    let gate = DispatchSemaphore(value: 0)
    for number in 0..<jobs {
      try app.submit {
        gate.wait()
        ended.add(number)
      }
    }
    let state = try #require(engine.pools.first { $0.pool == pool })
    while !isEnough(state.replaced.load(ordering: .relaxed), looks.count) { await Task.yield() }
    let replaced = state.replaced.load(ordering: .relaxed)
    for _ in 0..<jobs { gate.signal() }
    _ = await ended.reaching(jobs)
    await engine.end()
    return replaced
  }

  // R-CPU-02
  @Test func asManyAsMayWorkAreReplacedWhereTheyWaitForTheMap() async throws {
    let some = try await replaced(.foreground, .foreground, waitingFor: OPP_BLOCKED_ON_MEMORY_MAP) {
      replaced, looks in
      replaced > 2 || replaced == 2 && looks > 200 || looks > 2000
    }
    #expect(some == 2)
    // Where they wait for something else there is no such bound.
    let more = try await replaced(.foreground, .foreground, waitingFor: OPP_BLOCKED) { $0 > 2 || $1 > 2000 }
    #expect(more > 2)
  }

  // R-CPU-02
  @Test func nobodyOfTheBackgroundIsReplacedThere() async throws {
    let none = try await replaced(.background, .background, waitingFor: OPP_BLOCKED_ON_MEMORY_MAP) {
      $0 > 0 || $1 > 20
    }
    #expect(none == 0)
  }
}
