import TestSupport
import Testing

@testable import OpportuneIO
@testable import OpportuneScheduler

/// What targets of a scheduler's apps leave the background of the storage device.
@Suite(.bounded) struct TargetShareTests {
  // R-DISK-02
  @Test(arguments: backends) func aBrokerFollowsTheSchedulerOfItsApps(backend: IOConfiguration.Backend)
    async throws
  {
    let scheduler = try Scheduler()
    let back = try scheduler.makeApp(named: "back", band: .background)
    #expect(back.deviceShare.leastEighths == 8, "there is no broker")
    let broker = try makeBroker(backend) { $0.storage.cap = .fixed(8) }
    let io = try broker.makeIO(for: back)
    try await io.nop()
    let whole = try await broker.statistics().storage.cap
    try #require(whole > 1)
    for eighths in [4, 1, 8] {
      let cap = max(1, whole * eighths / 8)
      back.deviceShare.eighths = eighths
      // It is read with each request that may go.
      try await eventually("a cap of \(cap)") {
        try await io.nop()
        return try await broker.statistics().storage.cap == cap
      }
    }
    // With threads the depth is lower, and the cap with it.
    #expect(back.deviceShare.leastEighths == (8 + whole - 1) / whole)
    // What one has taken ends with it, and the next is followed.
    back.deviceShare.eighths = 1
    try await scheduler.shutdown()
    let later = try Scheduler()
    let next = try later.makeApp(named: "next", band: .background)
    let nextIO = try broker.makeIO(for: next)
    for eighths in [8, 4] {
      next.deviceShare.eighths = eighths
      try await eventually("a cap of \(whole * eighths / 8)") {
        try await nextIO.nop()
        return try await broker.statistics().storage.cap == max(1, whole * eighths / 8)
      }
    }
    await broker.shutdown()
    try await later.shutdown()
  }
}
