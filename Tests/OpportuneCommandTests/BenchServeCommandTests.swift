import Foundation
import TestSupport
import Testing

@testable import OpportuneCommand

/// The server is this command once more, in a process of its own.
@Suite(.bounded, .timeLimit(.minutes(2))) struct BenchServeCommandTests {
  private func arguments(_ folder: Folder, seconds: String) throws -> [String] {
    try FileManager.default.createDirectory(
      atPath: "\(folder.url.path)/tree", withIntermediateDirectories: true)
    let text = (0..<400).map { "word\($0 % 40) of line \($0)\n" }.joined()
    try Data(text.utf8).write(to: folder.url.appending(path: "tree/text"))
    return [
      "bench", "serve", "--tree", "\(folder.url.path)/tree", "--folder", folder.url.path, "--repeats", "1",
      "--seconds", seconds, "--load", "full", "--json", "--html", "\(folder.url.path)/page",
    ]
  }

  @Test func aRunIsReported() throws {
    let folder = try Folder()
    let run = try Spawned(
      try arguments(folder, seconds: "1") + [
        "--contender", "threads", "--connections", "4", "--heavy", "3", "--files", "cached",
        "--sockets", "tcp",
        "--server-mebibytes", "256",
      ])
    // 2: the host took too much of the CPU.
    #expect([0, 2].contains(run.status), "\(run.errors)")
    let json = try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any]
    let results = try #require(json?["results"] as? [[String: Any]])
    #expect(
      results.first?["contender"] as? String == "threads" && results.first?["request"] as? String == "short")
    // What the host disturbed is left out, and may be all that there was of a rare kind.
    #expect(run.status == 2 || results.first?["requests"] as? Int ?? 0 > 0)
    let notes = json?["notes"] as? [String] ?? []
    #expect(
      notes.contains {
        $0.hasPrefix("4 connections of typists over TCP, 3 heavy") && $0.hasSuffix("page cache")
      })
    #expect(notes.contains { $0.hasPrefix("each server ") && $0.contains(" 256 MiB of memory") })
    #expect(try String(contentsOfFile: "\(folder.url.path)/page", encoding: .utf8).contains("<svg"))
  }
}
