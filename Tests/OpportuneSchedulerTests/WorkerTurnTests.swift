import COpportune
import Dispatch
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded, .timeLimit(.minutes(2)), .serialized) struct WorkerTurnTests {
  private let shortest = UInt64(OPP_TURN_NS)

  /// At which of these times the turn is over.
  private func ends(_ turn: inout opp_turn, of times: [UInt64]) -> [UInt64] {
    var over: [UInt64] = []
    for time in times where opp_turn_is_over(&turn, time) { over.append(time) }
    return over
  }

  // R-CPU-01
  @Test func anOwnTurnEndsWithTheFirstJobThatReachesTheLeast() {
    var turn = opp_turn()
    let first: UInt64 = 1_000_000
    let second = first + shortest
    #expect(
      ends(&turn, of: [first, second - 1, second, second + shortest - 1, second + shortest]) == [
        second, second + shortest,
      ])
  }

  // R-CPU-01
  @Test(arguments: [100_000, 5_000_000, 50_000_000] as [UInt64])
  func othersHaveAsLongATurnAsTheOwnOneBefore(length: UInt64) {
    var turn = opp_turn()
    #expect(ends(&turn, of: [1, 1 + length]) == [1 + length])
    turn.serves_others = true
    let end = 1 + length + min(length, UInt64(OPP_TURN_NS_MAX))
    #expect(ends(&turn, of: [1 + length + shortest, end - 1, end]) == [end])
    turn.serves_others = false
    #expect(ends(&turn, of: [end + shortest]) == [end + shortest], "which makes the next own turn no longer")
  }

  // R-CPU-01 R-CPU-02
  @Test func anOutsideJobDoesNotWaitForWhatChainsGoOnToSubmit() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let (begun, stops, ended) = (Tally(), Flag(), Record<Int>())
    @Sendable func link(_ chain: Int) {
      begun.increment()
      spinCPU(microseconds: 200)
      if stops.isUp { return ended.add(chain) }
      do { try app.submit { link(chain) } } catch { ended.add(-1) }
    }
    for chain in 0..<10 { try app.submit { link(chain) } }
    while begun.count < 20 { await Task.yield() }
    var waits: [Int] = []
    for _ in 0..<41 {
      let before = begun.count
      waits.append(await app.task { @Sendable in begun.count - before }.value)
    }
    stops.raise()
    #expect(await ended.reaching(10).allSatisfy { $0 >= 0 })
    try await scheduler.shutdown()
    // One that runs, one more of the worker's own; ten at most would be first in, first out.
    #expect(
      waits.sorted()[waits.count / 2] <= 4,
      "links of ten chains that began before an outside job did: \(waits)")
  }

  // R-CPU-01 R-CPU-02
  @Test func whatAWorkerLeavesBehindAsItSleepsDoesNotWaitForChains() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    let (begun, stops, ended, waits) = (Tally(), Flag(), Record<Int>(), Record<Int>())
    let isLong = DispatchSemaphore(value: 0)
    @Sendable func submit(_ body: @escaping @Sendable () -> Void) {
      do { try app.submit(body) } catch { ended.add(-1) }
    }
    @Sendable func link() {
      let number = begun.add(1)
      if number % 100 == 0 { isLong.signal() }
      spinCPU(microseconds: number % 100 == 0 ? 8000 : 200)
      if stops.isUp { ended.add(0) } else { submit { link() } }
    }
    submit { link() }
    await onThread {
      for round in 1...15 where isLong.wait(timeout: .now() + 20) == .success {
        // Behind a long link the spare worker takes it, which sleeps afterwards; the chain goes on
        // meanwhile.
        submit {
          spinCPU(milliseconds: 9)
          let before = begun.count
          submit { waits.add(begun.count - before) }
        }
        guard spin({ waits.count == round }) else { return }
      }
    }
    stops.raise()
    #expect(await ended.reaching(1) == [0])
    try await scheduler.shutdown()
    #expect(waits.count == 15)
    #expect(
      waits.values.sorted()[waits.count / 2] <= 8, "links that began before what it left did: \(waits.values)"
    )
  }
}
