import Foundation
import OpportuneReplay
import TestSupport
import Testing

@Suite(.bounded) struct ScreenTimeTests {
  /// Blocks are an hour of one of the usages: of the devices 7 and 8, and of all together, of two users.
  private func recording(_ items: [(usage: Int, hour: Double, app: String, seconds: Double)]) throws
    -> Recording
  {
    try Recording([
      Recording.Table(
        "ZUSAGETIMEDITEM", "Z_PK ZCATEGORY ZBUNDLEIDENTIFIER ZTOTALTIMEINSECONDS",
        items.enumerated().map { [$0, $0, $1.app, $1.seconds] }),
      Recording.Table("ZUSAGECATEGORY", "Z_PK ZBLOCK", items.indices.map { [$0, $0] }),
      Recording.Table(
        "ZUSAGEBLOCK", "Z_PK ZSTARTDATE ZDURATIONINMINUTES ZUSAGE",
        items.enumerated().map { [$0, $1.hour * 3600, 60, $1.usage] }),
      Recording.Table(
        "ZUSAGE", "Z_PK ZDEVICE ZUSER", [[1, 7, 1], [2, 8, 1], [3, nil, 1], [4, nil, 2], [5, nil, nil]]),
    ])
  }

  @Test func anHourOfADeviceIsNotCountedAgainForAllDevices() throws {
    let report = try Replay.run(
      recording([
        (1, 0, "mail", 60), (2, 0, "mail", 30), (3, 0, "mail", 90),
        // Of a device that has no rows of its own, of another user, and of a user that is not named.
        (3, 1, "maps", 10), (4, 0, "chat", 5), (5, 2, "chat", 2),
      ]).read())
    #expect(report.sums == ["mail": 90, "maps": 10, "chat": 7])
    #expect(report.start == 978_307_200 && report.end == report.start + 3 * 3600)
    #expect(
      report.text().hasPrefix(
        "ios-screen-time: sums of 3 apps, 2001-01-01T00:00:00Z to 2001-01-01T03:00:00Z, 1 min 47 s"))
  }

  @Test func whatIsNoTimeIsLeftOut() throws {
    let trace = try recording([
      (1, 0, "mail", .infinity), (1, 1, "mail", -5), (1, .infinity, "mail", 7), (1, -.infinity, "mail", 8),
      (1, 2, "mail", 3),
    ]).read()
    #expect(trace.sums.map(\.seconds) == [3])
  }

  @Test func whatTheTextLeavesOutIsSaid() throws {
    let items = (0..<25).map { (usage: 1, hour: Double($0), app: "app\($0)", seconds: Double(100 - $0)) }
    let text = try Replay.run(recording(items).read()).text()
    #expect(text.contains("  app19\n  … 5 more; --json has all\n"))
  }

  @Test(.enabled(if: RecordedData.has("ios-screen-time"), "the recorded data is not beside the project"))
  func twoWeeksOfAPhoneAreCountedOnce() throws {
    let report = try Replay.run(
      Recording(recorded: "ios-screen-time/screentime_2021-01-21_02-04.sqlite.gz").read())
    // As `SELECT sum(ZTOTALTIMEINSECONDS)` says of each of the two usages.
    #expect(report.sums.values.reduce(0, +) == 27_261 && report.sums.count == 51)
    #expect(report.sums["com.spotify.client"] == 5552 && report.sums["com.apple.camera"] == 1)
  }
}
