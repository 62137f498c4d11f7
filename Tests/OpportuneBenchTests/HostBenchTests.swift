import Foundation
import OpportuneHost
import TestSupport
import Testing
import ToolSupport

@testable import OpportuneBench

@Suite(.bounded, .timeLimit(.minutes(3))) struct HostBenchTests {
  @Test func optionsOutOfRangeAreRefused() throws {
    #expect(throws: BenchError.self) { try HostBenchOptions(figures: ["nothing"]) }
    #expect(throws: BenchError.self) { try HostBenchOptions(loads: ["games"]) }
    #expect(throws: BenchError.self) { try HostBenchOptions(contenders: ["nobody"]) }
    #expect(throws: BenchError.self) { try HostBenchOptions(seconds: 0.4) }
    #expect(throws: BenchError.self) { try HostBenchOptions(repeats: 0) }
    for rate in [99, 20_001] { #expect(throws: BenchError.self) { try HostBenchOptions(rate: rate) } }
    for apps in [0, 2001] { #expect(throws: BenchError.self) { try HostBenchOptions(apps: apps) } }
    let options = try HostBenchOptions(figures: ["idle"], contenders: ["alone", "alone", "nice"])
    #expect(options.figures == [.idle] && options.contenders == [.alone, .nice])
    #expect(options.loads == HostLoad.allCases)
  }

  /// Answers are counted however the stream is cut; what is none of the protocol is found.
  @Test func answersAreCountedHoweverTheyAreCut() {
    let one = Array("$1000\r\n".utf8) + [UInt8](repeating: UInt8(ascii: "$"), count: 1000) + [13, 10]
    let all = one + one + one
    for size in [1, 2, 6, 7, 8, 999, 1008, 1009, 1010, 3027] {
      var replies = RedisReplies()
      var ended = 0
      var index = 0
      while index < all.count {
        let piece = Array(all[index..<min(index + size, all.count)])
        ended += piece.withUnsafeBytes { replies.take($0) }
        index += size
      }
      #expect(ended == 3, "in pieces of \(size)")
    }
    for wrong in ["-ERR no\r\n", "$-1\r\n", "$999\r\n", "x", "$99999999999999999999\r\n"] {
      var replies = RedisReplies()
      #expect(Array(wrong.utf8).withUnsafeBytes { replies.take($0) } == -1, "\(wrong)")
    }
  }

  @Test func whatALoadHasDoneIsRead() {
    let yaml = """
      metrics:
          - stressor: vm
            bogo-ops: 72640
            bogo-ops-per-second-usr-sys-time: 72523.092774
          - stressor: hdd
            bogo-ops: 22528
            bogo-ops-per-second-real-time: 22261.890438
      """
    #expect(RunningLoad.operations(yaml) == ["vm": 72640, "hdd": 22528])
    #expect(RunningLoad.operations("") == [:])
  }

  /// A ratio is of the same repeat and the same kind of work; the median of the repeats.
  @Test func workIsComparedByRepeatAndKind() {
    let own: [[String: Double]] = [["vm": 50, "hdd": 10], ["vm": 100, "hdd": 30], ["vm": 30, "hdd": 10]]
    let other: [[String: Double]] = [
      ["vm": 100, "hdd": 10], ["vm": 100, "hdd": 10], ["vm": 100, "hdd": 100],
    ]
    #expect(HostBenchReport.ratio(own, other) == 0.75)
    #expect(HostBenchReport.ratio(own, nil) == nil)
    #expect(HostBenchReport.ratio([["vm": 1]], [["hdd": 1]]) == nil)
    #expect(HostBenchReport.ratio([["vm": 1]], [["vm": 0]]) == nil)
  }

  @Test func theReportNamesWhatWasLeftOut() throws {
    var report = HostBenchReport(machine: .current())
    report.skipped = ["front: not in PATH: redis-server"]
    var alone = HostFrontRow(load: "compile", contender: "alone")
    alone.p99 = [100, 200]
    var apps = HostFrontRow(load: "compile", contender: "opportune")
    (apps.p99, apps.work) = ([150, 200], [["compile": 4], ["compile": 6]])
    report.front = [alone, apps]
    #expect(report.frontRows().map(\.p99ToAlone) == [1, 1.25])
    #expect(report.frontRows()[1].work == ["compile": 5])
    #expect(report.table().contains("skipped: front: not in PATH: redis-server"))
    let json = try JSONSerialization.jsonObject(with: Data(try report.json().utf8)) as? [String: Any]
    #expect((json?["front"] as? [[String: Any]])?.count == 2)
    #expect(json?["skipped"] as? [String] == report.skipped)
  }

  /// Where `redis-server` is installed: it is asked, and answers, in turn by a client that waits for nothing.
  @Test func aServerAnswersAsOftenAsItIsAsked() throws {
    guard ProgramFile.find("redis-server").path != nil else {
      print("skipped: redis-server is not in PATH")
      return
    }
    let folder = try ScratchFolder(in: FileManager.default.temporaryDirectory.path)
    let server = try RedisServer(in: folder.path, named: "redis", keys: 100)
    defer { server.stop() }
    let client = try RedisClient(server.socket, keys: 100)
    let begin = SystemClock.now()
    client.run(
      from: begin, measured: begin, until: begin + 200_000_000, rate: 1000, seed: 1, isInterrupted: { false })
    #expect(client.fault == nil && client.unanswered == 0)
    // As many as its schedule has until then.
    var schedule = ArrivalSchedule(mean: 1000, jitter: 1000, seed: 1)
    var asked: UInt64 = 0
    while schedule.next < 200_000_000 {
      asked += 1
      schedule.advance()
    }
    #expect(client.histogram.count == asked && asked > 100)
  }
}
