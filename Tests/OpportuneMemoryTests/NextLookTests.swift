import COpportune
import TestSupport
import Testing

@testable import OpportuneMemory

/// The time of the monitor's next look at memory.
@Suite(.bounded) struct NextLookTests {
  private func next(
    _ inUse: UInt64, given: UInt64 = 0, lazy: UInt64 = 0, ofMachine: Bool = true, hasAlarm: Bool = true
  ) -> NextLook {
    var gauge = PressureGauge.standard
    let reading = MemoryReading(capacity: 256_000, inUse: inUse)
    gauge.update(reading)
    var ledger = MemoryLedger()
    ledger.dirty = given
    ledger.lazy = lazy
    return NextLook(gauge, [reading], ledger, ofMachine: ofMachine, hasAlarm: hasAlarm)
  }

  // R-MEM-01, R-MEM-02
  @Test func theMachineIsLookedAtTheSoonerTheNearerItsPointIs() {
    #expect(next(0).milliseconds == 30_000 && next(0).bytes == 64_000)
    #expect(next(64_000).milliseconds == 15_000 && next(64_000).bytes == 32_000)
    #expect(next(127_999).milliseconds == 1000 && next(127_999).bytes == 1000)
    #expect(next(128_000).milliseconds == 1000 && next(128_000).bytes == 32_000, "the critical point is next")
    #expect(next(250_000).milliseconds == 1000 && next(250_000).bytes == 1000)
    #expect(next(0, hasAlarm: false).milliseconds == 1000)
    // They may write to it at any time.
    #expect(next(10_000, given: 120_000).milliseconds == 1875 && next(10_000, given: 120_000).bytes == 4000)
    #expect(next(10_000, given: .max).milliseconds == 1000)
  }

  /// Of which less is in use, and little is left.
  // R-MEM-01, R-MEM-02
  @Test func aSmallGroupOfALargeMachineIsLookedAtInTime() {
    let readings = [
      MemoryReading(capacity: 256_000, inUse: 64_000), MemoryReading(capacity: 2560, inUse: 256),
    ]
    let next = NextLook(.standard, readings, MemoryLedger(), ofMachine: true, hasAlarm: true)
    #expect(next.bytes == 512 && next.milliseconds == 15_000)
  }

  /// An idle program is never woken.
  // R-MEM-03
  @Test func aBudgetIsNotLookedAtBeforeItIsUsed() {
    #expect(next(0, ofMachine: false).milliseconds == -1 && next(0, ofMachine: false).bytes == 128_000)
    #expect(next(100_000, ofMachine: false).bytes == 28_000)
    #expect(next(128_000, ofMachine: false).milliseconds == 1000)
  }

  /// It counts again as its app returns.
  // R-MEM-03, R-GFX-04
  @Test func whatWasGivenLazilyIsLookedAfterWhereItWouldReachThePoint() {
    let (near, over) = (
      next(60_000, lazy: 60_000, ofMachine: false), next(60_000, lazy: 70_000, ofMachine: false)
    )
    #expect(near.milliseconds == -1 && near.bytes == 8000)
    #expect(over.milliseconds == 1000 && over.bytes == 68_000)
    #expect(next(60_000, lazy: .max, ofMachine: false).milliseconds == 1000)
  }

  @Test func whatCannotBeReadIsTriedAgain() {
    let next = NextLook(.standard, [], MemoryLedger(), ofMachine: true, hasAlarm: true)
    #expect(next.milliseconds == 1000)
    let tiny = NextLook(
      .standard, [MemoryReading(capacity: 1, inUse: 1)], MemoryLedger(), ofMachine: false, hasAlarm: true)
    #expect(tiny.bytes > 0, "it would ring for ever")
  }

  /// Of the machine's memory too, with or without an alarm or a timer.
  // R-MEM-01
  @Test func whoIsHandedMuchRingsOnce() throws {
    let broker = try MemoryBroker()
    let app = broker.makeMemory(named: "app")
    func wasRung() -> Bool { opp_watch_wait(broker.core.notifier, -1, 0) == OPP_WATCH_NOTIFIED }
    let page = UInt64(pageSize)
    let first = try app.allocate(bytes: pageSize)
    #expect(!wasRung(), "nobody watches")
    #expect(!broker.core.use.look(at: 4 * page))
    let second = try app.allocate(bytes: 2 * pageSize)
    #expect(!wasRung())
    let region = try app.purgeable(of: UInt8.self, count: 1)
    #expect(wasRung())
    let third = try app.allocate(bytes: pageSize)
    #expect(!wasRung(), "it has not looked yet")
    // What is filled again counts as well.
    try region.purge()
    #expect(!broker.core.use.look(at: 6 * page))
    region.fill(1)
    #expect(wasRung())
    withExtendedLifetime((first, second, third)) {}
  }
}
