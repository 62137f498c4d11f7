import Foundation
import OpportuneFuzz
import Synchronization
import TestSupport
import Testing

@Suite(.bounded) struct FuzzTests {
  // R-CARD-09
  @Test(arguments: ["canary", "canary-sleep", "canary-old", "canary-stopped"])
  func plantedBugIsFound(name: String) throws {
    let target = try QueueTarget.named(name)
    let report = try FuzzRun(targets: [target], seconds: 60, seed: 1, threads: 1).run()
    let finding = try #require(report.findings.first)
    let replay = try Explorer().replay(finding.example)
    #expect(replay.finding?.message == finding.message && replay.misfit == nil)
    #expect(finding.timeline.contains("FAILS"))
  }

  @Test func selfCheckFindsEveryCanary() throws {
    let results = try SelfCheck.run(of: QueueTarget.all, seed: 3)
    #expect(results.map(\.target) == QueueTarget.all.filter(\.isHidden).map(\.name))
    #expect(!results.isEmpty)
  }

  @Test func reportIsEncodedWithItsFinding() throws {
    let target = try QueueTarget.named("canary")
    let report = try FuzzRun(targets: [target], seconds: 60, seed: 9, threads: 2).run()
    let document = try #require(
      JSONSerialization.jsonObject(with: JSONEncoder().encode(report)) as? [String: Any])
    #expect(document["seed"] as? Int == 9)
    #expect((document["targets"] as? [Any])?.count == 1)
    #expect(
      ((document["findings"] as? [[String: Any]])?.first?["example"] as? String)?
        .contains("target: canary") == true)
  }

  // R-CARD-09
  @Test func aFailureEndsItsTargetAlone() throws {
    let names = ["canary", "canary-sleep", "table"]
    let targets = try names.map { try QueueTarget.named($0) }
    var run = FuzzRun(targets: targets, seconds: 60, seed: 1, threads: 1)
    let found = Mutex(0)
    run.isInterrupted = { found.withLock { $0 } == 2 }
    run.found = { _ in found.withLock { $0 += 1 } }
    let report = try run.run()
    #expect(report.findings.map(\.target) == Array(names.prefix(2)))
    #expect(report.outcomes.count == 2 && report.wasInterrupted)
  }

  @Test func asManyThreadsFuzzAtOnceAsAreAskedFor() throws {
    let meeting = Meeting(of: 4 * ProcessInfo.processInfo.activeProcessorCount + 70)
    let report = try FuzzRun(
      targets: [meeting], seconds: 20, seed: 1, threads: meeting.wanted, isInterrupted: { meeting.isComplete }
    ).run()
    #expect(meeting.isComplete)
    #expect(report.outcomes.map(\.executions) == [UInt64(meeting.wanted)])
  }

  @Test func edgesAreCountedOfEachTargetAlone() throws {
    let targets = [try QueueTarget.named("runq"), try QueueTarget.named("table")]
    let report = try FuzzRun(targets: targets, seconds: 0.5, seed: 1, threads: 1).run()
    let covered = report.outcomes.map(\.edgesCovered)
    #expect(covered.count == 2 && covered[1] > 0 && covered[1] < covered[0], "\(covered)")
  }

  @Test func runStopsWhenToldTo() throws {
    let targets = QueueTarget.all.filter { !$0.isHidden }
    let report = try FuzzRun(targets: targets, seconds: 3600, seed: 1, threads: 1, isInterrupted: { true })
      .run()
    #expect(report.wasInterrupted && report.outcomes.count == 1)
  }

  // R-CARD-09
  @Test(arguments: QueueTarget.all.filter { !$0.isHidden }.map(\.name))
  func nothingIsFoundInTheFirstExecutions(name: String) throws {
    let explorer = try Explorer()
    let target = try QueueTarget.named(name)
    let (figures, failed) = explorer.fuzz(target, seed: 1, milliseconds: 600_000, executions: 2000)
    if failed { Issue.record("\(explorer.shrunkFinding(of: target, milliseconds: 5000).timeline)") }
    #expect(figures.executions == 2000)
    #expect((100...2000).contains(figures.states))
  }

  @Test func executionsDependOnTheirSeedAlone() throws {
    let target = try QueueTarget.named("runq")
    let first = try Explorer().fuzz(target, seed: 7, milliseconds: 600_000, executions: 50).figures
    let explorer = try Explorer()
    let half = explorer.fuzz(target, seed: 7, milliseconds: 600_000, executions: 20).figures
    let rest = explorer.fuzz(target, seed: 7, first: 20, milliseconds: 600_000, executions: 30).figures
    #expect(half.steps + rest.steps == first.steps)
    let next = explorer.fuzz(target, seed: 8, milliseconds: 600_000, executions: 49).figures
    let shifted = explorer.fuzz(target, seed: 7, first: 1, milliseconds: 600_000, executions: 49).figures
    #expect(next.steps != shifted.steps, "neighbouring seeds have executions in common")
  }

  @Test func shrinkingLeavesFewOperations() throws {
    let explorer = try Explorer()
    let target = try QueueTarget.named("canary-sleep")
    let (_, failed) = explorer.fuzz(target, seed: 1, milliseconds: 600_000)
    #expect(failed)
    let finding = explorer.shrunkFinding(of: target, milliseconds: 60_000)
    let program = try #require(finding.example.split(separator: "\n").first { $0.hasPrefix("program:") })
    // The least that shows it: one thread that looks and one that pushes. Threads keep their numbers.
    let threads = program.dropFirst("program:".count).split(separator: "|").filter {
      $0.contains { $0 != " " }
    }
    #expect(threads.map { $0.filter { $0 != " " } } == ["pop_all", "push"], "\(program)")
  }
}

/// Whose every execution waits until so many of them go on.
private final class Meeting: FuzzTarget, Fuzzer {
  let (name, summary, isHidden) = ("meeting", "so many meet", false)
  let wanted: Int
  var isComplete: Bool { count.withLock { $0 } >= wanted }
  private let count = Mutex(0)
  private let come = DispatchSemaphore(value: 0)

  init(of wanted: Int) { self.wanted = wanted }

  func makeFuzzer() throws(FuzzError) -> any Fuzzer { self }

  func fuzz(
    seed: UInt64, first: UInt64, milliseconds: UInt64, executions: UInt64
  ) -> (figures: FuzzFigures, failed: Bool) {
    let isLast = count.withLock { count in
      count += 1
      return count == wanted
    }
    if isLast { for _ in 1..<wanted { come.signal() } } else { _ = come.wait(timeout: .now() + 20) }
    var figures = FuzzFigures()
    figures.executions = 1
    return (figures, false)
  }

  func shrunkFinding(milliseconds: UInt64) -> Finding { preconditionFailure("nothing fails") }
  func replay(_ example: String) throws(FuzzError) -> ExampleRun { preconditionFailure("nothing fails") }
}

/// Failures of the past, which must not come back, and canaries, which must: each file in Examples. That
/// those of mutants still find them `scripts/mutants` tells.
@Suite(.bounded) struct ExampleTests {
  static let examples = exampleFiles(of: .module)

  @Test func thereAreExamples() { #expect(!Self.examples.isEmpty) }

  // R-CARD-09
  @Test(arguments: examples)
  func exampleIsMendedAndItsScheduleFits(path: String) throws {
    let text = try String(contentsOfFile: path, encoding: .utf8)
    let replay = try Explorer().replay(text)
    #expect((replay.finding != nil) == text.contains("target: canary"), "\(replay.timeline)")
    // Where the bug allowed a choice that the mended code does not leave, the example says so.
    let parts = text.split(separator: "\n").first {
      $0.hasPrefix("# It parts from the mended code at choice ")
    }
    let misfit = replay.misfit?.split(separator: " ").last
    #expect(misfit == parts?.split(separator: " ").last, "\(replay.misfit ?? "it fits")")
  }

  // R-CARD-09
  @Test func aRaceNamesItsObjectAndBothAccesses() throws {
    let example = try #require(Self.examples.first { $0.hasSuffix("/canary.example") })
    let timeline = try Explorer().replay(String(contentsOfFile: example, encoding: .utf8)).timeline
    let told = timeline.split(separator: "\n").suffix(3).map(String.init)
    let object = #/^The object is 24 bytes that (thread \d) allocated /#
    let thread = try #require(told.first?.firstMatch(of: object)?.1)
    #expect(told.dropFirst().first?.hasPrefix("  \(thread) writes ") == true, "\(timeline)")
    #expect(told.last?.contains(#/^  thread 1 reads 8 bytes from byte \d+,? /#) == true, "\(timeline)")
  }

  // R-CARD-09
  @Test func aScheduleThatNoLongerFitsIsSaid() throws {
    let example = "target: queue\nprogram: push | take\nbounds: 255 255 0 255\nchoices:"
    #expect(try Explorer().replay(example + " -3\n").misfit == nil)
    #expect(
      try Explorer().replay(example + " 0 7\n").misfit?.hasSuffix(" 2") == true, "there are two threads")
    let left = try Explorer().replay(example + " -8000\n")
    #expect(left.misfit != nil && left.finding == nil && left.timeline.contains("[take]"), "\(left.timeline)")
  }

  @Test(arguments: [
    ("", "there is no line 'target"), ("target: nobody\n", "'nobody' is not a target"),
    ("target: queue\n", "there is no line 'program"),
    ("target: queue\nprogram: leap\n", "no such operation at 'leap'"),
    ("target: queue\nprogram: push\n", "there is no line 'bounds"),
    ("target: runq\nprogram: push 9 0\n", "the number is too large at '9 0'"),
    ("target: queue\nprogram: push\nbounds: 1 1 1\nchoices: -9000000\n", "there are more than 8192"),
    ("target: queue\nprogram: push\nbounds: 1 1 1\nchoices: 0 x\n", "a choice is a number, not ' x'"),
  ])
  func badExampleIsRefused(text: String, reason: String) throws {
    let error = #expect(throws: FuzzError.self) { _ = try Explorer().replay(text) }
    #expect(error?.description.contains(reason) == true, "\(error?.description ?? "")")
  }
}
