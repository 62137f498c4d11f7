import Foundation
import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

/// Local notifications of a live host, by the machine's wall clock.
@Suite(.bounded) struct LiveNotificationTests {
  private func fires(_ events: AsyncStream<AppHost.Event>, _ note: LocalNotification) async {
    for await event in events where event.action == .notify(note) { return }
  }

  // R-MSG-09, R-MSG-10
  @Test(.timeLimit(.minutes(1))) func itFiresByTheMachinesClockWhileItsAppIsSuspended() async throws {
    let host = try patientHost()
    let app = try await launchAndWait(host, Manifest(identifier: "tea")) { _ in Silent() }
    let events = await host.observe()
    let (soon, never) = (Date().timeIntervalSince1970 + 0.05, Date().timeIntervalSince1970 + 3600)
    let note = LocalNotification(fireDate: .instant(soon), body: "Tea")
    try await app.post(.schedule(LocalNotification(fireDate: .instant(never), body: "in an hour")))
    try await app.post(.schedule(note))
    try await host.leave(app.id)
    for await event in events {
      guard case .notify(let fired) = event.action else { continue }
      #expect(fired == note && Date().timeIntervalSince1970 > soon - 0.001)
      break
    }
    await wait(host, app, for: .suspended)
    try await host.terminate(app.id)
  }

  // R-MSG-10
  @Test(.timeLimit(.minutes(1))) func aProgramMayTellTheTimeItself() async throws {
    let host = try patientHost()
    let app = try await launchAndWait(host, Manifest(identifier: "tea")) { _ in Silent() }
    let events = await host.observe()
    try await host.post(.wallClock(1_000_000))
    let note = LocalNotification(fireDate: .instant(1_003_600), body: "Tea")
    try await app.post(.schedule(note))
    #expect(await host.system.wallClock < 1_003_600)
    try await host.post(.wallClock(2_000_000))
    await fires(events, note)
    try await host.terminate(app.id)
  }

  // R-MSG-10
  @Test(.timeLimit(.minutes(1))) func theAlarmOfTheClockIsHeardUntilItsWatchGoes() async throws {
    let ends = try socketPair()
    let clock = ends.1
    func ring() -> Int { send(clock, "12345678", 8, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) }
    let (sets, set) = AsyncStream.makeStream(of: Void.self)
    do {
      let watch = WallClockWatch(alarm: ends.0) { set.yield() }
      var heard = sets.makeAsyncIterator()
      for _ in 0..<3 {
        #expect(ring() == 8)
        _ = await heard.next()
      }
      withExtendedLifetime(watch) {}
    }
    // The thread closes its end; until then it takes what comes.
    var code: Int32 = 0
    while code == 0 || code == EAGAIN {
      code = ring() >= 0 ? 0 : errno
      await Task.yield()
    }
    #expect(code == EPIPE || code == ECONNRESET)
    close(clock)
    // Nothing comes where the kernel has no such alarm, or of one that is quiet.
    _ = WallClockWatch(alarm: -1) { Issue.record("no clock was set") }
    _ = WallClockWatch { Issue.record("no clock was set") }
  }
}
