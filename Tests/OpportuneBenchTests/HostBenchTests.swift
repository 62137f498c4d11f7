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
    #expect(throws: BenchError.self) { try HostBenchOptions(criu: "/nowhere/criu") }
    for rate in [99, 20_001] { #expect(throws: BenchError.self) { try HostBenchOptions(rate: rate) } }
    for apps in [0, 2001] { #expect(throws: BenchError.self) { try HostBenchOptions(apps: apps) } }
    for mebibytes in [255, 65_537] {
      #expect(throws: BenchError.self) { try HostBenchOptions(mebibytes: mebibytes) }
    }
    #expect(throws: BenchError.self) { try HostBenchOptions(swapPlace: "paper") }
    for pause in [-1, 61.0] { #expect(throws: BenchError.self) { try HostBenchOptions(pause: pause) } }
    let sizes = try HostBenchOptions(mebibytes: 1024)
    #expect(sizes.heldBehind == 244 && sizes.wantedInFront == 256)
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

  @Test func whatAProgramOfTheMemoryFigureSaysIsRead() {
    typealias Said = HostMemoryProgram.Said
    let said = Said(at: 12, longest: 7)
    #expect(Said(said.head) == said)
    #expect(Said(said.head + "...") == Said(at: 12, longest: 7, beats: 3))
    for text in ["", "has 12 7", "has 12\n", "has 12 x\n", "had 12 7\n", "has 12 7\n.\n"] {
      #expect(Said(text) == nil, "\(text)")
    }
    #expect(HostMemoryProgram("take 256") == HostMemoryProgram(.take, 256))
    for words in ["", "take", "take 0", "take x", "lend 256", "take 256 1"] {
      #expect(HostMemoryProgram(words) == nil, "\(words)")
    }
  }

  /// Who went how, by the number of repeats; times of the repeats in which there was one.
  @Test func theReportTellsWhoWent() throws {
    var report = HostBenchReport(machine: .current())
    var shell = HostMemoryRow(.shell)
    (shell.taken, shell.longest, shell.swapped, shell.frontLost) = ([120], [30], [0, 0], 1)
    shell.went = [["behind-2": .killed], ["behind-2": .killed, "behind-1": .killed]]
    var hosted = HostMemoryRow(.opportuneSwap, swapsTo: .zram)
    (hosted.taken, hosted.longest, hosted.swapped, hosted.hostLost) = ([80, 90], [2, 4], [500, 300], 1)
    hosted.went = [["behind-1": .pagedOut], [:]]
    report.memory = [shell, hosted]
    let table = report.table().split(separator: "\n").map(String.init)
    let first = try #require(table.first { $0.hasPrefix("shell ") })
    #expect(first.hasSuffix("1 of 2  killed by the kernel: behind-1 (1 of 2), behind-2"), "\(first)")
    #expect(
      first.split(separator: " ").dropFirst().prefix(6) == ["–", "120.0", "120.0", "120.0", "30.0", "0"])
    let second = try #require(table.first { $0.hasPrefix("opportune-swap ") })
    let end = "paged out by the host: behind-1 (1 of 2); the host itself killed by the kernel (1 of 2)"
    #expect(second.hasSuffix("0 of 2  " + end), "\(second)")
    let json = try JSONSerialization.jsonObject(with: Data(try report.json().utf8)) as? [String: Any]
    let rows = try #require(json?["memory"] as? [[String: Any]])
    #expect(rows.map { $0["contender"] as? String } == ["shell", "opportune-swap"])
    #expect((rows[0]["went"] as? [String: [String: Int]])?["killed by the kernel"]?["behind-2"] == 2)
    #expect(rows[0]["swap_on"] == nil && rows[1]["swap_on"] as? String == "zram")
    #expect((rows[1]["taken_ms"] as? [String: Double])?["median"] == 85)
    #expect(rows[0]["front_lost"] as? Int == 1 && rows[1]["host_lost"] as? Int == 1)
  }

  /// As a load that counts what it has done when it is interrupted, whichever thread has started it.
  @Test func whoIsStartedHearsSignals() throws {
    var (all, before) = (sigset_t(), sigset_t())
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    let child = try ChildProcess.start(["sh", "-c", "kill -INT $$; exit 7"])
    #expect(ChildProcess.wait(for: child) == SIGINT)
  }

  /// The command that was built beside the tests, with little memory: each contender is measured, or said to
  /// be skipped, and nothing of it is left.
  @Test(arguments: SwapSpace.Place.allCases)
  func shortMemoryIsMeasuredOrSkipped(swap: SwapSpace.Place) async throws {
    guard (try? MemoryGroup())?.remove() != nil else {
      print("skipped: no memory control group can be made")
      return
    }
    let folder = try ScratchFolder(in: FileManager.default.temporaryDirectory.path)
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let command = URL(fileURLWithPath: tests).deletingLastPathComponent().appending(path: "opportune").path
    let file = folder.path + "/report.json"
    let devices = { try FileManager.default.contentsOfDirectory(atPath: "/sys/block") }
    let before = try devices()
    let process = try ChildProcess.start(
      [
        command, "bench", "host", "--figure", "memory", "--mebibytes", "256", "--repeats", "1", "--pause",
        "0", "--swap-on", swap.rawValue, "--folder", folder.path, "--json", file,
      ], ownSession: true)
    #expect(ChildProcess.wait(for: process) == 0)
    let json = try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: file))) as? [String: Any]
    let rows = try #require(json?["memory"] as? [[String: Any]])
    let skipped = try #require(json?["skipped"] as? [String])
    let measured = rows.compactMap { $0["contender"] as? String }
    for line in skipped { print("skipped: \(line)") }
    if !skipped.contains(where: { $0.hasPrefix("memory: ") }) {
      for way in HostMemoryWay.allCases {
        let isSkipped = skipped.contains { $0.hasPrefix("memory, \(way.rawValue): ") }
        #expect(measured.contains(way.rawValue) != isSkipped, "\(way.rawValue)")
      }
      // More is wanted than there is: without swap somebody goes.
      let shell = rows.first { $0["contender"] as? String == "shell" }
      let went = shell?["went"] as? [String: [String: Int]] ?? [:]
      #expect(shell == nil || went["killed by the kernel"] != nil || shell?["front_lost"] as? Int == 1)
      let alone = rows.first { $0["contender"] as? String == "alone" }
      #expect(alone == nil || alone?["front_lost"] as? Int == 0)
      #expect((alone?["went"] as? [String: Any])?.isEmpty != false)
    }
    #expect(try String(contentsOfFile: "/proc/swaps", encoding: .utf8).contains(folder.path) == false)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["report.json"])
    #expect(try Set(devices()) == Set(before))
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
