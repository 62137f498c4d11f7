import Foundation
import OpportuneBase
import OpportuneFuzz
import OpportuneHost
import Synchronization
import TestSupport
import Testing

@testable import OpportuneProperties

@Suite(.bounded) struct PropertyTests {
  // R-CARD-09
  @Test(arguments: FuzzTargets.properties.filter { !$0.isHidden }.map(\.name))
  func nothingIsFoundInTheFirstExecutions(name: String) async throws {
    let finding = try await onOwnThread { () -> Finding? in
      let fuzzer = try FuzzTargets.properties.named(name).makeFuzzer()
      let (figures, failed) = fuzzer.fuzz(seed: 1, milliseconds: 3000, executions: 500)
      #expect(figures.executions > 0 && figures.steps > 0)
      return failed ? fuzzer.shrunkFinding(milliseconds: 5000) : nil
    }
    #expect(finding == nil, "\(finding?.timeline ?? "")\n\(finding?.example ?? "")")
  }

  // R-CARD-09
  @Test func eachTargetIsFoundByItsName() {
    let names = FuzzTargets.all.map(\.name)
    for name in Set(names) { #expect(names.count { $0 == name } == 1, "\(name)") }
  }

  /// A key that is added to requests is to be added to the target as well.
  // R-CARD-09
  @Test func everyKeyOfARequestIsMade() throws {
    var generator = SplitMix64(seed: 1)
    var made: Set<String> = []
    for _ in 0..<2000 {
      var bytes = ByteSource(generator.bytes(40))
      let line = HostRequestProperty.Made(&bytes).line
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
      made.formUnion(try #require(object as? [String: Any], "\(line)").keys)
    }
    let keys = Mirror(reflecting: HostRequest(.apps)).children.compactMap(\.label)
    #expect(made.subtracting(["later"]) == Set(keys))
  }

  // R-CARD-09
  @Test func thePlantedBugIsFoundShrunkAndReplayed() throws {
    let target = try FuzzTargets.all.named("canary-io-scheduler")
    let report = try FuzzRun(targets: [target], seconds: 60, seed: 1, threads: 2).run()
    let finding = try #require(report.findings.first)
    #expect(finding.message.contains("cancelling"))
    // The policy, what was submitted to reach the number, a cancellation.
    #expect(finding.timeline.split(separator: "\n").count <= 8, "\(finding.timeline)")
    #expect(try FuzzTargets.all.replay(finding.example).finding?.message == finding.message)
    let json = String(decoding: try JSONEncoder().encode(report), as: UTF8.self)
    #expect(json.contains("target: canary-io-scheduler"))
  }

  @Test func executionsDependOnTheirSeedAlone() throws {
    let target = try FuzzTargets.all.named("lifecycle")
    let first = try target.makeFuzzer().fuzz(seed: 7, milliseconds: 600_000, executions: 20).figures
    let half = try target.makeFuzzer().fuzz(seed: 7, milliseconds: 600_000, executions: 8).figures
    let rest = try target.makeFuzzer().fuzz(seed: 7, first: 8, milliseconds: 600_000, executions: 12).figures
    #expect(half.steps + rest.steps == first.steps)
    let next = try target.makeFuzzer().fuzz(seed: 8, milliseconds: 600_000, executions: 19).figures
    let shifted = try target.makeFuzzer().fuzz(seed: 7, first: 1, milliseconds: 600_000, executions: 19)
      .figures
    #expect(next.steps != shifted.steps, "neighbouring seeds have executions in common")
  }

  // R-CARD-09
  @Test func aTrapIsAFindingAndNoEnd() throws {
    let fuzzer = try PropertyTarget(Trapping()).makeFuzzer()
    let (figures, failed) = fuzzer.fuzz(seed: 2, milliseconds: 60_000, executions: 0)
    #expect(failed && figures.executions > 1)
    let finding = fuzzer.shrunkFinding(milliseconds: 30_000)
    #expect(finding.message.contains("traps") && finding.timeline.contains("the 7"), "\(finding.message)")
    #expect(finding.example.contains("input: 07\n"))
    #expect(try fuzzer.replay(finding.example).finding == finding)
    let passing = try fuzzer.replay("target: trapping\ninput: 0009\n")
    #expect(passing.finding == nil && passing.timeline.contains("the 9"), "\(passing.timeline)")
  }

  // R-CARD-09
  @Test func aFailureThatDoesNotComeAgainIsShownAsItWasSeen() throws {
    let property = Passing()
    let fuzzer = try PropertyTarget(property).makeFuzzer()
    #expect(fuzzer.fuzz(seed: 1, milliseconds: 60_000, executions: 0).failed)
    let finding = fuzzer.shrunkFinding(milliseconds: 30_000)
    #expect(finding.message == "it was the third (it does not fail again: it depends on more than its input)")
    #expect(
      finding.timeline.contains("number 3") && !finding.timeline.contains("number 2"), "\(finding.timeline)")
    #expect(property.count.withLock { $0 } > 2 * property.tries)
  }

  @Test(arguments: [
    ("", "there is no line 'target"), ("target: nobody\n", "'nobody' is not a target"),
    ("target: store\n", "there is no line 'input"), ("target: store\ninput: 0\n", "half a byte"),
    ("target: store\ninput: 0g\n", "two hexadecimal digits"),
  ])
  func badExampleIsRefused(text: String, reason: String) throws {
    let error = #expect(throws: FuzzError.self) { _ = try FuzzTargets.all.replay(text) }
    #expect(error?.description.contains(reason) == true, "\(error?.description ?? "")")
  }

  /// Fails the third time, and never again.
  private final class Passing: DrawnProperty {
    let name = "passing"
    let summary = "it is not the third time"
    let grain = 1
    let tries = 5
    let count = Mutex(0)
    func draw(_ generator: inout SplitMix64) -> [UInt8] { generator.bytes(2) }
    func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
      let number = count.withLock { count in
        count += 1
        return count
      }
      log.note("number \(number)")
      if number == 3 { throw Violation("it was the third") }
    }
  }

  /// An index that is out of range, as of a parser that trusts what it reads.
  private struct Trapping: DrawnProperty {
    let name = "trapping"
    let summary = "a byte is not 7"
    let grain = 1
    func draw(_ generator: inout SplitMix64) -> [UInt8] { generator.bytes(12) }
    func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
      let known = [1, 2, 3]
      for byte in input {
        log.note("the \(byte)")
        if byte == 7, known[input.count + 3] == 0 { throw Violation("unreachable") }
      }
    }
  }
}

/// Failures of the past, which must not come back: each file in Examples.
@Suite(.bounded) struct PropertyExampleTests {
  static let examples = exampleFiles(of: .module)

  @Test func thereAreExamples() { #expect(!Self.examples.isEmpty) }

  // R-CARD-09
  @Test(arguments: examples)
  func exampleIsMended(path: String) throws {
    let finding = try FuzzTargets.all.replay(String(contentsOfFile: path, encoding: .utf8)).finding
    #expect(finding == nil, "\(finding?.timeline ?? "")")
  }
}
