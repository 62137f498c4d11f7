import ArgumentParser
import TestSupport
import Testing

@testable import OpportuneBench
@testable import OpportuneCommand

@Suite(.bounded) struct BenchFigureTests {
  /// Who leaves the name out does not mean all of them, which takes minutes.
  @Test(arguments: ["", ",", "pin,,purge", "swap"])
  func aFigureThatIsNoneIsRefusedWithThoseThatThereAre(text: String) throws {
    try refuses(BenchMemoryCommand.self, "--figure", text, MemoryBenchOptions.Figure.allCases.map(\.rawValue))
    try refuses(BenchIOCommand.self, "--figure", text, IOBenchOptions.Figure.allCases.map(\.rawValue))
    try refuses(
      BenchLifecycleCommand.self, "--figure", text, LifecycleBenchOptions.Figure.allCases.map(\.rawValue))
    try refuses(
      BenchLocationCommand.self, "--figure", text, LocationBenchOptions.Figure.allCases.map(\.rawValue))
    try refuses(BenchHostCommand.self, "--figure", text, HostBenchOptions.Figure.allCases.map(\.rawValue))
    try refuses(BenchLatencyCommand.self, "--contender", text, ContenderKind.all.map(\.name))
    try refuses(BenchServeCommand.self, "--contender", text, ServeContender.all.map(\.name))
    try refuses(BenchServeCommand.self, "--load", text, ["idle", "full"])
  }

  /// Wrong use, as an unknown name is, and found out before anything is measured.
  @Test func aTreeThatIsNoFolderIsRefused() throws {
    try refuses(BenchServeCommand.self, "--tree", "/nonexistent", ["a folder that exists"])
    try refuses(BenchServeCommand.self, "--tree", "", ["a folder that exists"])
    try refuses(BenchServeCommand.self, "--tree", "/dev/null", ["a folder"])
    try refuses(BenchServeCommand.self, "--folder", "/nonexistent", ["a folder that you may write to"])
    try refuses(BenchHostCommand.self, "--folder", "/nonexistent", ["a folder that you may write to"])
    try refuses(BenchIOCommand.self, "--folder", "/nonexistent", ["a folder that you may write to"])
    try refuses(BenchMemoryCommand.self, "--folder", "", ["a folder that you may write to"])
  }

  /// That is found out as the tree is read.
  @Test func aTreeWithoutATextIsRefused() async throws {
    let folder = try Folder()
    let command = try BenchServeCommand.parse(["--tree", folder.url.path, "--contender", "threads"])
    let error = await #expect(throws: (any Error).self) {
      var running = command
      try await running.run()
    }
    let message = BenchServeCommand.message(for: try #require(error))
    #expect(
      message.contains("--tree '\(folder.url.path)'") && message.contains("readable text files"), "\(message)"
    )
    #expect(BenchServeCommand.exitCode(for: try #require(error)) == .validationFailure)
  }

  private func refuses(
    _ command: any ParsableCommand.Type, _ option: String, _ text: String, _ known: [String]
  ) throws {
    let error = #expect(throws: (any Error).self) { try command.parse([option, text]) }
    let message = command.message(for: try #require(error))
    #expect(message.contains("\(option) '"), "\(message)")
    #expect(message.contains(known.joined(separator: ", ")), "\(message)")
    #expect(command.exitCode(for: try #require(error)) == .validationFailure)
  }
}
