import Foundation
import OpportuneReplay
import TestSupport
import Testing

@Suite(.bounded) struct AndroidUsageTests {
  private static let kinds = [
    "resumed": 1, "paused": 2, "notified": 12, "serves": 19, "served": 20, "stopped": 23, "shutdown": 26,
    "startup": 27,
  ]

  /// Seconds, what, of which app, and which of its activities.
  private func trace(_ events: [(Double, String, String, Int)]) throws -> Trace {
    let apps = Array(Set(events.map(\.2)))
    return try Recording([
      Recording.Table("packages", "_id package_name", apps.enumerated().map { [$0, $1] }),
      Recording.Table(
        "events", "_id timestamp type instance_id package_id",
        events.enumerated().map { number, event in
          [number, Int(event.0 * 1000), Self.kinds[event.1], event.3, apps.firstIndex(of: event.2)]
        }),
    ]).read()
  }

  // R-LIFE-22
  @Test func anActivityThatIsStoppedWithoutAPauseIsNotInFront() throws {
    let trace = try trace([
      (0, "resumed", "maps", 1), (10, "stopped", "maps", 1), (500, "notified", "mail", 0),
      (600, "resumed", "mail", 2),
      (610, "paused", "mail", 2), (5000, "notified", "mail", 0),
    ])
    #expect(
      trace.lines == [
        "0 front maps", "10 left maps", "500 notification mail", "600 front mail", "610 left mail",
        "5000 notification mail",
      ])
    #expect(try Replay.run(trace).seconds[.foreground] == 20)
  }

  @Test func anAppThatGoesOnWithAnotherActivityDoesNotComeToTheFrontAgain() throws {
    let trace = try trace([
      (0, "resumed", "maps", 1), (10, "paused", "maps", 1), (10.25, "resumed", "maps", 2),
      (10.5, "stopped", "maps", 1),
      // Another comes before the first has gone, and the same is resumed again.
      (20, "resumed", "maps", 3), (20.5, "paused", "maps", 2), (21, "resumed", "maps", 3),
      // The screen was off.
      (30, "paused", "maps", 3), (30.5, "stopped", "maps", 3), (40, "resumed", "maps", 3),
      (50, "paused", "maps", 3), (50, "resumed", "mail", 4), (60, "paused", "mail", 4),
    ])
    #expect(
      trace.lines == [
        "0 front maps", "30 left maps", "40 front maps", "50 left maps", "50 front mail", "60 left mail",
      ])
    let report = try Replay.run(trace)
    #expect(report.switchCount == 3 && report.changes == 2 && report.switches[.foreground] == nil)
    #expect(report.text().contains("switches: 3, 2 to another app, 1 back to the same\n"))
  }

  @Test func whoIsSeenOnAnotherScreenIsInFrontAgain() throws {
    let trace = try trace([
      (0, "resumed", "car", 1), (10, "resumed", "mail", 2), (20, "paused", "mail", 2),
      (20.25, "resumed", "mail", 3),
      (30, "paused", "mail", 3), (60, "stopped", "car", 1), (100, "notified", "mail", 0),
    ])
    #expect(
      trace.lines == [
        "0 front car", "10 front mail", "30 left mail", "30 front car", "60 left car",
        "100 notification mail",
      ])
    #expect(try Replay.run(trace).seconds[.foreground] == 60)
  }

  @Test func anAppServesUntilTheLastOfItsServicesEnds() throws {
    let trace = try trace([
      (0, "serves", "music", 0), (1, "serves", "music", 0), (2, "served", "music", 0),
      (3, "served", "music", 0),
      (4, "served", "music", 0),
    ])
    #expect(trace.lines == ["0 holds music 1", "3 lets go music 1"])
  }

  @Test func aDeviceThatIsOffRunsNothing() throws {
    let trace = try trace([
      (0, "resumed", "maps", 1), (10, "shutdown", "android", 0), (7000, "resumed", "home", 2),
      (7001, "startup", "android", 0),
      // It went off without a word.
      (7002, "notified", "mail", 0), (9000, "startup", "android", 0), (9001, "resumed", "maps", 3),
      (9002, "paused", "maps", 3),
    ])
    #expect(
      trace.lines == [
        "0 front maps", "10 shutdown", "7000 front home", "7002 notification mail", "7002 shutdown",
        "9001 front maps",
        "9002 left maps",
      ])
    #expect(try Replay.run(trace).seconds[.foreground] == 13)
  }

  @Test(.enabled(if: RecordedData.has("android-app-usage"), "the recorded data is not beside the project"))
  func twoWeeksOfAPhoneAreInFrontForAsLongAsAnythingIsResumed() throws {
    let trace = try Recording(recorded: "android-app-usage/app_usage_2023-05-29_06-13.db.gz").read()
    let report = try Replay.run(trace)
    // The union of all times between an activity's resumption and its pause or stop, computed apart:
    // 81,748.04 s, and what the changes of activities add.
    #expect(abs((report.seconds[.foreground] ?? 0) - 81_755) < 15)
    // 1,871 activities are resumed, 916 of them of another app than the one before.
    #expect((1300...1400).contains(report.switchCount) && (916...1000).contains(report.changes))
    #expect(report.assertions == 258 && report.notes.isEmpty)
  }
}
