import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// Real processes that know nothing of the host.
@Suite(.bounded) struct ProcessHostTests {
  /// Four lineages that fork for ever, each child with a sign of life.
  private static let forking = """
    for lineage in 1 2 3 4; do
      (while :; do (echo alive); (sh -c 'echo child'); done) &
    done
    wait
    """

  @Test(.enabled(if: Backends.hasControlGroups, Backends.why)) func controlGroupsAreUsed() async throws {
    let hosted = try Hosted(.auto)
    let pid = try hosted.shell("exec sleep 600")
    let group = try #require(hosted.entry()?.cgroup)
    #expect(group == hosted.host.controlGroups.map { $0 + "/app" })
    let own = try #require(SystemFile.text("/proc/\(pid)/cgroup"))
    #expect(own.split(separator: "\n").contains { $0.hasPrefix("0::") && $0.hasSuffix("\(hosted.key)/app") })
    try await hosted.end()
    #expect(!SystemFile.exists(group))
  }

  // R-LIFE-06
  /// As in the middle of an exec, when the new environment is not there yet.
  @Test func whoseEnvironmentWasEmptyIsLookedAtAgain() async throws {
    let mark = "\(UUID().uuidString):app:1"
    let group = SignalledGroup(mark: mark, warden: nil)
    let before = ProcessLook()
    let isAlone = !before.all.isEmpty && group.members(by: before).isEmpty
    #expect(isAlone)
    let program = Process()
    program.executableURL = URL(fileURLWithPath: "/bin/sh")
    program.arguments = ["-c", "read go; exec env \(SignalledGroup.variable)=\(mark) /bin/sleep 600"]
    program.environment = [:]
    let input = Pipe()
    program.standardInput = input
    try program.run()
    defer { kill(program.processIdentifier, SIGKILL) }
    try await eventually("it has begun") { ProcessTable.command(of: program.processIdentifier) == "sh" }
    #expect(group.members().isEmpty)
    try input.fileHandleForWriting.write(contentsOf: Data("go\n".utf8))
    try await eventually("it is found") { group.members() == [program.processIdentifier] }
    #expect(group.members(by: before).isEmpty, "one look serves all who are asked by it")
  }

  // R-LIFE-02, R-LIFE-10
  @Test(arguments: Backends.usable) func aProgramRunsInBackground(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    let pid = try hosted.shell("sleep 600 & wait")
    try await eventually("both processes") { hosted.entry()?.pids.count == 2 }
    let entry = try #require(hosted.entry())
    #expect(entry.state == "background")
    #expect(entry.pids.contains(pid))
    #expect(entry.keptBy == [])
    #expect(entry.memoryBytes > 0)
    #expect((entry.cgroup == nil) == (backend == .signals))
    #expect(getpgid(pid) == pid)
    try await hosted.end()
  }

  // R-LIFE-06, R-FTS-06, R-LIFE-19
  @Test(arguments: Backends.usable) func aForkingTreeStopsAndGoesOn(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    let output = try Output()
    _ = try hosted.shell(Self.forking, output: output)
    for _ in 0..<3 {
      _ = try await output.line("child")
      try hosted.host.suspend("app")
      let entry = try #require(hosted.entry())
      #expect(entry.state == "suspended")
      #expect(entry.keptBy.isEmpty)
      while !output.take().isEmpty {}
      #expect(!output.comes(within: 100))
      let later = try #require(hosted.entry())
      // The kernel may still add the end of the last slice.
      #expect(later.cpuSeconds - entry.cpuSeconds < 0.001)
      #expect(Set(later.pids) == Set(entry.pids))
      try hosted.host.resume("app")
      #expect(hosted.entry()?.state == "background")
      #expect(output.comes(within: 30_000))
    }
    try await hosted.end()
  }

  /// By vfork() a shell waits in the kernel until its child has become another program.
  // R-LIFE-06
  @Test(arguments: Backends.usable) func aShellThatStartsProgramsStops(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    _ = try hosted.shell("while :; do /bin/true; done")
    for _ in 0..<40 {
      try hosted.host.suspend("app")
      #expect(hosted.entry()?.state == "suspended")
      try hosted.host.resume("app")
    }
    try await hosted.end()
  }

  // R-FTS-07
  @Test(.enabled(if: Backends.python != nil, "no python3 is there"), arguments: Backends.usable)
  func peersOfASuspendedServerWait(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    let output = try Output()
    let server = """
      import socket
      s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(8)
      print('port', s.getsockname()[1], 'end', flush=True)
      while True:
        c, _ = s.accept(); c.sendall(b'hello'); c.close()
      """
    let python = try #require(Backends.python)
    _ = try hosted.host.launch([python, "-c", server], name: "app", descriptors: [-1, output.written, -1])
    let words = try await output.line("end").split(separator: " ")
    let port = try #require(words.count > 1 ? UInt16(words[1]) : nil)
    try hosted.host.suspend("app")

    let client = try connectHere(port)
    defer { close(client) }
    var polled = pollfd(fd: client, events: Int16(POLLIN), revents: 0)
    #expect(poll(&polled, 1, 100) == 0)
    try hosted.host.resume("app")
    #expect(poll(&polled, 1, 30_000) == 1)
    try await hosted.end()
  }

  // R-LIFE-14, R-LIFE-08
  @Test(arguments: Backends.usable) func aProgramIsAskedToEnd(backend: Backend) async throws {
    let hosted = try Hosted(backend, grace: .seconds(600))
    let output = try Output()
    _ = try hosted.shell(
      "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done", output: output)
    _ = try await output.line("ready")
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.host.apps().isEmpty }
    #expect(output.take().contains("bye"))
    try await hosted.end()
  }

  // R-FTS-03
  @Test(arguments: Backends.usable) func whatIgnoresItsEndIsKilledAfterTheGrace(backend: Backend) async throws
  {
    let hosted = try Hosted(backend, grace: .milliseconds(200))
    let output = try Output()
    let pid = try hosted.shell("trap '' TERM; (while :; do :; done) & echo ready; wait", output: output)
    _ = try await output.line("ready")
    let start = ContinuousClock.now
    try hosted.host.terminate("app")
    #expect(hosted.entry()?.state == "terminated")
    try await eventually("its end") { hosted.host.apps().isEmpty }
    #expect(start.duration(to: .now) >= .milliseconds(200))
    #expect(ProcessStat(of: pid)?.hasEnded != false)
    try await hosted.end()
  }

  // R-LIFE-15, R-LIFE-16
  @Test(arguments: Backends.usable) func aSuspendedProgramEndsWithoutRunning(backend: Backend) async throws {
    let hosted = try Hosted(backend, grace: .seconds(600))
    let output = try Output()
    _ = try hosted.shell("trap 'echo ran' TERM; echo ready; while :; do sleep 0.01; done", output: output)
    _ = try await output.line("ready")
    try hosted.host.suspend("app")
    output.take()
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.host.apps().isEmpty }
    #expect(output.take().isEmpty)
    try await hosted.end()
  }

  @Test(arguments: Backends.usable) func anAppEndsWithItsLastProcess(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    let output = try Output()
    // The first one ends at once, and leaves one of another session behind.
    _ = try hosted.shell("setsid sh -c 'echo left; read line' < /dev/null & exit 0", output: output)
    _ = try hosted.shell("setsid sh -c 'echo left; exec sleep 600' & exit 0", name: "daemon", output: output)
    try await eventually("the one that ends") { hosted.entry() == nil }
    try await eventually("the one that stays") { hosted.entry("daemon")?.pids.count == 1 }
    // Its name is free again.
    _ = try hosted.shell("exec sleep 600")
    #expect(hosted.entry()?.state == "background")
    try await hosted.end()
  }

  // R-LIFE-04, R-LIFE-12
  @Test(arguments: Backends.usable) func oneAppIsInFront(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    let pid = try hosted.shell("exec sleep 600", foreground: true)
    #expect(hosted.entry()?.state == "foreground")
    _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
    #expect(hosted.entry("other")?.state == "foreground")
    #expect(hosted.entry()?.state == "background")
    try hosted.host.suspend("app")
    try hosted.host.bringForward("app")
    #expect(hosted.entry()?.state == "foreground")
    #expect(hosted.entry("other")?.state == "background")
    #expect(!isStopped(pid))
    // From the front as well.
    try hosted.host.suspend("app")
    #expect(hosted.entry()?.state == "suspended")
    try await hosted.end()
  }

  @Test func whatIsWrongIsNamed() async throws {
    let hosted = try Hosted(.signals)
    #expect(throws: ProcessHostError(.unknownApp("none"))) { try hosted.host.suspend("none") }
    #expect(throws: ProcessHostError(.program("/no/such", ENOENT))) {
      try hosted.host.launch(["/no/such"], name: "app")
    }
    for name in ["", ".", "..", "-a", "a/b", "a\n", String(repeating: "x", count: 65)] {
      #expect(throws: ProcessHostError(.invalidName(name, limit: 64))) {
        try hosted.host.launch(["/bin/true"], name: name)
      }
    }
    for pid in [0, 1, -1, getpid(), Int32.max] {
      #expect(throws: ProcessHostError.self) { try hosted.host.adopt(pid, name: "app") }
    }
    let pid = try hosted.shell("exec sleep 600")
    #expect(throws: ProcessHostError(.nameTaken("app"))) { try hosted.host.adopt(getppid(), name: "app") }
    #expect(throws: ProcessHostError(.process(pid, "it belongs to the app 'app'"))) {
      try hosted.host.adopt(pid, name: "again")
    }
    try await hosted.end()
  }
}
