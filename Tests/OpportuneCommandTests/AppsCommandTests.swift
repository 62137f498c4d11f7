import ArgumentParser
import Foundation
import OpportuneApps
import OpportuneHost
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

  /// What could not be done stands below, by whom it is of.
  // R-LIFE-24
  @Test func aListHasNotes() {
    var app = AppEntry.withoutProcess("make", .background)
    #expect(!AppsCommand.table([app], hasNotes: true).contains("make: "))
    app.notes = ["its packets\u{1B} are not dropped"]
    #expect(!AppsCommand.table([app], hasNotes: false).contains("make: "))
    let lines = AppsCommand.table([app], hasNotes: true).split(
      separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.count == 4 && lines[2] == "")
    #expect(lines[3].hasPrefix("make: its packets") && !lines[3].contains("\u{1B}"))
  }

  /// It has the push, and does not say what it does with it.
  // R-MSG-02, R-LIFE-24
  @Test(.timeLimit(.minutes(1))) func aHostThatHangsIsWaitedForUpToATimeout() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "hangs-\(UUID().uuidString.prefix(8))")
      .path
    let gate = DispatchSemaphore(value: 0)
    let socket = try PushSocket(path: path) { _ in
      _ = gate.wait(timeout: .now() + 20)
      return nil
    }
    defer { gate.signal() }
    let push = try NotifyCommand.parse(["--socket", path, "org.example.notes", "mail", "--timeout", "0.1"])
    let list = try SwitcherCommand.parse([path, "list", "--timeout", "0.1"])
    for command in [push, list] as [any ParsableCommand & Sendable] {
      let error = await #expect(throws: Failure.self) {
        try await onOwnThread {
          var command = command
          try command.run()
        }
      }
      #expect(
        "\(try #require(error))"
          == "the host at '\(path)' did not answer within 0.1 seconds; it may do what was asked later")
    }
    withExtendedLifetime(socket) {}
  }

  // R-MSG-02
  @Test func aPushThatCannotBeSentSaysWhy() throws {
    let message = ["--socket", "/nonexistent/socket", "org.example.notes", "mail", "--payload"]
    let wrong = try #require(
      #expect(throws: (any Error).self) { try NotifyCommand.parse(message + ["from"]) })
    #expect(NotifyCommand.message(for: wrong).contains("--payload 'from': expected key=value"))
    let push = try NotifyCommand.parse(message + ["from=ada=eve"])
    let refused = try #require(#expect(throws: (any Error).self) { try push.run() })
    #expect(NotifyCommand.message(for: refused).contains("/nonexistent/socket: No such file or directory"))
    let early = try #require(
      #expect(throws: (any Error).self) { try NotifyCommand.parse(message + ["a=b", "--timeout", "0"]) })
    #expect(NotifyCommand.message(for: early).contains("--timeout is 0.0, expected 0.1 to 3600.0"))
    #expect(
      NotifyCommand.exitCode(for: refused) == .failure
        && NotifyCommand.exitCode(for: wrong) == .validationFailure)
  }
}
