import Foundation
import OpportuneApps
import OpportuneReplay
import TestSupport
import Testing

@Suite(.bounded) struct ReplayTests {
  private func fixture(_ name: String) throws -> String {
    try #require(Bundle.module.url(forResource: "Fixtures/\(name)", withExtension: "db")).path
  }

  // R-LIFE-22
  @Test(arguments: ["android-app-usage", "ios-powerlog", "desktop-app-focus", "ios-screen-time"])
  func everyFormatIsReadAndRepeats(_ name: String) throws {
    let trace = try TraceReader.read(fixture(name))
    #expect(trace.format == name)
    let reports = try (0..<2).map { _ in try Replay.run(trace) }
    #expect(reports[0].hash == reports[1].hash)
    #expect(try reports[0].json() == reports[1].json())
    if name == "ios-screen-time" {
      #expect(!reports[0].sums.isEmpty && reports[0].events == 0)
    } else {
      #expect(reports[0].switches.values.reduce(0, +) > 0)
    }
  }

  // R-FTS-02, R-LIFE-19
  @Test func aLongerGraceMovesSwitchesFromSuspendedToBackground() throws {
    let trace = try TraceReader.read(fixture("android-app-usage"))
    var options = ReplayOptions()
    var share: [Int] = []
    for grace in [1, 60, 3600] as [Int64] {
      options.policy.grace = .seconds(grace)
      let report = try Replay.run(trace, options)
      share.append(report.switches[.background] ?? 0)
    }
    #expect(share == share.sorted() && share[0] < share[2])
  }

  /// Two apps take turns: music is in front, mail for an hour, and music again.
  private var turns: Trace {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("org.example.music")), (60, .left("org.example.music")), (60, .front("org.example.mail")),
      (3660, .left("org.example.mail")), (3660, .front("org.example.music")),
    ]
    return trace
  }

  /// Names of apps come with the recording.
  @Test func aNameCannotSteerATerminalOrAPage() throws {
    let name = "a\u{0}\u{1B}[2J\nb\u{9B}\u{202E}<i>"
    var trace = Trace(format: "te\u{1B}st")
    trace.inputs = [(0, .front(name)), (60, .left(name)), (60, .front("b")), (90, .left("b"))]
    var options = ReplayOptions()
    options.memory = 64 << 20
    let report = try Replay.run(trace, options)
    let policies = try PolicyComparison(
      trace, [.lru], table: .ios, seed: 1, budget: 64 << 20, options: options)
    let texts = [report.text(), policies.text(), report.page(title: name), policies.page(title: name)]
    for text in texts {
      let steering = text.unicodeScalars.filter {
        $0 != "\n" && ($0.properties.generalCategory == .control || $0.properties.isBidiControl)
      }
      #expect(steering.isEmpty && !text.contains("<i>b"), "\(text)")
    }
    #expect(texts[0].hasPrefix(#"te\u{1B}st"#) && texts[2].contains(#"a\u{0}\u{1B}[2J"#))
  }

  // R-PWR-02, R-PWR-03
  @Test func onMainsNothingIsSuspended() throws {
    for onBattery in [true, false] {
      var options = ReplayOptions()
      options.onBattery = onBattery
      options.policy.power.fullOnMains = true
      let report = try Replay.run(turns, options)
      #expect(report.switches == [.cold: 2, (onBattery ? .suspended : .background): 1])
    }
  }

  // R-MAN-02, R-MAN-06
  @Test func theFirstRuleThatFitsGivesAManifest() throws {
    func background(_ rules: [(String, Set<Manifest.Mode>)]) throws -> Double {
      var options = ReplayOptions()
      options.manifestRules = rules.map { (pattern: $0.0, modes: $0.1) }
      return try Replay.run(turns, options).seconds[.background] ?? 0
    }
    let plain = try background([])
    // Fetching wakes it in background now and then.
    #expect(try background([("music", [.fetch])]) > plain)
    #expect(try background([("music", []), ("music", [.fetch])]) == plain)
    #expect(try background([("video", [.fetch])]) == plain)
  }

  @Test func flippingOneRecordedStateAddsExactlyThatDivergence() throws {
    var trace = try TraceReader.read(fixture("ios-powerlog"))
    let before = try Replay.run(trace)
    #expect(before.compared > 0 && before.compared > before.divergences.count)
    let differing = Set(before.divergences.map { "\($0.at) \($0.app)" })
    var flipped = 0
    for index in trace.expectations.indices {
      let row = trace.expectations[index]
      guard row.state == .suspended, !differing.contains("\(row.at) \(row.app)"), flipped < 10 else {
        continue
      }
      trace.expectations[index].state = .foreground
      let after = try Replay.run(trace)
      trace.expectations[index].state = row.state
      guard after.compared == before.compared, after.divergences != before.divergences else { continue }
      flipped += 1
      let added = after.divergences.filter { !before.divergences.contains($0) }
      #expect(added.count == 1 && after.divergences.count == before.divergences.count + 1)
      #expect(
        added.first?.app == row.app && added.first?.expected == .foreground
          && added.first?.cause == .unrecordedForeground)
      #expect(after.hash == before.hash)  // never an input
    }
    #expect(flipped > 0)
  }

  @Test func whatCannotBeReadIsNamed() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("replay-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    func file(_ name: String, _ data: Data) throws -> String {
      let place = folder.appendingPathComponent(name)
      try data.write(to: place)
      return place.path
    }
    #expect(throws: TraceError.missing("/nonexistent")) { try TraceReader.read("/nonexistent") }
    let packed = try file("a.gz", Data([0x1f, 0x8b, 8, 0]))
    #expect(throws: TraceError.compressed(packed)) { try TraceReader.read(packed) }
    let text = try file("b.db", Data(String(repeating: "no database", count: 200).utf8))
    #expect(throws: TraceError.self) { try TraceReader.read(text) }
    let cut = try file("c.db", Data(contentsOf: URL(fileURLWithPath: fixture("ios-powerlog"))).prefix(3000))
    #expect(throws: TraceError.self) { try TraceReader.read(cut) }
  }

  @Test(.timeLimit(.minutes(1))) func whatIsNoFileIsNotWaitedFor() throws {
    let recording = try Recording()
    #expect(mkfifo(recording.path, 0o600) == 0)
    for (path, kind) in [
      (recording.path, "a pipe"), (recording.folder.path, "a folder"), ("/dev/null", "a device"),
    ] {
      #expect(throws: TraceError.notAFile(path, kind)) { try TraceReader.read(path) }
    }
  }

  @Test func aDatabaseInWALModeIsReadWhereNothingCanBeMadeBesideIt() throws {
    let recording = try Recording([
      Recording.Table(
        "ZOBJECT", "Z_PK ZSTREAMNAME ZVALUESTRING ZSTARTDATE ZENDDATE", [[1, "/app/inFocus", "mail", 10, 20]])
    ])
    let place = recording.folder.appending(path: "a ?b#c%.db")
    try FileManager.default.moveItem(atPath: recording.path, toPath: place.path)
    func trace() throws -> Trace { try TraceReader.read(place.path) }
    // Bytes 18 and 19 of a database say that it is written and read with a log.
    var bytes = try Data(contentsOf: place)
    let usual = try trace()
    bytes.replaceSubrange(18..<20, with: [2, 2])
    try bytes.write(to: place)
    // Where files may be made they are; for root that is everywhere, so something is there that SQLite does
    // not open.
    try FileManager.default.createSymbolicLink(atPath: place.path + "-shm", withDestinationPath: "nowhere")
    var alone = try trace()
    #expect(alone.notes.count == 1 && alone.notes.allSatisfy { $0.contains("immutable") })
    let report = try Replay.run(alone)
    #expect(
      report.text().contains("note: opened as ") && report.page(title: "t").contains("note: opened as "))
    #expect(try report.json().contains("\"notes\":[\"opened as "))
    alone.notes = []
    #expect(alone == usual && !alone.inputs.isEmpty)
    // What is in the log would be missed.
    try Data([1]).write(to: URL(fileURLWithPath: place.path + "-wal"))
    #expect(throws: TraceError.unfinished(place.path, place.path + "-wal")) { try trace() }
  }

  // R-LIFE-22
  @Test func whoIsInFrontDoesNotComeToTheFront() throws {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("mail")), (10, .front("mail")), (20, .left("mail")), (30, .front("mail")),
      (40, .front("maps")),
    ]
    let report = try Replay.run(trace)
    #expect(report.switches == [.cold: 2, .suspended: 1] && report.changes == 2)
    #expect(try report.json().contains("\"changes\":2,"))
    #expect(try PolicyComparison(trace, [.lru], table: .ios, seed: 1).switches == 3)
  }

  @Test func aSilenceIsNoTimeInFront() throws {
    var trace = Trace(format: "test")
    trace.inputs = [(0, .front("mail")), (40_000, .notification("maps")), (1_000_000, .front("maps"))]
    trace.endSilences()
    #expect(
      trace.lines == ["0 front mail", "40000 notification maps", "40000 left mail", "1000000 front maps"])
    #expect(
      trace.notes.count == 1 && trace.notes[0].contains("for 266 h 40 min, in one gap of more than 12 h"))
    // A state that is seen is a row too.
    trace.inputs = [(0, .front("mail")), (80_000, .front("maps"))]
    trace.expectations = [Trace.Expectation(at: 40_000, app: "mail", state: .foreground)]
    let before = trace.lines
    trace.endSilences()
    #expect(trace.lines == before && trace.notes.count == 1)
  }

  @Test func theTimelinesAreWellFormed() throws {
    let report = try Replay.run(TraceReader.read(fixture("ios-powerlog")))
    struct Document: Decodable {
      struct Event: Decodable {
        let name, ph: String
        let pid: Int
        let ts, dur: Double?
      }
      let traceEvents: [Event]
    }
    let document = try JSONDecoder().decode(Document.self, from: Data(report.traceEvents().utf8))
    #expect(document.traceEvents.count { $0.ph == "X" } == report.spans.count)
    #expect(document.traceEvents.allSatisfy { $0.ph != "X" || ($0.ts ?? -1) >= 0 && ($0.dur ?? -1) >= 0 })
    let page = report.page(title: "a <b> & \"c\"")
    #expect(
      page.contains("a &lt;b&gt; &amp; &quot;c&quot;") && !page.contains("<script") && page.contains("<svg"))
    #expect((1...8).contains(page.components(separatedBy: "class=\"tick\"").count - 1))
    // A moment in background is seen, before the suspension that it lies on.
    let background = try #require(page.range(of: "<rect class=\"background\""))
    let suspended = try #require(page.range(of: "<rect class=\"suspended\"", options: .backwards))
    #expect(suspended.lowerBound < background.lowerBound)
    let widths = page.components(separatedBy: "<rect class=\"background\"").dropFirst().compactMap {
      $0.components(separatedBy: " width=\"").dropFirst().first.flatMap { Double($0.prefix { $0 != "\"" }) }
    }
    #expect(!widths.isEmpty && widths.allSatisfy { $0 >= 1 })
  }
}
