import Foundation
import TestSupport
import Testing

@testable import OpportuneCommand

/// A bench that is ended leaves no files.
@Suite(.bounded, .timeLimit(.minutes(5)), .serialized) struct BenchFilesTests {
  private static let io = ["bench", "io", "--figure", "cost", "--seconds", "30", "--file-mebibytes", "16"]
  private static let memory = [
    "bench", "memory", "--figure", "hibernate", "--mebibytes", "32", "--repeats", "100",
  ]

  @Test(arguments: [
    (io, SIGTERM), (io, SIGHUP), (io, SIGKILL), (memory, SIGTERM), (memory, SIGHUP), (memory, SIGKILL),
  ])
  func nothingStaysOfABenchThatIsEnded(arguments: [String], signal: Int32) throws {
    let folder = try Folder()
    let bench = Process([try builtProgram()] + arguments + ["--folder", folder.url.path])
    let errors = Pipe()
    bench.standardOutput = FileHandle.nullDevice
    bench.standardError = errors
    try runUnblocked(bench)
    defer { kill(bench.processIdentifier, SIGKILL) }
    var said = ""
    while !said.contains("repeat 1 of") {
      let data = errors.fileHandleForReading.availableData
      try #require(!data.isEmpty, "it ended after: \(said)")
      said += String(decoding: data, as: UTF8.self)
    }
    kill(bench.processIdentifier, signal)
    bench.waitUntilExit()
    #expect(bench.terminationReason == .uncaughtSignal && bench.terminationStatus == signal, "\(said)")
    // A shell removes what has a name once it sees the end.
    let deadline = ContinuousClock.now + .seconds(60)
    while !(try left(in: folder)).isEmpty, ContinuousClock.now < deadline { sched_yield() }
    #expect(try left(in: folder) == [])
  }

  private func left(in folder: Folder) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
  }
}
