import COpportune
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct PoolStateTests {
  // R-CPU-02
  @Test(arguments: [1, 2, 64]) func aPoolWhoseJobsAllBlockGrowsEverMoreSlowly(width: Int) {
    let delay: UInt64 = 500_000
    let patience = (1...(400 * width)).map { PoolPolicy.patience(workers: $0, width: width, delay: delay) }
    #expect(patience.first == delay)
    #expect(zip(patience, patience.dropFirst()).allSatisfy { $0 <= $1 })
    #expect(patience[8 * width] == 2 * delay)
    #expect(patience.last == 1_000_000_000)
    #expect(PoolPolicy.patience(workers: .max, width: width, delay: 10_000_000) == 1_000_000_000)
  }

  // R-CPU-02
  @Test func whoIsStoppedWhileItWakesTheSpareKeepsNobodyElseFromIt() throws {
    let pool = try PoolState(pool: .foreground, width: 1, configuration: SchedulerConfiguration())
    opp_pool_prepare_park(pool.raw, 0)
    let stopped = opp_pool_begin_call(pool.raw)
    #expect(stopped != 0 && opp_pool_call_spare(pool.raw), "somebody else is about to")
    #expect(opp_pool_sleeping(pool.raw) == 1)
    opp_pool_look_at_spare(pool.raw)
    #expect(opp_pool_begin_call(pool.raw) == 0, "it has until the next look")
    opp_pool_look_at_spare(pool.raw)
    #expect(opp_pool_call_spare(pool.raw))
    #expect(opp_pool_park(pool.raw, 0) == .OPP_WOKEN_SPARE)
    // Awake, however often the monitor looks, until it rests.
    for _ in 0..<3 { opp_pool_look_at_spare(pool.raw) }
    #expect(opp_pool_begin_call(pool.raw) == 0)
    opp_pool_spare_parks(pool.raw)
    #expect(!opp_pool_call_spare(pool.raw), "nobody sleeps")
    opp_pool_prepare_park(pool.raw, 0)
    #expect(opp_pool_call_spare(pool.raw))
    #expect(opp_pool_park(pool.raw, 0) == .OPP_WOKEN_SPARE)
  }

  // R-CPU-01
  @Test func oneWorkerSearchesAtATime() throws {
    let pool = try PoolState(pool: .foreground, width: 2, configuration: SchedulerConfiguration())
    #expect(opp_pool_begin_search(pool.raw))
    #expect(!opp_pool_begin_search(pool.raw))
    opp_pool_end_search(pool.raw)
    #expect(opp_pool_begin_search(pool.raw))
  }
}
