import Foundation
import OpportuneApps
import OpportuneReplay
import TestSupport
import Testing

@Suite(.bounded) struct PowerLogTests {
  /// The tables of a log, of which a test writes those that it is about.
  private func trace(
    states: [(Double, String, Int, Int)] = [], processes: [(Double, String?, Int, String?)] = [],
    screen: [(Double, String)] = [], dark: [(Double, Int)] = [],
    assertions: [(at: Double, age: Double?, action: Int, process: Int, number: Int)] = [],
    offsets: [(Double, Double)] = [], boots: [(Double, Double)] = []
  ) throws -> Trace {
    try Recording([
      Recording.Table(
        "PLApplicationAgent_EventForward_Application", "ID timestamp Identifier pid State",
        states.enumerated().map { [$0, $1.0, $1.1, $1.2, $1.3] }),
      Recording.Table(
        "PLProcessMonitorAgent_EventForward_ProcessID", "ID timestamp BundleID PID ProcessName",
        processes.enumerated().map { [$0, $1.0, $1.1, $1.2, $1.3] }),
      Recording.Table(
        "PLScreenStateAgent_EventForward_ScreenState", "ID timestamp bundleID",
        screen.enumerated().map { [$0, $1.0, $1.1] }),
      Recording.Table(
        "PLSpringBoardAgent_EventForward_SBBlank", "ID timestamp Blanked",
        dark.enumerated().map { [$0, $1.0, $1.1] }),
      Recording.Table(
        "PLPowerAssertionAgent_EventForward_Assertion",
        "ID timestamp timestampActionOffset Action pid AssertionOnBehalfOfPID GlobalUniqueID",
        assertions.enumerated().map {
          [$0, $1.at, $1.age.map { $0 * 1000 }, $1.action, 31, $1.process, $1.number]
        }),
      Recording.Table(
        "PLStorageOperator_EventForward_TimeOffset", "ID timestamp system",
        offsets.enumerated().map { [$0, $1.0, $1.1] }),
      Recording.Table(
        "PLConfigAgent_EventNone_Config", "ID timestamp DeviceBootTime",
        boots.enumerated().map { [$0, $1.0, $1.1] }),
    ]).read()
  }

  @Test func aNumberThatComesAgainAfterAStartIsAnotherProcess() throws {
    let trace = try trace(
      states: [(100, "translate", 308, 2), (4000, "mail", 400, 2)],
      processes: [
        (1200, "facetime", 308, "FaceTime"), (1200, nil, 309, "daemon"), (1200, "mail", 400, "Mail"),
        // The log begins anew: the same process, listed again.
        (2200, "mail", 400, "Mail"),
      ],
      assertions: [
        (50, 0, 0, 308, 1), (50, 0, 4, 308, 1), (1100, 0, 0, 308, 2), (1100, 0, 4, 308, 2),
        (1101, 0, 0, 400, 3),
        (1102, 0, 0, 309, 4),
      ], boots: [(1300, 1000), (2300, 1001)])
    #expect(
      trace.lines == [
        "50 holds translate 1", "50 lets go translate 1", "100 shutdown", "1101 holds mail 3",
        "1200 started mail",
      ])
  }

  @Test func aNumberThatComesAgainAfterAnEndIsAnotherProcess() throws {
    let trace = try trace(
      states: [(100, "mail", 7, 2), (200, "mail", 7, 1), (900, "maps", 7, 2)],
      assertions: [(150, 0, 0, 7, 1), (250, 0, 0, 7, 2), (950, 0, 0, 7, 3)])
    #expect(trace.lines == ["150 holds mail 1", "250 holds maps 2", "950 holds maps 3"])
  }

  @Test func anAssertionIsHeldWhenItWasAndNotWhenItWasWritten() throws {
    let trace = try trace(
      states: [(0, "mail", 7, 2)],
      assertions: [
        (1000, -400.5, 0, 7, 1), (1000, -390, 4, 7, 1), (1000, -380, 0, 7, 2),
        // Written again, as it is held still.
        (1300, -680, 0, 7, 2), (1300, -400, 4, 7, 2), (1300, nil, 0, 7, 3),
      ],
      // The device's clock is 373 s behind.
      offsets: [(900, -373)])
    #expect(
      trace.lines == [
        "599.5 holds mail 1", "610 lets go mail 1", "620 holds mail 2", "900 lets go mail 2",
        "927 holds mail 3",
      ])
    #expect(trace.expectations.map(\.at) == [-373])
    #expect(
      try Replay.run(trace).text().contains(
        "note: the log's clock is 373 s ahead of the device's, by which times"))
  }

  @Test func whatIsNoTimeIsLeftOut() throws {
    let trace = try trace(
      states: [(0, "mail", 7, 2), (.infinity, "mail", 7, 2)], screen: [(-.infinity, "mail"), (5, "mail")],
      assertions: [(10, .infinity, 0, 7, 1), (.infinity, -1, 0, 7, 2), (10, 1e9, 0, 7, 3)],
      offsets: [(0, -.infinity)],
      boots: [(0, .infinity), (0, -.infinity)])
    // When an assertion was held is not known, but that it was when it was written; none was held after that.
    #expect(trace.lines == ["5 front mail", "10 holds mail 1", "10 holds mail 3"])
    #expect(trace.expectations.map(\.at) == [0])
  }

  @Test func aClockThatWasSetDoesNotChangeTheOrder() throws {
    let trace = try trace(
      states: [(0, "mail", 7, 2)], screen: [(1002, "mail"), (1005, "maps")],
      assertions: [
        (1001, -101, 0, 7, 1),
        // By now it is behind by 40 s more, which the log notes ten seconds later.
        (1006, -143, 0, 7, 2), (1006, -142, 4, 7, 2), (1200, -145, 4, 7, 1),
      ], offsets: [(900, -100), (1016, -140)])
    #expect(
      trace.lines == [
        "860 holds mail 1", "862 front mail", "863 holds mail 2", "864 lets go mail 2", "865 front maps",
        "1055 lets go mail 1",
      ])
  }

  @Test func whoWasInFrontHasLeftOnceTheScreenIsDark() throws {
    let trace = try trace(
      states: [(0, "mail", 7, 2)],
      screen: [
        (100, "com.apple.lock-screen"), (104, "com.apple.springboard.home-screen"), (110, "mail"),
        (150, "com.other.game"),
        (300, "com.apple.lock-screen"),
      ], dark: [(200, 1), (299, 0), (305, 1), (306, 1)])
    #expect(
      trace.lines == [
        "100 front com.apple.springboard", "110 front mail", "150 front com.other.game",
        "200 left com.other.game",
        "300 front com.apple.springboard", "305 left com.apple.springboard",
      ])
    #expect(try Replay.run(trace).seconds[.foreground] == 105)
  }

  @Test func theEndOfARunThatIsNotRecordedIsItsLastRow() throws {
    let trace = try trace(
      states: [(200, "mail", 7, 2)], screen: [(100, "mail"), (900_010, "mail")], boots: [(900_100, 900_000)])
    #expect(trace.lines == ["100 front mail", "200 shutdown", "900010 front mail"])
    let report = try Replay.run(trace)
    #expect(report.seconds[.foreground] == 100 && report.switches == [.cold: 2] && report.notes.isEmpty)
  }

  @Test(.enabled(if: RecordedData.has("ios-powerlog"), "the recorded data is not beside the project"))
  func aWeekOfATabletIsInFrontForAsLongAsItsScreenShowsAnything() throws {
    let trace = try Recording(recorded: "ios-powerlog/powerlog_2021-11.PLSQL.gz").read()
    let report = try Replay.run(trace)
    // From each row of the screen to the next that it goes dark, computed apart: 136.9 s.
    #expect(abs((report.seconds[.foreground] ?? 0) - 136.9) < 0.5)
    #expect(report.switchCount == 8 && report.switches[.cold] == 1)
    // Number 308 was an app in October and is no app in November.
    let youtube = "com.google.ios.youtube.NotificationServiceExtension"
    #expect(!trace.lines.contains { $0.contains("holds \(youtube)") } && report.assertions == 30)
    let held = trace.inputs.filter { if case .assertion = $0.input { true } else { false } }
    #expect(Set(held.map(\.at)).count > 40, "those that were written together were held at different times")
  }
}
