import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A group of version 2 beside those of the host, which goes with it.
final class Elsewhere {
  let path: String

  init(kind: String = "") throws {
    path = try #require(ControlGroupTree.ownGroup()) + "/" + Hosted.newKey() + kind
    try #require(mkdir(path, 0o755) == 0)
  }

  func take(_ pid: Int32) throws { try #require(SystemFile.write("\(pid)", to: path + "/cgroup.procs") == 0) }

  deinit { ControlGroup(path: path).remove() }
}

/// Programs that are not where the host has put them: in a group of somebody else, or in one of their own
/// below the app's.
@Suite(.bounded) struct LeftGroupTests {
  /// As systemd does with who begins a scope. All of it, or one of its processes.
  // R-FTS-06, R-LIFE-24
  @Test(.enabled(if: Backends.hasControlGroups, Backends.why), arguments: [true, false], [true, false])
  func whoHasLeftIsStoppedAndEnded(all: Bool, isAdopted: Bool) async throws {
    let (elsewhere, hosted) = (try Elsewhere(), try Hosted(.cgroup))
    let script = "sleep 600 & \(isAdopted ? "echo end; " : "")wait"
    var program: Process?
    if isAdopted {
      let output = try Output()
      let shell = try startProgram(["/bin/sh", "-c", script], output)
      _ = try await output.line("end")
      _ = try hosted.host.adopt(shell.processIdentifier, name: "app")
      program = shell
    } else {
      _ = try hosted.shell(script)
    }
    try await eventually("both") { hosted.entry()?.pids.count == 2 }
    let pids = try #require(hosted.entry()).pids
    for pid in all ? pids : [pids[1]] { try elsewhere.take(pid) }
    let note = "\(all ? 2 : 1) of its processes are in a control group"
    #expect(hosted.entry()?.pids == pids)
    #expect(hosted.entry()?.notes.contains { $0.hasPrefix(note) } == true)
    try hosted.host.suspend("app")
    let entry = try #require(hosted.entry())
    #expect(entry.state == "suspended" && entry.pids == pids)
    #expect(entry.notes.contains { $0.hasPrefix(note) }, "\(entry.notes)")
    #expect(pids.map(isStopped) == [all, true])
    try hosted.host.resume("app")
    for pid in pids { try await eventually("\(pid) goes on") { !isStopped(pid) } }
    try hosted.host.suspend("app")
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.host.apps().isEmpty }
    for pid in pids {
      try await eventually("the end of \(pid)") { ProcessStat(of: pid)?.hasEnded != false }
    }
    program?.waitUntilExit()
    hosted.host.stop()
  }

  /// A mark alone may come from an environment that a manager of services was told.
  // R-FTS-06
  @Test(.enabled(if: Backends.hasControlGroups, Backends.why), arguments: ["", ".service"])
  func aServiceIsNoneOfTheAppsProcesses(kind: String) async throws {
    let (elsewhere, hosted) = (try Elsewhere(kind: kind), try Hosted(.cgroup))
    let first = try hosted.shell("exec sleep 600")
    let mark = try #require(SignalledGroup.mark(of: first))
    let other = try startProgram(["/bin/sleep", "600"], environment: [SignalledGroup.variable: mark])
    defer {
      kill(other.processIdentifier, SIGKILL)
      other.waitUntilExit()
    }
    try elsewhere.take(other.processIdentifier)
    try hosted.host.suspend("app")
    #expect(isStopped(other.processIdentifier) == kind.isEmpty)
    #expect(hosted.entry()?.pids.contains(other.processIdentifier) == kind.isEmpty)
    try await hosted.end()
  }

  /// It joins as a program of its app.
  // R-LIFE-11
  @Test(.enabled(if: Backends.hasControlGroups && Backends.python != nil, Backends.why))
  func whoHasLeftJoins() async throws {
    let (elsewhere, joined) = (try Elsewhere(), try JoinedHost(Hosted(.cgroup)))
    // Another of it stays.
    let leaving = "sleep 600 & echo $$ > \"$0/cgroup.procs\"; exec \"$@\""
    let joining = """
      print(join(words[0]), flush=True)
      for told in events():
          if "id" in told: say({"answer": told["id"]})
      """
    let words =
      try ["/bin/sh", "-c", leaving, elsewhere.path] + protocolProgram(joining, [joined.place.path])
    _ = try joined.hosted.host.launch(
      words, name: "app", descriptors: [joined.input.read, joined.output.written, -1])
    #expect(try await joined.lines(1) == ["joined"])
    try await joined.hosted.end()
  }

  /// It is one of the app as long as anybody is there, goes with it, and leaves nothing frozen.
  // R-FTS-06, R-LIFE-24
  @Test(.enabled(if: Backends.hasControlGroups, Backends.why))
  func groupsBelowItsOwnAreTheApps() async throws {
    let hosted = try Hosted(.cgroup)
    let first = try hosted.shell("sleep 600 & wait")
    try await eventually("both") { hosted.entry()?.pids.count == 2 }
    let entry = try #require(hosted.entry())
    let group = try #require(entry.cgroup)
    let child = try #require(entry.pids.first { $0 != first })
    let below = group + "/below"
    try #require(mkdir(below, 0o755) == 0)
    try #require(SystemFile.write("\(child)", to: below + "/cgroup.procs") == 0)
    #expect(hosted.entry()?.pids == entry.pids)
    kill(first, SIGKILL)
    try await eventually("the end of the first") { hosted.entry()?.pids == [child] }
    try hosted.host.suspend("app")
    #expect(SystemFile.value(of: "frozen", in: below + "/cgroup.events") == 1)
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.host.apps().isEmpty }
    #expect(!SystemFile.exists(group))
    try await hosted.end()
  }

  /// What a group that could not be deleted was when its app ended is nothing to the next.
  // R-LIFE-24
  @Test(.enabled(if: Backends.hasControlGroups, Backends.why))
  func theNextOfItsNameIsNotFrozen() async throws {
    let hosted = try Hosted(.cgroup)
    _ = try hosted.shell("exec sleep 600")
    let group = try #require(hosted.entry()?.cgroup)
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.host.apps().isEmpty && !SystemFile.exists(group) }
    try #require(mkdir(group, 0o755) == 0)
    try #require(SystemFile.write("1", to: group + "/cgroup.freeze") == 0)
    let output = try Output()
    _ = try hosted.shell("echo runs; exec sleep 600", output: output)
    #expect(try await output.lines(1) == ["runs"])
    try await hosted.end()
  }
}
