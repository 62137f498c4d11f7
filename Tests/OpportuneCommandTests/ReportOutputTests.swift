import ArgumentParser
import Glibc
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct ReportOutputTests {
  /// As without a file: what is printed is JSON and nothing else.
  @Test func aDashIsStandardOutput() throws {
    let output = try ReportOutput.parse(["--json", "-"])
    #expect(try output.file == nil && ReportOutput.parse(["--json", "report.json"]).file == "report.json")
    try output.checkFileIsWritable()
    try output.report(
      json: { "" },
      table: {
        Issue.record("the table has no place in JSON")
        return ""
      })
    #expect(access("-", F_OK) != 0, "no file of that name")
  }

  @Test func aDashIsNoFileWhereStandardOutputIsTheReports() throws {
    let commands: [(any ParsableCommand.Type, String)] = [
      (BenchLatencyCommand.self, "--html"), (BenchIOCommand.self, "--svg"),
    ]
    for (command, option) in commands {
      let error = #expect(throws: (any Error).self) { try command.parse([option, "-"]) }
      #expect(
        command.message(for: try #require(error)).contains("'-' is not standard output here: expected a file")
      )
      #expect(command.exitCode(for: try #require(error)) == .validationFailure)
    }
  }
}
