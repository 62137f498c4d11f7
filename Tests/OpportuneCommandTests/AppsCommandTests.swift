import ArgumentParser
import TestSupport
import Testing

@testable import OpportuneCommand

/// What `opportune states` and `opportune notify` refuse.
@Suite(.bounded) struct AppsCommandTests {
  @Test(arguments: [
    (["--state", "asleep"], "'asleep' is no state; expected one of"),
    (["--state", "suspended", "--mermaid"], "--state goes with the table and with --json"),
  ]) func statesThatAreNoneAreNamed(arguments: [String], part: String) throws {
    let error = try #require(#expect(throws: (any Error).self) { try StatesCommand.parse(arguments) })
    #expect(StatesCommand.message(for: error).contains(part))
    #expect(throws: Never.self) { try StatesCommand.parse(["--state", "foreground", "--json"]) }
  }

  // R-MSG-02
  @Test func aPushThatCannotBeSentSaysWhy() throws {
    let message = ["--socket", "/nonexistent/socket", "org.example.notes", "mail", "--payload"]
    let wrong = try #require(#expect(throws: (any Error).self) { try NotifyCommand.parse(message + ["from"]) })
    #expect(NotifyCommand.message(for: wrong).contains("--payload 'from': expected key=value"))
    let push = try NotifyCommand.parse(message + ["from=ada=eve"])
    let refused = try #require(#expect(throws: (any Error).self) { try push.run() })
    #expect(NotifyCommand.message(for: refused).contains("/nonexistent/socket: No such file or directory"))
    #expect(
      NotifyCommand.exitCode(for: refused) == .failure && NotifyCommand.exitCode(for: wrong) == .validationFailure)
  }
}
