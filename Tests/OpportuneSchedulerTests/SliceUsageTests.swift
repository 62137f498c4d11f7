import COpportune
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

/// What a worker reads of its clocks.
@Suite(.bounded) struct SliceUsageTests {
  /// Who was woken to wait for descriptors, and ran nothing, sleeps again without three system calls.
  @Test func aSleepAfterNoSliceKeepsTheAnchor() throws {  // R-CPU-08
    let meter = try #require(opp_thread_meter_create())
    defer { opp_thread_meter_destroy(meter) }
    var usage = SliceUsage()
    usage.anchor(meter)
    let first = usage.cpuAtAnchor
    try use(1_000_000, since: first, meter)
    usage.anchorIfUsed(meter)
    #expect(usage.cpuAtAnchor == first)

    usage.began(at: opp_now_ns(), isDemoted: false, meter: meter)
    usage.anchorIfUsed(meter)
    #expect(usage.cpuAtAnchor >= first + 1_000_000)
    let second = usage.cpuAtAnchor
    try use(1_000_000, since: second, meter)
    usage.anchorIfUsed(meter)
    #expect(usage.cpuAtAnchor == second)
  }

  /// Nanoseconds of the thread's CPU time.
  private func use(_ time: UInt64, since start: UInt64, _ meter: OpaquePointer) throws {
    var clock = start
    while clock < start + time { try #require(opp_thread_meter_cpu(meter, &clock) == 0) }
  }
}
