import Foundation
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ServeReportTests {
  /// Of two contenders: short queries that take a millisecond, and one heavy request that was lowered.
  private func report(standing: SchedulerStanding? = nil) -> ServeReport {
    let tallies = ["opportune", "threads"].map { name in
      var tally = ServeTally(contender: name, load: .full)
      var samples = (0..<200).map { number in
        ServeSample(
          kind: .short, question: 0, intended: UInt64(number) * 5_000_000 + 1,
          sent: UInt64(number) * 5_000_000 + 2001, answered: UInt64(number) * 5_000_000 + 1_000_001,
          spent: ServeResponse.Spent(
            begin: UInt64(number) * 5_000_000 + 300_001, end: UInt64(number) * 5_000_000 + 900_001,
            cpu: 50_000, cpuWait: 20_000, locks: 10_000, reading: 200_000, waiting: 30_000))
      }
      samples.append(
        ServeSample(
          kind: .heavy, question: 0, intended: 1000, sent: 1000, answered: 500_001_000, loweredAfter: 10_000))
      var count = EngineCount()
      (count.backgroundCPU, count.backgroundRead, count.backgroundWritten) = (
        250_000_000, 8_000_000, 4_000_000
      )
      (count.time, count.documents, count.mergedBytes, count.merges) = (1_000_000_000, 500, 3_000_000, 2)
      var (begin, end) = (UsageReading(), UsageReading())
      (begin.time, end.time) = (0, 100_000_000)
      tally.count(
        ServeOutcome(
          measured: 1..<1_000_000_000, end: 1_000_000_000, samples: samples,
          slices: [Slice(begin: begin, end: end)], count: count, resident: 64_000_000, isRealTime: false,
          standing: name == "opportune" ? standing : nil),
        rule: NoiseRule(), cores: 2, runStart: 0)
      return tally
    }
    return ServeReport(machine: .current(), noise: NoiseReport(), tallies: tallies, notes: ["a <note>"])
  }

  @Test func theJSONHasItsShape() throws {
    let json = try JSONSerialization.jsonObject(with: Data(try ServeJSON.encode(report()).utf8))
    let document = try #require(json as? [String: Any])
    #expect(document["interrupted"] as? Bool == false)
    #expect((document["machine"] as? [String: Any])?["cores"] is Int)
    #expect((document["noise"] as? [String: Any])?["valid"] as? Bool == true)
    let results = try #require(document["results"] as? [[String: Any]])
    #expect(results.count == 4)
    let short = try #require(results.first)
    #expect(short["contender"] as? String == "opportune" && short["load"] as? String == "full")
    #expect(short["request"] as? String == "short" && short["requests"] as? Int == 200)
    let latency = try #require(short["latency_us"] as? [String: Double])
    #expect(Set(latency.keys) == ["p50", "p90", "p99", "p999", "max"])
    #expect(latency["p50"] == 1000)
    #expect(short["with_left_out_us"] as? [String: Double] == latency && short["left_out"] as? Int == 0)
    // They add up to the latency.
    #expect(
      short["spent_us"] as? [String: Double]
        == [
          "queue": 300, "cpu": 50, "reads": 200, "others": 30, "cpu_wait": 20, "locks": 10, "hops": 290,
          "reply": 100,
        ])
    #expect((short["latest_spent_us"] as? [String: Double])?["hops"] == 290)
    #expect(short["documents_per_s"] as? Double == 500 && short["merged_mb"] as? Double == 3)
    #expect(short["background_cpu_s"] as? Double == 0.25)
    #expect(short["background_read_mb"] as? Double == 8 && short["background_written_mb"] as? Double == 4)
    #expect(short["resident_mb"] as? Double == 64 && short["refused"] as? Int == 0)
    #expect(
      results[2]["request"] as? String == "heavy" && results[2]["lowered_after_us"] as? Double == 10_000)
  }

  // R-CARD-06: what a hypervisor does to a machine's disk says nothing of a contender; but an answer that
  // never came is always told, and so are the figures with all.
  @Test func requestsOfAStandstillAreLeftOut() throws {
    let ms: UInt64 = 1_000_000
    func short(_ intended: UInt64, _ answered: UInt64) -> ServeSample {
      ServeSample(kind: .short, question: 0, intended: intended, sent: intended, answered: answered)
    }
    let caught = [short(90 * ms, 101 * ms), short(150 * ms, 700 * ms), short(705 * ms, 706 * ms)]
    let others = [short(90 * ms, 99 * ms), short(711 * ms, 715 * ms)]
    let outcome = ServeOutcome(
      measured: 1..<1000 * ms, end: 1000 * ms, samples: caught + others + [short(600 * ms, 0)], slices: [],
      standstills: [100 * ms..<700 * ms, 800 * ms..<900 * ms], count: EngineCount(), resident: 0,
      isRealTime: true)
    #expect(caught.allSatisfy(outcome.isCaught) && !others.contains(where: outcome.isCaught))
    var tally = ServeTally(contender: "threads", load: .full)
    tally.count(outcome, rule: NoiseRule(), cores: 2, runStart: 0)
    let account = try #require(tally.accounts[.short])
    #expect(account.intendedFinish.count == 3 && account.unfinished == 1 && tally.unanswered == 1)
    let report = ServeReport(machine: .current(), noise: NoiseReport(), tallies: [tally], notes: [])
    let row = try #require(report.rows.first)
    #expect(row.leftOut == 3 && row.whole.samples == 6 && row.whole.unfinished == 1)
    let (latest, ofAll) = (try #require(row.latency.max), try #require(row.latencyOfAll.max))
    #expect(abs(latest - 400_000) < 1000 && abs(ofAll - 550_000) < 1000)
    let json = try ServeJSON.encode(report)
    #expect(json.contains("\"left_out\" : 3") && json.contains("\"with_left_out_us\""))
    #expect(ServeTable.render(report).contains("the same with those that are left out"))
    #expect(ServePage.render(report).contains("The same with those that are left out"))
    #expect(!ServeTable.render(self.report()).contains("those that are left out, us"))
    var noise = NoiseReport()
    noise.count(standstills: outcome.standstills)
    #expect(noise.standstills == 2 && noise.standstillSeconds == 0.7 && noise.standstillMax == 0.6)
    let footer = ReportTable.footer(noise, wasInterrupted: false).joined()
    #expect(footer.contains("the device stood still 2 times, 0.70 s in all, 0.60 s at most"))
    #expect(!ReportTable.footer(NoiseReport(), wasInterrupted: false).joined().contains("stood still"))
  }

  // R-CARD-06: one repeat that went otherwise is seen, which a pooled figure hides.
  @Test func eachRepeatIsTold() throws {
    let ms: UInt64 = 1_000_000
    var tally = ServeTally(contender: "threads", load: .full)
    for (latency, count) in [(4, 100), (1, 100), (2, 100), (9, 10)] as [(UInt64, Int)] {
      let samples = (0..<count).map { number in
        let intended = UInt64(number + 1) * ms
        return ServeSample(
          kind: .short, question: 0, intended: intended, sent: intended, answered: intended + latency * ms)
      }
      let outcome = ServeOutcome(
        measured: 1..<1000 * ms, end: 1000 * ms, samples: samples, slices: [], count: EngineCount(),
        resident: 0, isRealTime: true)
      tally.count(outcome, rule: NoiseRule(), cores: 2, runStart: 0)
    }
    let repeats = RepeatedPercentiles(tally.shortOfRepeats)
    #expect(repeats.p50.map { $0.map { Int(($0 / 1000).rounded()) } } == [4, 1, 2, nil])
    #expect(repeats.max.map { $0.map { Int(($0 / 1000).rounded()) } } == [4, 1, 2, 9])
    let report = ServeReport(machine: .current(), noise: NoiseReport(), tallies: [tally], notes: [])
    let json = try JSONSerialization.jsonObject(with: Data(try ServeJSON.encode(report).utf8))
    let results = try #require((json as? [String: Any])?["results"] as? [[String: Any]])
    let told = try #require(results[0]["repeats_us"] as? [String: [Any]])
    #expect(Set(told.keys) == ["p50", "p90", "p99", "p999", "max"])
    #expect(told.values.allSatisfy { $0.count == 4 })
    #expect(told["p99"]?.last is NSNull)
    // The median of the three that have one.
    #expect(repeats.cells[0].hasPrefix("2,0") && repeats.cells[0].contains("(1,0"), "\(repeats.cells)")
    #expect(ServeTable.render(report).contains("the same by repeat: median (least–most) over the repeats"))
    #expect(ServePage.render(report).contains("By repeat: median (least–most) over the repeats"))
    #expect(!ServeTable.render(self.report()).contains("by repeat"))
  }

  /// Where no answer came in time that counts, there is a row all the same, which says so.
  @Test func aRowOfNothingButLeftOutRequestsIsTold() throws {
    let sample = ServeSample(kind: .short, question: 0, intended: 20, sent: 20, answered: 90)
    let outcome = ServeOutcome(
      measured: 1..<1000, end: 1000, samples: [sample], slices: [], standstills: [10..<100],
      count: EngineCount(), resident: 0, isRealTime: true)
    var tally = ServeTally(contender: "threads", load: .full)
    tally.count(outcome, rule: NoiseRule(), cores: 2, runStart: 0)
    let report = ServeReport(machine: .current(), noise: NoiseReport(), tallies: [tally], notes: [])
    let row = try #require(report.rows.first)
    #expect(row.leftOut == 1 && row.latency.max == nil && row.latencyOfAll.max != nil)
  }

  /// It had something to do all the time, and ended nothing.
  @Test func aStandstillIsFound() {
    let ms: UInt64 = 1_000_000
    var finder = StandstillFinder()
    for time in stride(from: 0, through: 200, by: 5) as StrideThrough<UInt64> {
      finder.look(completed: time, inFlight: 3, at: time * ms)
    }
    for time in stride(from: 205, through: 400, by: 5) as StrideThrough<UInt64> {
      finder.look(completed: 200, inFlight: 3, at: time * ms)
    }
    #expect(finder.found.isEmpty, "it is not over")
    finder.look(completed: 203, inFlight: 0, at: 405 * ms)
    #expect(finder.found == [200 * ms..<405 * ms])
    // Nothing to do for long; then one that takes no longer than a flush may.
    finder.look(completed: 203, inFlight: 0, at: 900 * ms)
    finder.look(completed: 203, inFlight: 1, at: 905 * ms)
    finder.look(completed: 204, inFlight: 0, at: 945 * ms)
    #expect(finder.found.count == 1)
    finder.look(completed: 204, inFlight: 2, at: 950 * ms)
    finder.look(completed: 204, inFlight: 2, at: 1095 * ms)
    finder.end(at: 1100 * ms)
    #expect(finder.found.last == 945 * ms..<1100 * ms, "nor does the end of the run end it")
    finder.look(completed: 205, inFlight: 2, at: 1200 * ms)
    finder.look(completed: 206, inFlight: 2, at: 1500 * ms)
    #expect(finder.found.count == 2, "who looks was kept from it")
  }

  @Test func countersOfADeviceAreRead() throws {
    let text =
      "  101  2  3000  40  50  6  7000  8  9  100  110  12  0  0  0  13  14\n"
    let read = try #require(DeviceWatch.parse(text))
    #expect(read.completed == 101 + 50 + 12 + 13 && read.inFlight == 9)
    let old = try #require(DeviceWatch.parse("1 2 3 4 5 6 7 8 9 10 11"))
    #expect(old.completed == 6 && old.inFlight == 9)
    #expect(DeviceWatch.parse("1 2 3") == nil && DeviceWatch.parse("a 2 3 4 5 6 7 8 9 10 11") == nil)
  }

  @Test func aFolderInMemoryIsWatchedInVain() throws {
    for folder in ["/dev/shm", "/proc", "/nowhere"] { #expect(try DeviceWatch(folder: folder).stop() == []) }
    let watch = try DeviceWatch(folder: ".")
    #expect(watch.stop().allSatisfy { !$0.isEmpty })
  }

  /// One heavy request: a median of it would say as much as of hundreds.
  @Test func fewRequestsHaveNoPercentiles() throws {
    let json = try JSONSerialization.jsonObject(with: Data(try ServeJSON.encode(report()).utf8))
    let results = try #require((json as? [String: Any])?["results"] as? [[String: Any]])
    let heavy = try #require(results[2]["latency_us"] as? [String: Any])
    #expect(["p50", "p90", "p99", "p999"].allSatisfy { heavy[$0] is NSNull })
    #expect(heavy["max"] as? Double ?? 0 >= 500_000)
    let lines = ServeTable.render(report()).split(separator: "\n")
    #expect(
      lines.count { $0.hasPrefix("opportune ") && $0.split(separator: " ").count { $0 == "–" } == 4 } == 1)
    #expect(KnownPercentiles(TimeHistogram()).cells == Array(repeating: "–", count: 5))
    for (count, isKnown) in [(49, false), (50, true)] {
      var times = TimeHistogram()
      for _ in 0..<count { times.record(1000) }
      #expect((KnownPercentiles(times).p50 != nil) == isKnown && KnownPercentiles(times).max == 1)
    }
  }

  @Test func theTableAndThePageSayTheSame() {
    let report = report()
    let table = ServeTable.render(report)
    #expect(table.contains("full, short requests: intended keystroke to answer, us"))
    #expect(
      table.contains("background CPU s  background MB") && table.contains("            0.25             12"))
    #expect(table.contains("full, short requests: where the time went, mean us"))
    #expect(table.contains("a real-time class was not allowed"))
    let page = ServePage.render(report)
    #expect(page.contains("a &lt;note&gt;") && !page.contains("<note>"))
    #expect(page.contains("<polyline") && page.contains("class=\"bar c1\""))
    #expect(page.contains("CPU wait") && page.contains("latest 1 %"))
    #expect(page.contains("background CPU s") && page.contains("0.25"))
    #expect(page.hasSuffix("</html>\n"))
  }

  /// A target that holds since background does nothing is told from one that holds beside it.
  @Test func whatBackgroundHadIsTold() throws {
    let share = SchedulerStanding.Share(workers: 1, eighths: 2, cuts: 5, raises: 3)
    let report = report(standing: SchedulerStanding(share: share))
    let json = try JSONSerialization.jsonObject(with: Data(try ServeJSON.encode(report).utf8))
    let results = try #require((json as? [String: Any])?["results"] as? [[String: Any]])
    #expect(
      results[0]["background_share"] as? [[String: Int]]
        == [["workers": 1, "device_eighths": 2, "cuts": 5, "raises": 3]])
    #expect(results[1]["contender"] as? String == "threads" && results[1]["background_share"] == nil)
    let note = "opportune: background at the end of each repeat: workers 1, device 2/8, cuts 5, raises 3"
    #expect(ServeTable.render(report).contains(note) && ServePage.render(report).contains(note))
    let without = ServeTable.render(self.report(standing: SchedulerStanding()))
    #expect(!without.contains("at the end of each repeat"))
  }

  // R-CARD-06: a row of a contender that was refused what it is of says so.
  @Test(arguments: [
    (SchedulerStanding.Access.refused, "opportune: the real-time class was refused" as String?),
    (.realtimeKit, "opportune: in the real-time class were the I/O broker's threads alone"),
    (.roundRobin, nil),
  ])
  func whoWasInTheRealTimeClassIsTold(_ access: SchedulerStanding.Access, note: String?) throws {
    let report = report(standing: SchedulerStanding(realTime: access))
    let json = try JSONSerialization.jsonObject(with: Data(try ServeJSON.encode(report).utf8))
    let results = try #require((json as? [String: Any])?["results"] as? [[String: Any]])
    #expect(results[0]["real_time"] as? String == access.rawValue && results[1]["real_time"] == nil)
    let table = ServeTable.render(report)
    #expect(note.map { table.contains($0) } ?? !table.contains("opportune: "), "\(table)")
  }

  /// The least of all repeats counts.
  @Test func oneRepeatThatWasRefusedIsTold() {
    var tally = ServeTally(contender: "opportune-real-time", load: .full)
    #expect(tally.realTime == nil)
    tally.standings = [.refused, .roundRobin].map { SchedulerStanding(realTime: $0) }
    #expect(tally.realTime == .refused)
  }

  // R-CARD-06: a run can be made again from what its JSON says.
  @Test func whatTheRunWasOfIsTold() throws {
    var report = report()
    #expect(try !ServeJSON.encode(report).contains("\"version\""))
    report.options = try ServeOptions(
      contenders: ["threads"], loads: ["full"], seconds: 4, repeats: 2, connections: 3, heavy: 2,
      files: "cached", sockets: "tcp", trees: ["."],
      version: "opportune 1.2.3 (release build, commit 0123abc)")
    let json = try JSONSerialization.jsonObject(with: Data(try ServeJSON.encode(report).utf8))
    let document = try #require(json as? [String: Any])
    #expect(document["version"] as? String == "opportune 1.2.3 (release build, commit 0123abc)")
    let options = try #require(document["options"] as? [String: Any])
    #expect(options["contenders"] as? [String] == ["threads"] && options["loads"] as? [String] == ["full"])
    #expect(options["seconds"] as? Double == 4 && options["repeats"] as? Int == 2)
    #expect(options["connections"] as? Int == 3 && options["heavy"] as? Int == 2)
    #expect(options["sockets"] as? String == "tcp")
    #expect(options["files"] as? String == "cached" && options["trees"] as? [String] == ["."])
    #expect(options["folder"] as? String == "/var/tmp" && document["machine"] != nil)
  }

  @Test func whatAServerTellsIsReadAsItWasWritten() {
    let share = SchedulerStanding.Share(workers: 2, eighths: 8, cuts: 1, raises: 4)
    let standings = [nil, SchedulerStanding(), SchedulerStanding(share: share)]
    let asked = SchedulerStanding.Access.allCases.map { SchedulerStanding(share: share, realTime: $0) }
    for standing in standings + asked {
      let told = ServerStatistics(count: EngineCount(), standing: standing)
      #expect(ServerStatistics(told.encoded) == told)
      #expect(ServerStatistics(told.encoded + [0]) == nil)
    }
    #expect(ServerStatistics([1]) == nil)
    #expect(SchedulerStanding([9, 0, 0, 0, 0, 0]) == nil)
  }

  @Test func countersAreDifferencesAndSums() {
    var (one, two) = (EngineCount(), EngineCount())
    (one.documents, one.time, two.documents, two.time) = (3, 100, 10, 400)
    #expect(EngineCount(two.encoded) == two && EngineCount([1, 2]) == nil)
    #expect(two.since(one).documents == 7 && two.since(one).time == 300)
    #expect(two.adding(one).documents == 13)
  }
}
