import ArgumentParser
import Foundation
import OpportuneProperties
import Synchronization
import TestSupport
import Testing

@testable import OpportuneCommand
@testable import OpportuneFuzz

// R-CARD-09
@Suite(.bounded) struct FuzzCommandTests {
  @Test(arguments: [
    (["--target", "queues"], "'queues' is not a target; there are runq, queue"),
    (["--target", ","], "'' is not a target; there are runq, queue"),
    (["--target", ""], "'' is not a target; there are runq, queue"),
    (["--time", "0"], "--time 0.0 is out of range: expected more than 0"),
    (["--time", "nan"], "--time nan is out of range"), (["--time", "soon"], "'soon' is invalid for '--time"),
    (["--threads", "0"], "--threads 0 is out of range: expected 1 to 1024"),
    (["--seed", "-1"], "--seed"),
  ])
  func whatIsWrongIsNamedWithWhatIsExpected(arguments: [String], part: String) throws {
    let error = #expect(throws: (any Error).self, "\(arguments)") { try FuzzCommand.parse(arguments).run() }
    let message = FuzzCommand.message(for: try #require(error))
    #expect(message.contains(part), "\(message)")
    #expect(FuzzCommand.exitCode(for: try #require(error)) == .validationFailure)
  }

  @Test func aFileThatIsNoneIsNoFinding() throws {
    let command = try FuzzCommand.parse(["--replay", "/nonexistent"])
    let error = try #require(#expect(throws: Failure.self) { try command.search() })
    #expect(error.description.hasPrefix("'/nonexistent' cannot be read: No such file"))
    #expect(throws: ExitCode(2)) { try command.run() }
  }

  @Test func eachTargetIsListedWithASentence() throws {
    let lines = try FuzzCommand.parse(["--list"]).listing().split(separator: "\n")
    for name in ["runq", "requests", "io-scheduler", "trace", "gpsd", "canary"] {
      #expect(lines.contains { $0.hasPrefix(name + " ") && $0.hasSuffix(".") }, "\(name)")
    }
    struct Listing: Decodable {
      struct Target: Decodable { var name, summary: String }
      var targets: [Target]
    }
    let json = try FuzzCommand.parse(["--list", "--json"]).listing()
    let listing = try JSONDecoder().decode(Listing.self, from: Data(json.utf8))
    #expect(listing.targets.count == lines.count && listing.targets.allSatisfy { !$0.summary.isEmpty })
  }

  /// The build of a package that is depended on by a version counts no edges.
  @Test func whoseBuildSeesLessIsToldSo() throws {
    let command = try FuzzCommand.parse([])
    let queue = try FuzzTargets.all.named("runq")
    let above = try FuzzTargets.all.named("io-scheduler")
    let told = try #require(command.lack(of: [above, queue], edges: 0))
    #expect(told.hasPrefix("This build sees no data races of plain accesses in the C core"))
    #expect(command.lack(of: [above], edges: 0) == nil && command.lack(of: [queue], edges: 1) == nil)
    // This one sees them, and its check of itself leaves out nothing.
    #expect(command.lack(of: [queue]) == nil)
    #expect(FuzzTargets.all.filter(QueueTarget.needsPlainAccesses).map(\.name) == ["canary"])
  }

  @Test func aPlantedBugIsAStatusOfOneAndAnExampleThatFailsAgain() throws {
    let folder = try Folder()
    let example = folder.path("canary.example")
    let found = #expect(throws: ExitCode.self) {
      try FuzzCommand.parse([
        "--target", "canary-io-scheduler", "--time", "60", "--seed", "1", "--output", example,
      ])
      .run()
    }
    #expect(found == ExitCode(1))
    #expect(try String(contentsOfFile: example, encoding: .utf8).contains("target: canary-io-scheduler"))
    let again = #expect(throws: ExitCode.self) {
      try FuzzCommand.parse(["--replay", example, "--json"]).run()
    }
    #expect(again == ExitCode(1))
  }

  @Test func aFailureIsKeptAtOnceWhereItCanBe() throws {
    let folder = try Folder()
    let keeper = FindingKeeper(seed: 7, output: nil, folders: ["/nonexistent", folder.path("")])
    let target = try FuzzTargets.all.named("canary")
    var run = FuzzRun(targets: [target], seconds: 60, seed: 7, threads: 2)
    let first = Mutex<[String]>([])
    run.found = { finding in
      keeper.keep(finding)
      first.withLock { $0.append(finding.example) }
    }
    let report = try run.run()
    let path = try #require(keeper.path(of: "canary"))
    #expect(path.hasSuffix("/opportune-fuzz-canary-7.example"))
    // As it was met: what is written before it is made smaller.
    #expect(try [String(contentsOfFile: path, encoding: .utf8)] == first.withLock { $0 })
    let finding = try #require(report.findings.first)
    keeper.keep(finding)
    #expect(keeper.path(of: "canary") == path && finding.example.count < first.withLock { $0[0] }.count)
    #expect(try String(contentsOfFile: path, encoding: .utf8) == finding.example)
    let nowhere = FindingKeeper(seed: 1, output: "/nonexistent/file")
    nowhere.keep(finding)
    #expect(nowhere.path(of: "canary") == nil)
  }

  @Test func failuresOfSeveralTargetsAreKeptBesideEachOther() throws {
    let folder = try Folder()
    let (output, other) = (folder.path("found"), folder.path("found.second"))
    let keeper = FindingKeeper(seed: 7, output: output)
    func keep(_ target: String, _ example: String) {
      keeper.keep(Finding(target: target, message: "", example: example, timeline: ""))
    }
    keep("first", "long")
    keep("second", "another")
    keep("first", "short")
    #expect(keeper.path(of: "first") == output && keeper.path(of: "second") == other)
    #expect(try String(contentsOfFile: output, encoding: .utf8) == "short")
    #expect(try String(contentsOfFile: other, encoding: .utf8) == "another")
  }

  /// Killed, so that it can take nothing away itself.
  @Test(.timeLimit(.minutes(2)), arguments: ["recording", "requests"])
  func nothingStaysOfARunThatIsKilled(target: String) async throws {
    let folder = try Folder()
    let fuzz = Process(
      [try builtProgram(), "fuzz", "--target", target, "--time", "100"],
      environment: ProcessInfo.processInfo.environment.merging(["TMPDIR": folder.url.path]) { $1 })
    (fuzz.standardOutput, fuzz.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
    func names() -> [String] {
      (FileManager.default.enumerator(atPath: folder.url.path)?.allObjects as? [String]) ?? []
    }
    try fuzz.run()
    defer { if fuzz.isRunning { kill(fuzz.processIdentifier, SIGKILL) } }
    try await eventually("a file of the run") { names().contains { $0.contains("/\(target)-") } }
    kill(fuzz.processIdentifier, SIGKILL)
    try await eventually("an empty folder") { names().isEmpty }
  }

  /// Its name can be guessed, and others write to that folder.
  @Test func aLinkOfTheNameIsReplacedAndNotFollowed() throws {
    let folder = try Folder()
    let (other, name) = (
      try folder.file("other", "mine".utf8), folder.path("opportune-fuzz-canary-7.example")
    )
    #expect(symlink(other, name) == 0)
    let keeper = FindingKeeper(seed: 7, output: nil, folders: [folder.url.path])
    keeper.keep(Finding(target: "canary", message: "", example: "found", timeline: ""))
    #expect(keeper.path(of: "canary") == name)
    #expect(try String(contentsOfFile: other, encoding: .utf8) == "mine")
    #expect(try String(contentsOfFile: name, encoding: .utf8) == "found")
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).count == 2)
  }

  @Test(arguments: [
    "a b", "it's", "$(x)", "--list", "plain/trace-1.example", "", #"a\b"#, "a\u{1B}[2J'\\7\n\u{202E}",
    "-\u{7}",
  ])
  func aShellReadsThePathBack(path: String) throws {
    // Of /bin/sh some have no $'…' yet, which is for what steers a terminal.
    let shell = shellWord(path).contains("$'") ? "/bin/bash" : "/bin/sh"
    #expect(shellWord(path).unicodeScalars.allSatisfy { (0x20...0x7E).contains($0.value) })
    let printed = try outcome(of: [shell, "-c", "printf %s " + shellWord(path)]).output
    #expect(printed == (path.hasPrefix("-") ? "./" + path : path))
  }
}
