import COpportune
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct LaneStateTests {
  // R-CPU-02
  @Test(arguments: [1, 2, 64]) func aLaneWhoseJobsAllBlockGrowsEverMoreSlowly(width: Int) {
    let delay: UInt64 = 500_000
    let patience = (1...(400 * width)).map { LaneState.patience(workers: $0, width: width, delay: delay) }
    #expect(patience.first == delay)
    #expect(zip(patience, patience.dropFirst()).allSatisfy { $0 <= $1 })
    #expect(patience[8 * width] == 2 * delay)
    #expect(patience.last == 1_000_000_000)
    #expect(LaneState.patience(workers: .max, width: width, delay: 10_000_000) == 1_000_000_000)
  }

  // R-CPU-02
  @Test func whoIsStoppedWhileItWakesTheReserveKeepsNobodyElseFromIt() throws {
    let lane = try LaneState(lane: .foreground, width: 1, configuration: SchedulerConfiguration())
    opp_lane_lie_down(lane.raw, 0)
    let stopped = opp_lane_begin_call(lane.raw)
    #expect(stopped != 0 && opp_lane_call_spare(lane.raw), "somebody else is about to")
    #expect(opp_lane_sleeping(lane.raw) == 1)
    opp_lane_look_at_spare(lane.raw)
    #expect(opp_lane_begin_call(lane.raw) == 0, "it has until the next look")
    opp_lane_look_at_spare(lane.raw)
    #expect(opp_lane_call_spare(lane.raw))
    #expect(opp_lane_sleep(lane.raw, 0) == .OPP_WOKEN_RESERVE)
    // Awake, however often the monitor looks, until it rests.
    for _ in 0..<3 { opp_lane_look_at_spare(lane.raw) }
    #expect(opp_lane_begin_call(lane.raw) == 0)
    opp_lane_spare_rests(lane.raw)
    #expect(!opp_lane_call_spare(lane.raw), "nobody sleeps")
    opp_lane_lie_down(lane.raw, 0)
    #expect(opp_lane_call_spare(lane.raw))
    #expect(opp_lane_sleep(lane.raw, 0) == .OPP_WOKEN_RESERVE)
  }

  // R-CPU-01
  @Test func oneWorkerSearchesAtATime() throws {
    let lane = try LaneState(lane: .foreground, width: 2, configuration: SchedulerConfiguration())
    #expect(opp_lane_begin_search(lane.raw))
    #expect(!opp_lane_begin_search(lane.raw))
    opp_lane_end_search(lane.raw)
    #expect(opp_lane_begin_search(lane.raw))
  }
}
