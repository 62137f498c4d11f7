import COpportuneHost
import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// Nothing stays frozen, whatever becomes of the host.
@Suite(.bounded) struct HostCrashTests {
  private static let ticking = "while :; do echo tick; sleep 0.01; done"

  @Test(arguments: Backends.usable) func whatAHostHasLeftGoesOnAndIsItsSuccessors(backend: Backend)
    async throws
  {
    let key = Hosted.newKey()
    let output = try Output()
    // As a host and its warden, both killed, leave it.
    var pid: Int32 = 0
    do {
      let maker = try GroupMaker(key: key, backend: backend)
      let mark = maker.mark(of: "left")
      let group: any ProcessGroup
      let shell = try startProgram(
        ["/bin/sh", "-c", Self.ticking], output,
        environment: ["PATH": "/usr/bin:/bin", SignalledGroup.variable: mark])
      pid = shell.processIdentifier
      let status = try #require(ProcessStat(of: pid))
      (group, _) = try maker.adopt(status, isTree: false, name: "left", mark: mark)
      _ = try await output.line("tick")
      if backend == .cgroup { try group.freeze(within: .seconds(5)) } else { kill(pid, SIGSTOP) }
      if backend == .signals { try await eventually("its stop") { isStopped(pid) } }
      // The warden of this maker thaws at its end. It is frozen once more below.
    }
    if backend == .cgroup {
      let left = ControlGroup(path: try ControlGroupTree(key: key).path + "/left")
      try left.freeze(within: .seconds(5))
    }
    while !output.take().isEmpty {}
    #expect(!output.comes(within: 50))

    let hosted = try Hosted(backend, key: key)
    #expect(output.comes(within: 30_000))
    let entry = try #require(hosted.entry("left"))
    #expect(entry.state == "background")
    #expect(entry.pids.contains(pid))
    try await hosted.end()
  }

  @Test(arguments: Backends.usable) func theWardenThawsWhenTheHostIsKilled(backend: Backend) async throws {
    let place = try Place()
    let host = try await HostProgram(place, backend)
    let output = try Output()
    let program = try host.run(["sh", "-c", "echo $$ of; " + Self.ticking], output: output)
    _ = try await output.line("tick")
    try host.ask(.suspend, "sh")
    while !output.take().isEmpty {}
    #expect(!output.comes(within: 50))
    kill(host.process.processIdentifier, SIGKILL)
    #expect(output.comes(within: 30_000))
    host.process.waitUntilExit()

    // The next one knows its app.
    let next = try await HostProgram(place, backend)
    #expect(try next.ask(.apps, nil).apps?.map(\.id) == ["sh"])
    try next.ask(.terminate, "sh")
    program.waitUntilExit()
    try await next.endWhenEmpty()
  }

  /// A program that the host itself has started, and that is stopped when both the host and the warden die.
  @Test(arguments: Backends.usable) func theKernelHangsUpOnNoProgram(backend: Backend) async throws {
    let place = try Place()
    try writeManifest(["/bin/sleep", "100000"], name: "nap", in: place.folder.path)
    let options = ["--manifests", place.folder.path]
    let host = try await HostProgram(place, backend, options: options)
    let pid = try #require(try host.ask(.start, "nap").pid)
    defer { kill(pid, SIGKILL) }
    try host.ask(.suspend, "nap")
    let parent = host.process.processIdentifier
    let warden = try host.child("opportune-ward")
    warden.id.signal(SIGKILL)
    kill(parent, SIGKILL)
    host.process.waitUntilExit()

    let next = try await HostProgram(place, backend, options: options)
    #expect(try next.ask(.apps, nil).apps?.map(\.pids) == [[pid]])
    try await eventually("its going on") { !isStopped(pid) }
    try next.ask(.terminate, "nap")
    try await next.endWhenEmpty()
  }

  /// A process of an adopted program, whose environment tells nothing, that was moved to another group.
  // R-FTS-06
  @Test(.enabled(if: Backends.hasControlGroups, Backends.why)) func whoHadLeftIsOfTheNextHost() async throws {
    let (place, output, elsewhere) = (try Place(), try Output(), try Elsewhere())
    let shell = try startProgram(["/bin/sh", "-c", "sleep 600 & echo end; wait"], output)
    _ = try await output.line("end")
    let host = try await HostProgram(place, .cgroup)
    #expect(try HostRequest(.adopt, name: "app").adopting(shell.processIdentifier).send(to: place.path).ok)
    let pids = try #require(try host.ask(.apps, nil).apps?.first?.pids)
    let child = try #require(pids.first { $0 != shell.processIdentifier })
    try elsewhere.take(child)
    /// It may take longer to stop than a host waits, on a slow machine.
    func suspend() async throws {
      try await eventually("its stop") {
        let answer = try HostRequest(.suspend, name: "app").send(to: place.path)
        if !answer.ok { #expect(answer.error?.contains("not all of it has stopped") == true) }
        return answer.ok
      }
      #expect(isStopped(child))
    }
    try await suspend()
    let parent = host.process.processIdentifier
    let warden = try host.child("opportune-ward")
    warden.id.signal(SIGKILL)
    kill(parent, SIGKILL)
    host.process.waitUntilExit()
    let next = try await HostProgram(place, .cgroup)
    try await eventually("its going on") { !isStopped(child) }
    #expect(try next.ask(.apps, nil).apps?.map(\.pids) == [pids])
    try await suspend()
    try next.ask(.terminate, "app")
    try await next.endWhenEmpty()
    shell.waitUntilExit()
    #expect(ProcessStat(of: child)?.hasEnded != false)
  }

  @Test(arguments: Backends.usable) func whatIsSuspendedGoesOnAfterTheHost(backend: Backend) async throws {
    let place = try Place()
    let host = try await HostProgram(place, backend)
    let output = try Output()
    let program = try host.run(["sh", "-c", Self.ticking], output: output)
    _ = try await output.line("tick")
    try host.ask(.suspend, "sh")
    while !output.take().isEmpty {}
    #expect(!output.comes(within: 50))
    host.end()
    #expect(host.process.terminationReason == .exit)
    #expect(host.process.terminationStatus == 0)
    #expect(output.comes(within: 30_000))
    kill(program.processIdentifier, SIGKILL)
    program.waitUntilExit()
    #expect(!FileManager.default.fileExists(atPath: place.path))
    // Takes the empty group away.
    try await HostProgram(place, backend).end()
  }

  // R-VOIP-02 R-VOIP-05
  @Test func heartbeatsHaveTheLeastIntervalThatTheHostWasGiven() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto, options: ["--least-heartbeat", "1"])
    let output = try Output()
    let program = try host.run(
      [try command().deletingLastPathComponent().appending(path: "Cooperate").path], output: output,
      input: "beat 0.9\nbeat 1\n")
    let lines = try await output.lines(5)
    #expect(
      lines.contains { $0.hasPrefix("cannot send heartbeats") && $0.contains("1.0 seconds") }, "\(lines)")
    // What it hears of its life comes beside what it answers: in any order.
    #expect(lines.contains("will send heartbeats"), "\(lines)")
    try host.ask(.suspend, "Cooperate")
    #expect(try await output.lines(1) == ["stops"])
    for _ in 0..<2 { #expect(try await output.lines(3) == ["goes on", "sends a heartbeat", "stops"]) }
    try host.ask(.terminate, "Cooperate")
    program.waitUntilExit()
    try await host.endWhenEmpty()
  }
}

/// `opportune host` as a process.
final class HostProgram {
  let process: Process
  private let place: Place
  private var programs: [Process] = []

  /// - Parameter prefix: a command that becomes the host.
  init(
    _ place: Place, _ backend: Backend, grace: Double = 5, options: [String] = [], prefix: [String] = [],
    errors: Output? = nil
  ) async throws {
    self.place = place
    let words = [
      try command().path, "host", "--socket", place.path, "--backend", backend.rawValue, "--grace",
      "\(grace)",
    ]
    process = Process(prefix + words + (options.contains("--bus") ? [] : ["--bus", "none"]) + options)
    let output = try Output()
    process.standardOutput = FileHandle(fileDescriptor: output.written, closeOnDealloc: false)
    if let errors {
      process.standardError = FileHandle(fileDescriptor: errors.written, closeOnDealloc: false)
    }
    try runUnblocked(process)
    _ = try await output.line("The host listens at")
  }

  /// Where a test has failed before its end.
  deinit {
    for program in programs + [process] where program.isRunning {
      kill(program.processIdentifier, SIGKILL)
    }
  }

  func run(_ arguments: [String], options: [String] = [], output: Output, input: String? = nil) throws
    -> Process
  {
    let program = Process([try command().path, "run", "--socket", place.path] + options + ["--"] + arguments)
    program.standardOutput = FileHandle(fileDescriptor: output.written, closeOnDealloc: false)
    let pipe = Pipe()
    program.standardInput = pipe
    try runUnblocked(program)
    if let input { pipe.fileHandleForWriting.write(Data(input.utf8)) }
    try pipe.fileHandleForWriting.close()
    programs.append(program)
    return program
  }

  @discardableResult func ask(_ action: HostRequest.Action, _ name: String?) throws -> HostAnswer {
    try HostRequest(action, name: name).send(to: place.path, within: patience)
  }

  /// Its warden, or its starter.
  func child(_ command: String) throws -> ProcessStat {
    let parent = process.processIdentifier
    return try #require(
      ProcessTable.all().first { $0.parent == parent && ProcessTable.command(of: $0.pid) == command },
      "a host has a child \(command)")
  }

  /// Once all its apps have ended.
  func endWhenEmpty() async throws {
    try await eventually("the end of its apps") { try ask(.apps, nil).apps?.isEmpty == true }
    end()
  }

  func end() {
    kill(process.processIdentifier, SIGTERM)
    process.waitUntilExit()
  }
}

/// A shell that no host has started.
func startShell(_ script: String, _ output: Output) throws -> Process {
  try startProgram(["/bin/sh", "-c", script], output)
}
