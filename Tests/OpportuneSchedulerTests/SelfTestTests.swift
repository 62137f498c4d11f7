import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded, .timeLimit(.minutes(3))) struct SelfTestTests {
  // R-CPU-01 R-CPU-06 R-FTS-09
  @Test func aSchedulerDoesHereWhatTheDiagnosisSays() async {
    // Its hook is the whole process's: in a process of its own.
    await #expect(processExitsWith: .exitCode(7)) {
      let result = await SelfTest.run(SchedulerConfiguration())
      let findings = result.findings(hasHook: true)
      guard result.failure == nil, findings.map(\.subject) == ["Pools", "Demotion", "Suspension", "Escapes"]
      else {
        _exit(1)
      }
      for (number, finding) in findings.enumerated() where finding.status != .ok { _exit(Int32(number) + 10) }
      let diagnosis = await Diagnosis.runWithSelfTest()
      let text = diagnosis.text()
      guard text.contains("Self-test"), text.contains("3 tasks left an app"),
        diagnosis.findings.last?.status == .ok
      else { _exit(2) }
      exit(7)
    }
  }

  private let fine = SelfTest.Result(
    failure: nil, foregroundIsAsSaid: true, backgroundIsAsSaid: true, demotions: 3, suspensionHeld: true,
    escapes: 3)

  struct Case: Sendable, CustomTestStringConvertible {
    let subject: String
    let status: Diagnosis.Status
    let change: @Sendable (inout SelfTest.Result) -> Void
    var testDescription: String { subject }
  }

  @Test(arguments: [
    Case(subject: "Pools", status: .degraded) { $0.foregroundIsAsSaid = false },
    Case(subject: "Pools", status: .degraded) { $0.backgroundIsAsSaid = false },
    Case(subject: "Pools", status: .missing) { $0.backgroundIsAsSaid = nil },
    Case(subject: "Demotion", status: .degraded) { $0.demotions = 0 },
    Case(subject: "Suspension", status: .missing) { $0.suspensionHeld = false },
    Case(subject: "Escapes", status: .degraded) { $0.escapes = 2 },
  ])
  func whatFailsIsSaidWithItsCost(_ one: Case) throws {
    #expect(fine.findings(hasHook: true).allSatisfy { $0.status == .ok && $0.cost == nil })
    var result = fine
    one.change(&result)
    let wrong = result.findings(hasHook: true).filter { $0.status != .ok }
    #expect(wrong.map(\.subject) == [one.subject] && wrong.map(\.status) == [one.status])
    #expect(wrong.allSatisfy { $0.cost != nil })
  }

  @Test func whatCannotBeTriedIsSaidToo() {
    #expect(fine.findings(hasHook: false).map(\.subject) == ["Pools", "Demotion", "Suspension"])
    var failed = fine
    failed.failure = "threadsUnavailable: no thread"
    let findings = failed.findings(hasHook: true)
    #expect(
      findings.map(\.status) == [.missing] && findings.map(\.found) == ["threadsUnavailable: no thread"])
  }

  @Test func aSchedulerThatCannotBeMadeIsAFinding() async {
    var configuration = SchedulerConfiguration()
    configuration.demotedLimitPerCore = 0
    #expect(await SelfTest.run(configuration).failure?.contains("demotedLimitPerCore") == true)
  }
}
