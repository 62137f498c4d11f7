import Testing

@testable import OpportuneScheduler

@Suite struct LaneStateTests {
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

  // R-CPU-01
  @Test func oneWorkerSearchesAtATime() throws {
    let lane = try LaneState(lane: .foreground, width: 2, configuration: SchedulerConfiguration())
    #expect(lane.beginSearch())
    #expect(!lane.beginSearch())
    lane.endSearch()
    #expect(lane.beginSearch())
  }
}
