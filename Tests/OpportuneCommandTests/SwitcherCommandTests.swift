import ArgumentParser
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneCommand

// R-LIFE-24
@Suite(.bounded) struct SwitcherCommandTests {
  @Test func whatIsWrongIsNamedWithWhatIsExpected() throws {
    let cases: [([String], String)] = [
      (["/tmp/s"], "action"), (["/tmp/s", "bring"], "bring needs the identifier of an app"),
      (["/tmp/s", "terminate"], "terminate needs the identifier of an app"),
      (["/tmp/s", "list", "notes"], "list takes no app"), (["/tmp/s", "kill", "notes"], "kill"),
    ]
    for (arguments, part) in cases {
      let error = #expect(throws: (any Error).self, "\(arguments)") { try SwitcherCommand.parse(arguments) }
      let message = SwitcherCommand.message(for: try #require(error))
      #expect(message.contains(part), "\(message)")
    }
  }

  @Test func aSocketThatIsNoneIsNamed() throws {
    let command = try SwitcherCommand.parse(["/nonexistent/socket", "list"])
    let error = #expect(throws: Failure.self) { try command.run() }
    #expect("\(try #require(error))".contains("/nonexistent/socket: No such file or directory"))
    // It was called as it should be: no usage.
    #expect(SwitcherCommand.exitCode(for: try #require(error)) == .failure)
    #expect(SwitcherCommand.fullMessage(for: try #require(error)) == "Error: \(try #require(error))")
  }

  @Test(arguments: [("/tmp", "a directory"), ("/etc/passwd", "a file")])
  func whatIsNoSocketIsCalledByWhatItIs(path: String, kind: String) throws {
    let error = #expect(throws: Failure.self) { try SwitcherCommand.parse([path, "list"]).run() }
    #expect(error?.description == "\(path): this is \(kind), expected a host's socket")
  }

  @Test func theTableSaysWhatThereIs() {
    #expect(SwitcherCommand.table([]) == "no app runs")
    let apps = [
      SwitcherEntry(app: "org.example.notes", state: "foreground (active)", tasks: 0, snapshot: nil),
      SwitcherEntry(app: "mail", state: "suspended", tasks: 12, snapshot: 4096),
    ]
    #expect(
      SwitcherCommand.table(apps) == """
        app                state                  tasks  image
        org.example.notes  foreground (active)    0      none
        mail               suspended              12     4096 bytes
        """)
  }
}
