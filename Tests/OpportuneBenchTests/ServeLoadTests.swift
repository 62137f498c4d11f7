import Foundation
import OpportuneBase
import Synchronization
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ServePlanTests {
  /// The intended times and kinds of all clients, in order.
  private func requests(_ plan: ServePlan) -> [(time: Nanoseconds, connection: Int, kind: ServeRequest.Kind)]
  {
    var streams = plan.streams()
    var requests: [(time: Nanoseconds, connection: Int, kind: ServeRequest.Kind)] = []
    while let next = ServeGenerator.earliest(streams) {
      let stream = streams[next]
      requests.append((stream.schedule.next, stream.connection, stream.kind(stream.arrivals)))
      streams[next].schedule.advance()
      streams[next].arrivals += 1
    }
    return requests
  }

  // R-CARD-06: the same open-loop load for every contender.
  @Test func theSameSeedGivesTheSameRequests() {
    let plan = ServePlan(load: .full, duration: 3_000_000_000, seed: 4)
    let (one, two) = (requests(plan), requests(plan))
    #expect(one.map(\.time) == two.map(\.time) && one.map(\.kind) == two.map(\.kind))
    #expect(one.map(\.time) == one.map(\.time).sorted())
  }

  @Test func requestsComeAtTheirRates() {
    let all = requests(ServePlan(load: .full, duration: 10_000_000_000, seed: 4))
    func count(_ kind: ServeRequest.Kind) -> Int { all.count { $0.kind == kind } }
    #expect(abs(count(.short) + count(.phrase) - 8000) < 160)
    #expect(abs(count(.phrase) - 200) < 40)
    #expect(count(.heavy) == 10)
    #expect((17...23).contains(count(.fresh)))
    #expect(all.allSatisfy { $0.time < 10_000_000_000 })
    // One that takes long keeps nobody else waiting on its connection.
    let heavy = all.filter { $0.kind == .heavy }
    #expect(Set(heavy.map(\.connection)).count == 4 && heavy.allSatisfy { $0.connection >= 32 })
    #expect(zip(heavy, heavy.dropFirst()).allSatisfy { $1.time - $0.time == 1_000_000_000 })
  }

  @Test func onAnIdleMachineThereAreTypistsAlone() {
    let all = requests(ServePlan(load: .idle, duration: 1_000_000_000, seed: 4))
    #expect(Set(all.map(\.kind)) == [.short, .phrase] && Set(all.map(\.connection)) == Set(0..<32))
  }

  /// Windows of both loads are as long.
  @Test func idleTypistsTypeAsLongAsOthers() throws {
    let typed = ServePlan.Load.allCases.map { load in
      requests(ServePlan(load: load, duration: 2_000_000_000, seed: 4)).count {
        [.short, .phrase].contains($0.kind)
      }
    }
    #expect(typed[0] == typed[1])
    #expect(try ServeOptions(contenders: ["threads"], seconds: 6, repeats: 2).secondsOfWindows == 12)
  }

  /// As much is asked by more typists, and heavy requests that come together come less often.
  @Test func connectionsAndHeavyRequestsAreAsMany() {
    let plan = ServePlan(load: .full, duration: 16_000_000_000, seed: 4, connections: 256, heavyAtOnce: 8)
    let all = requests(plan)
    let typed = all.filter { [.short, .phrase].contains($0.kind) }
    #expect(abs(typed.count - 12_800) < 300 && Set(typed.map(\.connection)) == Set(0..<256))
    let heavy = all.filter { $0.kind == .heavy }
    // The first behind the warm-up: in a window of 8 s there are no others.
    #expect(heavy.map(\.time) == [1_300_000_000, 9_300_000_000].flatMap { Array(repeating: $0, count: 8) })
    #expect(Set(heavy.map(\.connection)).count == 16 && plan.connections == 256 + 32 + 1)
  }

  @Test func moreConnectionsThanDescriptorsAreRefused() {
    let error = #expect(throws: BenchError.self) { try DescriptorLimit.raise(forConnections: 1 << 40) }
    #expect(error?.code == .unavailable && error?.description.contains("--connections") == true)
    #expect(throws: Never.self) { try DescriptorLimit.raise(forConnections: 1) }
  }

  @Test func aWrongAnswerIsFound() {
    let word = ServeQuestion(kind: .short, text: "a", matches: 5, documents: 2)
    var answer = ServeResponse(id: 1)
    (answer.matches, answer.documents) = (5, 2)
    #expect(word.fault(of: answer) == nil)
    answer.documents = 3
    #expect(word.fault(of: answer)?.contains("5 matches in 3 documents") == true)
    answer.documents = 2
    answer.status = .refused
    #expect(word.fault(of: answer) != nil)
    let fresh = ServeQuestion(kind: .fresh, text: "a", matchesOfChunk: [1, 4])
    answer = ServeResponse(id: 1)
    (answer.matches, answer.chunk) = (4, 1)
    #expect(fresh.fault(of: answer) == nil)
    answer.chunk = 2
    #expect(fresh.fault(of: answer) != nil)
  }

  @Test func optionsOutOfRangeAreRefused() throws {
    #expect(throws: BenchError.self) { try ServeOptions(seconds: 0.4) }
    #expect(throws: BenchError.self) { try ServeOptions(repeats: 0) }
    #expect(throws: BenchError.self) { try ServeOptions(seconds: 2, repeats: 5) }
    for count in [0, 8193] { #expect(throws: BenchError.self) { try ServeOptions(connections: count) } }
    for count in [0, 65] { #expect(throws: BenchError.self) { try ServeOptions(heavy: count) } }
    for count in [63, 65_537] {
      #expect(throws: BenchError.self) { try ServeOptions(serverMebibytes: count) }
    }
    #expect(throws: BenchError.self) { try ServeOptions(files: "mapped") }
    #expect(throws: BenchError.self) { try ServeOptions(sockets: "udp") }
    #expect(throws: BenchError.self) { try ServeOptions(contenders: ["nobody"]) }
    #expect(throws: BenchError.self) { try ServeOptions(loads: [""]) }
    #expect(throws: BenchError.self) { try ServeOptions(contenders: ["nio"]) }
    #expect(try ServeOptions(nioRival: "rival").contenders.map(\.name) == ServeContender.all.map(\.name))
    for name in ["opportune-level-0", "opportune-level-65", "opportune-level-", "opportune-level-1.5"] {
      #expect(throws: BenchError.self) { try ServeOptions(contenders: [name]) }
    }
    let held = try ServeOptions(contenders: ["opportune-level-2", "threads"]).contenders
    #expect(held.map(\.name) == ["opportune-level-2", "threads"] && held.allSatisfy { $0.make != nil })
    let options = try ServeOptions(contenders: ["threads", "threads"], loads: ["full"], seconds: 4)
    #expect(options.contenders.map(\.name) == ["threads"] && options.secondsOfWindows == 4)
    // Two minutes of each contender that needs no program of its own, under each load.
    let usual = try ServeOptions()
    #expect(usual.secondsOfWindow == 24 && usual.secondsOfWindows == Double(usual.contenders.count * 2 * 120))
  }
}

@Suite(.bounded, .timeLimit(.minutes(2))) struct ServeServerTests {
  /// Those that are in this program.
  static let names = ServeContender.all.filter { $0.make != nil }.map(\.name)

  /// Without what a test cannot wait for: a quiet machine, and as many requests as a measurement needs.
  private func run(
    _ name: String, seconds: Double, _ tree: String, _ folder: ServeTestFolder, sockets: String = "unix"
  ) async throws -> ServeReport {
    var bench = ServeBench(
      options: try ServeOptions(
        contenders: [name], seconds: seconds, repeats: 1, sockets: sockets, trees: [tree], folder: folder.path
      ),
      isInterrupted: { false }, progress: { _ in })
    bench.launch = { setup, _ in try ServerHere(setup) }
    // A disturbed machine changes times, which say nothing here.
    bench.rule = NoiseRule(stolenShareMax: .infinity, canaryMax: .infinity)
    bench.adjust = { plan in
      plan.clients = 4
      plan.keystroke = (mean: 60_000, jitter: 30_000)
      plan.shortBetweenPhrases = 5
      plan.heavyEvery = 300_000
      plan.freshEvery = 200_000
    }
    return try await bench.run()
  }

  private func hasBackground(_ report: ServeReport) -> Bool {
    let count = report.rows.first { $0.tally.load == .full }?.tally.count
    return count.map { $0.documents > 0 && $0.checkedBytes > 0 && $0.backgroundWritten > 0 } ?? false
  }

  // R-CARD-06: no contender loses a request or answers it wrongly.
  @Test(arguments: names)
  func everyContenderAnswersRightly(_ name: String) async throws {
    let folder = try ServeTestFolder()
    let tree = try folder.tree(files: 40, words: 300)
    // A longer window where something else fills the machine: work in background is done by what is left.
    var report = try await run(name, seconds: 1, tree, folder)
    for seconds in [4.0, 16] where !hasBackground(report) {
      report = try await run(name, seconds: seconds, tree, folder)
    }
    let full = report.rows.filter { $0.tally.load == .full }
    #expect(full.map(\.kind) == [.short, .phrase, .heavy, .fresh])
    #expect(report.rows.filter { $0.tally.load == .idle }.map(\.kind) == [.short, .phrase, .heavy])
    for row in report.rows {
      #expect(row.account.samples > 0 && row.account.unfinished == 0, "\(row.tally.load) \(row.kind)")
    }
    let tally = try #require(full.first?.tally)
    #expect(tally.count.refused == 0 && tally.count.failures == 0)
    #expect(tally.count.documents > 0 && tally.count.checkedBytes > 0, "\(tally.count)")
    for row in report.rows {
      let spent = row.spending.all
      #expect(spent.requests > 0 && spent[.cpu] > 0 && spent[.queue] > 0, "\(row.tally.load) \(row.kind)")
    }
    // All blocks are read from the device at first.
    #expect(report.rows.contains { $0.spending.all[.reading] > 0 })
    #expect(
      tally.count.backgroundCPU > 0 && tally.count.backgroundRead > 0 && tally.count.backgroundWritten > 0)
    let idle = try #require(report.rows.first?.tally)
    #expect(idle.count.documents == 0 && idle.count.checkedBytes == 0)
    #expect((idle.count.backgroundCPU, idle.count.backgroundRead, idle.count.backgroundWritten) == (0, 0, 0))
    // Law 3 is seen to be kept: background has a worker, whatever a target takes.
    #expect(tally.shares.isEmpty == (name != "opportune-target"))
    #expect(tally.shares.allSatisfy { $0.workers >= 1 && (1...8).contains($0.eighths) }, "\(tally.shares)")
    // Nothing stays.
    #expect(Set(try FileManager.default.contentsOfDirectory(atPath: folder.path)).isSubset(of: ["tree"]))
  }

  // R-CARD-06
  /// One of each way to read from clients; `hand-tuned` reads as `threads` does.
  @Test(arguments: ["opportune", "threads", "dispatch", "swift-default"])
  func theyAnswerOverTCP(_ name: String) async throws {
    let folder = try ServeTestFolder()
    let report = try await run(
      name, seconds: 1, try folder.tree(files: 20, words: 200), folder, sockets: "tcp")
    for row in report.rows {
      #expect(row.account.samples > 0 && row.account.unfinished == 0, "\(row.tally.load) \(row.kind)")
    }
    #expect(report.notes.last?.hasPrefix("32 connections of typists over TCP, ") == true, "\(report.notes)")
  }

  // R-CARD-06: what takes long by itself would make any target unreachable.
  @Test func onlyShortRequestsCountForATarget() {
    #expect(ServeRequest.Kind.allCases.filter(\.countsForTarget) == [.short])
  }

  @Test func aHeldLevelIsTold() async throws {
    let folder = try ServeTestFolder()
    let tree = try folder.tree(files: 20, words: 200)
    let report = try await run("opportune-level-1", seconds: 1, tree, folder)
    let share = try #require(report.tallies.first { $0.load == .full }?.shares.first)
    // The default cap on requests of background is not lowered further by less than a quarter.
    #expect(share.workers == 1 && share.eighths == 2 && share.cuts == 0, "\(share)")
  }

  /// Written by the bench's thread, read when the run is over.
  private final class Seen: @unchecked Sendable {
    var files: [FileAccess] = []
    var plans: [[Int]] = []
  }

  /// Each option is in what the server is started with, what clients ask, and what is told of the run.
  @Test func optionsReachTheServerAndItsClients() async throws {
    let folder = try ServeTestFolder()
    let seen = Seen()
    var bench = ServeBench(
      options: try ServeOptions(
        contenders: ["threads"], loads: ["full"], seconds: 0.5, repeats: 1, connections: 3, heavy: 2,
        files: "cached", trees: [try folder.tree(files: 5, words: 100)], folder: folder.path),
      isInterrupted: { false }, progress: { _ in })
    bench.launch = { setup, _ in
      seen.files.append(setup.files)
      return try ServerHere(setup)
    }
    bench.adjust = { seen.plans.append([$0.clients, $0.heavyAtOnce]) }
    let report = try await bench.run()
    #expect(seen.files == [.cached] && seen.plans == [[3, 2]])
    #expect(
      report.notes.last
        == "3 connections of typists, 2 heavy requests at once each 2 s; queries read the index through the page cache"
    )
  }

  /// A server that has ended, as by the kernel where memory is out.
  private final class Ended: RunningServer {
    let process = getpid()
    func end() -> String? { "it was ended by a test" }
    func stop() {}
  }

  /// The others are reported, and why it is not.
  @Test func whoseServerEndsIsLeftOut() async throws {
    let folder = try ServeTestFolder()
    var bench = ServeBench(
      options: try ServeOptions(
        contenders: ["threads", "dispatch"], loads: ["idle"], seconds: 1, repeats: 2,
        trees: [try folder.tree(files: 5, words: 100)], folder: folder.path),
      isInterrupted: { false }, progress: { _ in })
    let started = Atomic<Int>(0)
    bench.launch = { setup, _ in
      guard setup.contender == "threads" else { return try ServerHere(setup) }
      started.add(1, ordering: .relaxed)
      return Ended()
    }
    let report = try await bench.run()
    #expect(Set(report.rows.map(\.tally.contender)) == ["dispatch"] && started.load(ordering: .relaxed) == 1)
    let why = "threads under load 'idle': the server is gone: it was ended by a test"
    #expect(report.failure?.description == why && report.failure?.code == .workLost)
    #expect(report.notes.last == why + "; left out from repeat 1 on")
  }

  /// As by Ctrl-C, in the first contender's second window of two. Six lines are told before the first.
  @Test func anInterruptedRunReportsWhatItHas() async throws {
    let folder = try ServeTestFolder()
    let options = try ServeOptions(
      contenders: ["threads"], seconds: 2, repeats: 1, trees: [try folder.tree(files: 5, words: 100)],
      folder: folder.path)
    let told = Atomic<Int>(0)
    for (limit, rows) in [(7, 3), (2, 0)] {
      told.store(0, ordering: .relaxed)
      var bench = ServeBench(
        options: options, isInterrupted: { told.load(ordering: .relaxed) > limit },
        progress: { _ in told.add(1, ordering: .relaxed) })
      bench.launch = { setup, _ in try ServerHere(setup) }
      let report = try await bench.run()
      #expect(
        report.wasInterrupted && report.rows.count >= rows && told.load(ordering: .relaxed) == limit + 1)
      #expect(
        ServeTable.render(report).contains("interrupted") && ServePage.render(report).contains("interrupted"))
      #expect(try ServeJSON.encode(report).contains("\"interrupted\" : true"))
    }
  }

  /// A connection that sends what is no request is closed, and others are served.
  @Test(arguments: names)
  func whatIsMalformedEndsItsConnectionAlone(_ name: String) async throws {
    let folder = try ServeTestFolder()
    try DocumentSource.write(to: "\(folder.path)/documents", chunks: 1) { _ in
      randomDocuments(3, words: 30, seed: 1)
    }
    let setup = ServerSetup(
      contender: name, source: "\(folder.path)/documents", segments: [], folder: folder.path,
      address: .unix("\(folder.path)/socket"), cores: 2, cacheBytes: 1 << 20, hasBackground: false)
    let server = try #require(ServeContender.all.first { $0.name == name }?.make?())
    try await server.start(setup)
    let (bad, good) = (
      try StreamSocket.connect(to: setup.address), try StreamSocket.connect(to: setup.address)
    )
    let closed = await withCheckedContinuation { done in
      Thread.detachNewThread {
        StreamSocket.send([255, 255, 255, 255, 0], to: bad)
        var reader = MessageReader()
        done.resume(returning: StreamSocket.receive(from: bad, into: &reader) == nil)
      }
    }
    #expect(closed)
    let answered = await withCheckedContinuation { done in
      Thread.detachNewThread { done.resume(returning: (try? ServeControl(good).statistics()) != nil) }
    }
    #expect(answered)
    close(bad)
    await server.stop()
  }
}
