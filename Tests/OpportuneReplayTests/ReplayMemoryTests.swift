import Foundation
import Opportune
import OpportuneReplay
import TestSupport
import Testing

@Suite(.bounded) struct ReplayMemoryTests {
  private func trace(_ name: String = "android-app-usage") throws -> Trace {
    try TraceReader.read(
      #require(Bundle.module.url(forResource: "Fixtures/\(name)", withExtension: "db")).path)
  }

  private func short(_ apps: UInt64, of bytes: UInt64 = 64 << 20) -> ReplayOptions {
    var options = ReplayOptions()
    options.footprint = bytes
    options.memory = apps * bytes
    return options
  }

  // R-MEM-01
  @Test func shortMemoryMakesColdStarts() throws {
    let ample = try Replay.run(trace())
    let short = try Replay.run(trace(), short(4))
    #expect((short.switches[.cold] ?? 0) > (ample.switches[.cold] ?? 0))
    #expect(ample.removals.isEmpty && ample.kills["removed"] == nil && !ample.text().contains("memory:"))
    #expect(
      short.kills["removed"] == short.removals.count && short.removals.allSatisfy { $0.method == .terminate })
    #expect(short.kills["terminated"] == ample.kills["terminated"])
  }

  // R-MEM-04, R-MEM-10
  @Test func smallAppsAreHibernatedAndComeBack() throws {
    let report = try Replay.run(trace(), short(4, of: 8 << 20))
    #expect(report.removals.contains { $0.method == .hibernate } && (report.switches[.hibernated] ?? 0) > 0)
  }

  // R-MEM-09
  @Test func aReplayChoosesAsTheComparisonDoes() throws {
    let trace = try trace()
    let comparison = try PolicyComparison(trace, [.lru, .largest], table: .ios, seed: 1)
    var options = ReplayOptions()
    options.memory = comparison.budgets.last
    options.sizes = Dictionary(
      uniqueKeysWithValues: try Replay.run(trace).apps.map { ($0, FootprintTable.ios.draw($0, seed: 1)) })
    #expect(!comparison.outcomes[0].removals.isEmpty)
    #expect(try Replay.run(trace, options).removals == comparison.outcomes[0].removals)
    options.removal = NamedPolicy.largest.policy
    #expect(try Replay.run(trace, options).removals == comparison.outcomes[1].removals)
  }

  // R-MEM-09
  @Test func whoeverAPolicyMeansThatIsNotThereIsNotRemoved() throws {
    struct Elsewhere: RemovalChoosing {
      func choose(_ candidates: [RemovalCandidate], excess: UInt64, reading: MemoryReading) -> Removal? {
        Removal(app: 1_000_000, method: .terminate, reason: "it was so")
      }
      func overdue(_ candidates: [RemovalCandidate]) -> [Removal] { [] }
    }
    var options = short(2)
    options.removal = Elsewhere()
    #expect(try Replay.run(trace(), options).removals.isEmpty)
  }

  // R-MEM-04, R-MEM-09
  @Test func whoComesBackWithoutTheFrontIsReanimatedToo() throws {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("a")), (60, .left("a")), (60, .front("b")), (120, .left("b")), (120, .front("c")),
      // a is hibernated, comes back as it is told something, and is hibernated again, since b was in front
      // later.
      (1000, .notification("a")), (2000, .left("c")), (2000, .front("d")), (3000, .left("d")),
      (3000, .front("a")),
    ]
    var options = short(3, of: 8 << 20)
    options.criticalPoint = .nineTenths
    let report = try Replay.run(trace, options)
    let names = report.removals.map(\.app)
    #expect(names.count { $0 == "a" } == 2 && report.removals.allSatisfy { $0.method == .hibernate })
    #expect(report.switches[.hibernated] == 1 && report.reanimations == 2)
    #expect(report.text().contains("\(names.count) hibernated, 2 reanimated\n"))
    #expect(try report.json().contains("\"reanimations\":2,"))
    let comparison = try PolicyComparison(
      trace, [.lru, .terminate], table: .ios, seed: 1, budget: 10 << 20, options: options)
    for outcome in comparison.outcomes {
      var options = options
      (options.memory, options.removal) = (10 << 20, outcome.policy.policy)
      options.sizes = Dictionary(
        uniqueKeysWithValues: "abcd".map { ("\($0)", FootprintTable.ios.draw("\($0)", seed: 1)) })
      let report = try Replay.run(trace, options)
      #expect(outcome.reanimations == report.reanimations)
      #expect(outcome.frontReanimations == report.switches[.hibernated] ?? 0)
    }
    #expect(comparison.text().contains("reanimations  to the front  cold starts"))
  }

  // R-MEM-09
  @Test func whoWasNeverInFrontIsNotSaidToHaveBeenThereLongestAgo() throws {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("a")), (60, .left("a")), (100, .notification("m")), (200, .front("b")), (260, .left("b")),
      (300, .front("c")), (400, .left("c")), (500, .front("d")), (600, .left("d")), (700, .front("e")),
    ]
    var options = short(3, of: 8 << 20)
    options.criticalPoint = .nineTenths
    options.removal = NamedPolicy.plain.policy
    let removals = try Replay.run(trace, options).removals
    // In the order in which they were in front last, or launched if they never were.
    #expect(removals.map(\.app) == ["a", "m", "b", "c"])
    #expect(removals.map { $0.reason.contains("in front longest ago") } == [true, false, true, true])
    #expect(
      removals.map { $0.reason.contains("unused longest, and never in front") } == [
        false, true, false, false,
      ])
  }

  // R-MEM-01
  @Test func memoryIsLookedAfterBetweenWhatIsRecorded() throws {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("a")), (60, .left("a")), (60, .front("b")), (120, .left("b")), (120, .front("c")),
      (100_000, .left("c")),
    ]
    var options = short(3, of: 8 << 20)
    options.criticalPoint = .nineTenths
    options.manifestRules = [(pattern: "a", modes: [.fetch])]
    let report = try Replay.run(trace, options)
    // The first fetch brings back who was hibernated, so another goes, and not only at the next entry of the
    // recording.
    #expect(report.removals.prefix(2).map(\.app) == ["a", "b"])
    #expect(report.removals.map(\.at).dropFirst().first.map { (900...2000).contains($0) } == true)
  }

  // R-MEM-15
  @Test func whatIsRecordedOfSizesComesBeforeAllElse() throws {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("a")), (10, .footprint("a", 3_000_000)), (60, .left("a")), (60, .front("b")),
      (70, .footprint("a", 5_000_000)), (120, .left("b")), (120, .front("c")), (180, .left("c")),
      (180, .front("a")),
    ]
    var options = ReplayOptions()
    options.footprint = 20_000_000
    options.sizes = ["a": 1]
    options.memory = 49_000_000
    options.criticalPoint = .nineTenths
    options.removal = NamedPolicy.terminate.policy
    // Of 5, 20 and 20 MB the first goes as the third comes; another for its return, with the size it had.
    #expect(try Replay.run(trace, options).removals.map(\.bytes) == [5_000_000, 20_000_000])
    trace.inputs.append((240, .footprint("b", 6_000_000)))
    #expect(try Replay.run(trace, options).removals.isEmpty)
    func comparison(_ trace: Trace) throws -> PolicyComparison {
      try PolicyComparison(trace, [.lru], table: .ios, seed: 1, budget: 1 << 30)
    }
    let some = try comparison(trace)
    #expect(some.sizesRecorded == 2 && some.footprint == 11_000_000 + FootprintTable.ios.draw("c", seed: 1))
    #expect(
      some.text().contains("sizes of 2 apps are recorded, those of the others synthetic: drawn with seed 1"))
    trace.inputs.append((250, .footprint("c", 4_000_000)))
    let all = try comparison(trace)
    #expect(all.footprint == 15_000_000 && all.text().contains("sizes are as recorded\n"))
    #expect(try all.json().contains("\"sizesAreSynthetic\":false"))
  }

  // R-MEM-02, R-MEM-03
  @Test func theCriticalPointDecidesHowManyAppsFit() throws {
    var trace = Trace(format: "test")
    trace.inputs = [
      (0, .front("music")), (60, .left("music")), (60, .front("mail")), (3660, .left("mail")),
      (3660, .front("music")),
    ]
    // Two of three: from exactly the point on.
    for (point, isShort) in [(0.66, true), (2.0 / 3, true), (0.67, false)] {
      var options = short(3)
      options.criticalPoint = try CriticalPoint(share: point)
      let report = try Replay.run(trace, options)
      #expect(report.switches[.cold] == (isShort ? 3 : 2) && report.removals.isEmpty != isShort)
    }
  }

  // R-MEM-09
  @Test func everyRemovalSaysWhy() throws {
    let report = try Replay.run(trace(), short(4))
    let (first, last) = (try #require(report.removals.first), try #require(report.removals.last))
    #expect(report.removals.count > 10)
    #expect(
      report.removals.allSatisfy { $0.reason.hasPrefix("\($0.app) was terminated, ") && $0.bytes == 64 << 20 }
    )
    #expect(report.removals.allSatisfy { $0.reason.contains("because") && $0.reason.hasSuffix(".") })
    let text = report.text()
    #expect(
      text.contains("apps are removed from 75 % of it on; \(report.removals.count) terminated, 0 hibernated"))
    #expect(text.components(separatedBy: ", because ").count - 1 == 10)
    #expect(
      text.contains(first.reason) && text.contains("… \(report.removals.count - 10) more; --json has all"))
    struct Document: Decodable {
      let removals: [ReplayRemoval]
      let memory: UInt64
    }
    let document = try JSONDecoder().decode(Document.self, from: Data(report.json().utf8))
    #expect(document.removals == report.removals && document.memory == 256 << 20)
    #expect(try report.traceEvents().contains(last.reason))
    let page = report.page(title: "t")
    #expect(
      page.components(separatedBy: "<td>\(last.app) was").count > 1
        && page.contains("<td>\(last.reason)</td>"))
    #expect(page.contains("class=\"removal\"") && page.contains("\(first.reason)</title>"))
    #expect(try !Replay.run(trace()).page(title: "t").contains("Why each app"))
  }

  // R-MEM-09
  @Test func theComparisonSaysWhyOfEachPolicy() throws {
    let comparison = try PolicyComparison(trace(), [.lru, .terminate], table: .ios, seed: 1)
    let (text, page) = (comparison.text(), comparison.page(title: "a <b>"))
    #expect(text.components(separatedBy: ", because ").count - 1 == 2 * 5)
    #expect(page.contains("<h1>a &lt;b&gt;</h1>") && !page.contains("<script"))
    for outcome in comparison.outcomes {
      #expect(outcome.removals.count > 5)
      #expect(outcome.removals.prefix(5).allSatisfy { text.contains("\($0.reason)\n") })
      #expect(text.contains("… \(outcome.removals.count - 5) more; --json has all"))
      #expect(outcome.removals.allSatisfy { page.contains("<td>\($0.reason)</td>") })
      #expect(
        page.contains("<th scope=row>\(outcome.policy.rawValue)</th><td class=n>\(outcome.kills)</td>"))
    }
    let none = try PolicyComparison(trace("ios-screen-time"), [.lru], table: .ios, seed: 1).page(title: "t")
    #expect(none.contains("nothing to compare") && !none.contains("<table>"))
  }
}
