import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct ReplayPolicyCommandTests {
  private func refusal(_ arguments: String...) throws -> String {
    let error = #expect(throws: (any Error).self, "\(arguments)") {
      try ReplayCommand.parse(["trace.db"] + arguments).run()
    }
    return ReplayCommand.message(for: try #require(error))
  }

  @Test func wrongPoliciesAreRefusedWithWhatWasExpected() throws {
    #expect(try refusal("--policy", "lru,fifo").contains("'fifo' is not known; expected lru, plain, largest"))
    #expect(try refusal("--policy", "lru,lru").contains("given twice"))
    #expect(try refusal("--policy", ",").contains("'' is not known; expected lru"))
    #expect(
      try refusal("--policy", "lru", "--sizes", "desk").contains("'desk' is not known; expected ios, android")
    )
    #expect(
      try refusal("--policy", "lru", "--trace-events", "x").contains(
        "--trace-events does not go with --policy"))
    #expect(try refusal("--seed", "2").contains("--seed does not go without --policy"))
    #expect(try refusal("--policy", "lru").contains("'trace.db' cannot be read"))
  }

  @Test func helpNamesEveryPolicy() {
    let help = ReplayCommand.helpMessage(columns: 200)
    for name in ["lru", "plain", "largest", "longest", "terminate"] { #expect(help.contains("  \(name): ")) }
  }

  // R-MEM-09
  @Test func aPageGoesWithAComparisonToo() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("replay-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let page = folder.appendingPathComponent("page.html")
    try ReplayCommand.parse([recording, "--policy", "lru,largest", "--html", page.path]).run()
    #expect(
      try String(contentsOf: page, encoding: .utf8).contains("Policies of removal on android-app-usage.db"))
    try ReplayCommand.parse([recording, "--memory", "256M", "--html", page.path]).run()
    #expect(try String(contentsOf: page, encoding: .utf8).contains("Why each app was removed"))
    let error = try #require(
      #expect(throws: OutputFailure.self) {
        try ReplayCommand.parse([recording, "--policy", "lru", "--html", "/nonexistent/page.html"]).run()
      })
    #expect(error.description.contains("/nonexistent/page.html"))
  }

  private var recording: String {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    return tests.appendingPathComponent("OpportuneReplayTests/Fixtures/android-app-usage.db").path
  }
}
