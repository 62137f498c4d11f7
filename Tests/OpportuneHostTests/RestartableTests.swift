import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// Programs without a manifest that are started anew with what they were started with.
@Suite(.bounded) struct RestartableTests {
  /// `opportune run` of the program of ``Saving`` as `tool`, in its folder and with an environment.
  private func run(_ saving: Saving) throws -> Process {
    try startProgram(
      ["/bin/sh", "-c", #"cd "$0" && exec "$@""#, saving.place.folder.path, command().path, "run"]
        + ["--socket", saving.place.path, "--name", "tool", "--restartable", "--"] + saving.command(),
      environment: ["PATH": "/usr/bin:/bin", "GREETING": "hello"], isQuiet: true)
  }

  private func environment(of pid: Int32) -> [Substring] {
    (SystemFile.text("/proc/\(pid)/environ") ?? "").split(separator: "\0")
  }

  // R-LIFE-07, R-LIFE-01, R-LIFE-10
  @Test(.enabled(if: Backends.python != nil, "there is no python3"), arguments: Backends.usable)
  func whoRanAsRestartableIsStartedAnewWithItsState(backend: Backend) async throws {
    let saving = try Saving(backend)
    let program = try run(saving)
    #expect(try await saving.lines(3) == ["joined", "didFinishLaunching", "didEnterBackground"])
    #expect(saving.files == ["tool.run"])
    #expect(try saving.host.hibernate("tool") != nil)
    #expect(try await saving.lines(2) == ["saveState", "willTerminate"])
    try await eventually("hibernation") { saving.hosted.entry("tool")?.hibernatedBy == .savedState }
    program.waitUntilExit()
    #expect(saving.files == ["tool.run", "tool.state"])
    let kept = try FileManager.default.attributesOfItem(atPath: saving.states + "/tool.run")
    #expect(kept[.posixPermissions] as? Int == 0o600)

    // The next host has state and declaration.
    try saving.restartHost()
    try saving.host.bringForward("tool")
    let again = ["joined", "restoreState page 7", "didFinishLaunching", "didBecomeActive"]
    #expect(try await saving.lines(4) == again)
    let pid = try #require(saving.hosted.entry("tool")?.pids.first)
    #expect(SystemFile.target(of: "/proc/\(pid)/cwd") == saving.place.folder.path)
    #expect(environment(of: pid).contains("GREETING=hello"))
    #expect(environment(of: pid).count { $0.hasPrefix("OPPORTUNE_APP=") } == 1)
    #expect(!environment(of: pid).contains { $0.hasPrefix("HOME=") })
    #expect(SystemFile.target(of: "/proc/\(pid)/fd/0") == "/dev/null")
    try await eventually("its state is gone") { saving.files == ["tool.run"] }

    _ = try saving.host.hibernate("tool")
    _ = try await saving.lines(4)
    try await eventually("hibernation") { saving.hosted.entry("tool")?.hibernatedBy == .savedState }
    _ = try saving.host.notify("tool", Message("letter"))
    let told = ["joined", "restoreState page 7", "didFinishLaunching message", "didEnterBackground"]
    #expect(try await saving.lines(6) == told + ["didReceiveMessage", "willSuspend"])

    try saving.host.terminate("tool")
    try await eventually("its end") { saving.hosted.entry("tool") == nil }
    #expect(saving.files.isEmpty)
    let none = #expect(throws: ProcessHostError.self) { try saving.host.start("tool") }
    #expect(none?.code == .unknownApp("tool"))
    try await saving.hosted.end()
  }

  // R-LIFE-07
  @Test(.enabled(if: Backends.python != nil, "there is no python3"))
  func theNextHostKnowsItWhileItRunsAndNobodyWhenItHasEnded() async throws {
    let saving = try Saving()
    let program = try run(saving)
    _ = try await saving.lines(3)
    try saving.restartHost()
    #expect(saving.hosted.entry("tool") != nil && saving.files == ["tool.run"])
    kill(program.processIdentifier, SIGKILL)
    program.waitUntilExit()
    try await eventually("its end") { saving.hosted.entry("tool") == nil }
    #expect(saving.files.isEmpty && !saving.host.known().contains { $0.id == "tool" })
    try await saving.hosted.end()
  }

  // R-MEM-09
  @Test func whoIsTerminatedForMemoryIsKnownAndStartsAnew() async throws {
    let place = try Place()
    let states = place.folder.path + "/states"
    let hosted = try Hosted(
      .signals, shortage: ShortagePolicy(answer: .terminate, settle: .zero), states: states)
    let host = hosted.host
    let program = try startProgram(["sleep", "600"], isQuiet: true)
    let run = RunDeclaration(command: ["/bin/sleep", "601"], folder: "/usr", environment: ["A=b"])
    _ = try host.adopt(program.processIdentifier, isTree: false, name: "tool", restart: run)
    func terminateForMemory() async throws {
      try host.suspend("tool", locks: .ignore)
      try await eventually("its end") {
        _ = try host.memoryIsShort()
        return hosted.entry("tool") == nil
      }
    }
    try await terminateForMemory()
    program.waitUntilExit()
    #expect(host.known().map(\.id) == ["tool"] && host.known().first?.state == "terminated")
    // Its name is its own.
    let taken = #expect(throws: ProcessHostError.self) { try host.launch(["/bin/true"], name: "tool") }
    #expect(taken?.message.contains("it was terminated for memory: opportune front starts") == true)
    try host.bringForward("tool")
    #expect(hosted.entry("tool")?.state == "foreground" && host.known().isEmpty)
    let pid = try #require(hosted.entry("tool")?.pids.first)
    try await eventually("its program") {
      SystemFile.text("/proc/\(pid)/cmdline") == "/bin/sleep\u{0}601\u{0}"
    }
    #expect(SystemFile.target(of: "/proc/\(pid)/cwd") == "/usr")
    #expect(environment(of: pid).contains("A=b"))
    try await terminateForMemory()
    #expect(host.known().map(\.id) == ["tool"])
    try host.terminate("tool")
    #expect(host.known().isEmpty && SystemFile.names(in: states).isEmpty)
    try await hosted.end()
  }

  @Test func whatCannotBeKeptIsRefusedAndSaysWhy() async throws {
    func run(_ program: String = "/a", folder: String = "/", _ environment: [String] = []) -> RunDeclaration {
      RunDeclaration(command: [program], folder: folder, environment: environment)
    }
    func why(_ run: RunDeclaration) -> String? {
      do throws(ProcessHostError) { try run.check() } catch { return error.message }
      return nil
    }
    #expect(why(run("a")) == "the program is 'a': expected a path from the root")
    #expect(why(run(folder: "b")) == "the folder of '/a' is 'b': expected a path from the root")
    #expect(why(run("/a", ["c"])) == "the environment of '/a' is 'c': expected NAME=value")
    #expect(why(run("/a", ["c=\u{0}"]))?.contains("expected no null character") == true)
    // Each with its end: "/a", "/" and "c=".
    let most = run("/a", ["c=" + String(repeating: "x", count: RunDeclaration.largest - 8)])
    let more = run("/a", ["c=" + String(repeating: "x", count: RunDeclaration.largest - 7)])
    #expect(why(most) == nil)
    #expect(why(more)?.hasSuffix("is 32769 bytes: expected at most 32768") == true)

    let place = try Place()
    let states = place.folder.path + "/states"
    let hosted = try Hosted(.signals, states: states)
    let host = hosted.host
    let socket = try HostSocket.open(at: place.path) { host }
    let program = try startProgram(["sleep", "600"], isQuiet: true)
    var request = HostRequest(.adopt, name: "tool")
    (request.pid, request.restart) = (program.processIdentifier, more)
    let refused = #expect(throws: PushError.self) {
      try request.send(to: place.path, within: .seconds(30))
    }
    #expect("\(refused.debugDescription)".contains("32769 bytes"))
    #expect(host.apps().isEmpty && SystemFile.names(in: states).isEmpty)
    request.restart = most
    #expect(try request.send(to: place.path, within: .seconds(30)).name == "tool")
    #expect(SystemFile.names(in: states) == ["tool.run"])
    kill(program.processIdentifier, SIGKILL)
    program.waitUntilExit()
    try await eventually("its end") { host.apps().isEmpty }
    #expect(SystemFile.names(in: states).isEmpty)
    withExtendedLifetime(socket) {}
    try await hosted.end()
  }

  /// Who could write it could choose what the host starts.
  @Test func onlyFilesOfTheUsersOwnAreRead() throws {
    let place = try Place()
    let folder = place.folder.path + "/states"
    let run = RunDeclaration(command: ["/bin/true"], folder: "/", environment: [])
    do {
      let states = SavedStates(in: folder)
      for name in ["good", "loose", "broken"] { try states.declare(name, run) }
    }
    chmod(folder + "/loose.run", 0o622)
    try Data("{".utf8).write(to: URL(filePath: folder + "/broken.run"))
    symlink(folder + "/good.run", folder + "/linked.run")
    #expect(SavedStates(in: folder).runs == ["good": run])
    chmod(folder, 0o722)
    #expect(SavedStates(in: folder).runs.isEmpty)
    chmod(folder, 0o700)
  }

  @Test func theCommandSaysWhatIsNotPossible() throws {
    let app = try told(by: ["run", "--restartable", "mail"])
    #expect(app.status == 64 && app.said.contains("an app is started anew by its manifest"))
    let large = String(repeating: "x", count: RunDeclaration.largest)
    let command = try told(by: ["run", "--restartable", "--socket", "/none", "--", "/bin/true", large])
    #expect(command.status == 1 && command.said.contains("expected at most 32768"), "\(command)")
  }
}
