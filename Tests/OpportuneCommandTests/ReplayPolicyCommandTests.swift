import ArgumentParser
import Foundation
import Testing

@testable import OpportuneCommand

@Suite struct ReplayPolicyCommandTests {
  private func refusal(_ arguments: String...) throws -> String {
    let error = #expect(throws: (any Error).self, "\(arguments)") {
      let command = try ReplayCommand.parse(["trace.db"] + arguments)
      _ = try command.comparison(of: command.policies())
    }
    return ReplayCommand.message(for: try #require(error))
  }

  @Test func wrongPoliciesAreRefusedWithWhatWasExpected() throws {
    #expect(try refusal("--policy", "lru,fifo").contains("'fifo' is not known; expected lru, plain, largest"))
    #expect(try refusal("--policy", "lru,lru").contains("given twice"))
    #expect(try refusal("--policy", ",").contains("'' is not known; expected lru"))
    #expect(try refusal("--policy", "lru", "--sizes", "desk").contains("'desk' is not known; expected ios, android"))
    #expect(try refusal("--policy", "lru", "--html", "x").contains("--html does not go with --policy"))
    #expect(try refusal("--seed", "2").contains("--seed does not go without --policy"))
    #expect(try refusal("--policy", "lru").contains("'trace.db' cannot be read"))
  }

  @Test func helpNamesEveryPolicy() {
    let help = ReplayCommand.helpMessage(columns: 200)
    for name in ["lru", "plain", "largest", "longest", "terminate"] { #expect(help.contains("  \(name): ")) }
  }
}
