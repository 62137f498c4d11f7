import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// Trees that ran before the host knew of them.
@Suite(.bounded) struct AdoptTests {
  enum Tree: String, CaseIterable, CustomTestStringConvertible {
    /// Parents wait for their children.
    case parents = "(echo alive); (sh -c 'echo child')"
    /// Parents end at once.
    case orphans = "(sh -c 'echo child; sleep 0.03; echo later' &); sleep 0.004"

    var testDescription: String { "\(self)" }

    /// Four lineages that fork until the folder is gone.
    func start(_ place: Place, _ output: Output, leads: Bool) throws -> Process {
      let script = """
        for lineage in 1 2 3 4; do
          (while [ -e "$0" ]; do \(rawValue); done) &
        done
        echo pid $$ end
        wait
        """
      let words = (leads ? ["/usr/bin/setsid"] : []) + ["/bin/sh", "-c", script, place.folder.path]
      return try startProgram(words, output)
    }
  }

  private static func number(after word: String, in text: String) -> Int32? {
    let words = text.split { $0 == " " || $0 == "\n" }
    guard let place = words.firstIndex(of: Substring(word)), place + 1 < words.count else { return nil }
    return Int32(words[place + 1])
  }

  @Test(arguments: Backends.usable, Tree.allCases)
  func aTreeThatForksForEverIsTaken(backend: Backend, tree: Tree) async throws {
    try await isTaken(tree, backend, leads: true)
  }

  /// By who serves at a socket, and by its name where a manager of services has opened that.
  @Test func whatASessionHangsOnIsLeftAlone() async throws {
    let place = try Place()
    let folder = place.folder.path
    let listener = try HostSocket.open(at: folder + "/bus", host: { nil })
    let session = SessionProcesses(display: nil, environment: ["XDG_RUNTIME_DIR": folder])
    #expect(session.why(getpid()) == "it serves the session's bus, on which other programs hang")
    #expect(SessionProcesses(display: nil, environment: [:]).why(getpid()) == nil)
    withExtendedLifetime(listener) {}
    let bus = folder + "/dbus-daemon"
    let sleep = URL(filePath: "/bin/sleep").resolvingSymlinksInPath().path
    try FileManager.default.copyItem(atPath: sleep, toPath: bus)
    let shell = try startProgram(["/bin/sh", "-c", "'\(bus)' 600 & wait"])
    var child: Int32 = 0
    try await eventually("it runs") {
      child = ProcessTable.all().first { $0.parent == shell.processIdentifier }?.pid ?? 0
      return ProcessTable.command(of: child) == "dbus-daemon"
    }
    let hosted = try Hosted(.auto)
    let why = "it is 'dbus-daemon', on which other programs hang"
    #expect(throws: ProcessHostError(.process(child, why))) { try hosted.host.adopt(child, name: "app") }
    let above = ProcessHostError(.process(shell.processIdentifier, "process \(child) below it: \(why)"))
    #expect(throws: above) { try hosted.host.adopt(shell.processIdentifier, name: "app") }
    kill(child, SIGKILL)
    shell.waitUntilExit()
    let asked = try told(by: ["adopt", "--socket", folder + "/none", "\(getpid())"])
    #expect(asked.status != 0 && asked.said.contains("has started this command"), "\(asked.said)")
    try await hosted.end()
  }

  /// As in a shell with job control: the kernel sends SIGHUP and SIGCONT to what is left of the job.
  // R-FTS-06
  @Test(arguments: Backends.usable)
  func whatIsLeftOfAJobStaysStopped(backend: Backend) async throws {
    let (place, output) = (try Place(), try Output())
    let script = """
      import os, signal, sys, time
      signal.signal(signal.SIGHUP, signal.SIG_IGN)
      if os.fork(): time.sleep(600)
      print("pid", os.getppid(), "child", os.getpid(), "end", flush=True)
      while os.path.exists(sys.argv[1]): time.sleep(0.001)
      """
    // A shell that waits for the job ends it as soon as it is stopped.
    let job = "set -m; \"$@\" & while [ -e \"$0\" ]; do sleep 0.1; done"
    let words = ["/bin/bash", "-c", job, place.folder.path, try #require(Backends.python), "-c", script]
    let shell = try startProgram(words + [place.folder.path], output)
    let said = try await output.line("end")
    let leader = try #require(Self.number(after: "pid", in: said))
    let child = try #require(Self.number(after: "child", in: said))
    let hosted = try Hosted(backend)
    _ = try hosted.host.adopt(leader, name: "app")
    try hosted.host.suspend("app")
    kill(leader, SIGKILL)
    try await eventually("the end of the first") { hosted.entry()?.pids == [child] }
    if backend == .signals {
      try await eventually("it is stopped") { ProcessStat(of: child)?.isStopped == true }
    } else {
      #expect(
        SystemFile.value(of: "frozen", in: try #require(hosted.entry()?.cgroup) + "/cgroup.events") == 1)
    }
    #expect(hosted.entry()?.state == "suspended")
    try hosted.host.resume("app")
    try FileManager.default.removeItem(at: place.folder)
    try await eventually("its end") { hosted.host.apps().isEmpty }
    shell.waitUntilExit()
    hosted.host.stop()
  }

  /// Without control groups nothing tells later orphans from others.
  @Test(.enabled(if: Backends.hasControlGroups, Backends.why))
  func orphansOfAnothersSessionAreTaken() async throws {
    try await isTaken(.orphans, .cgroup, leads: false)
  }

  /// - Parameter leads: whether it has a session of its own.
  private func isTaken(_ tree: Tree, _ backend: Backend, leads: Bool) async throws {
    let (place, output) = (try Place(), try Output())
    let shell = try tree.start(place, output, leads: leads)
    let said = try await output.line("end")
    let pid = try #require(Self.number(after: "pid", in: said))
    let hosted = try Hosted(backend)
    for _ in 0..<20 { _ = try await output.line("child") }
    let (name, _) = try hosted.host.adopt(pid, name: nil)
    #expect(name == "sh")
    #expect(hosted.entry("sh")?.state == "background")
    // It goes on, whatever was stopped to take it.
    while !output.take().isEmpty {}
    _ = try await output.line("child")
    for _ in 0..<3 {
      try hosted.host.suspend("sh")
      while !output.take().isEmpty {}
      // Whoever was not taken would speak.
      #expect(!output.comes(within: 150))
      #expect(hosted.entry("sh")?.pids.contains(pid) == true)
      try hosted.host.resume("sh")
      #expect(output.comes(within: 30_000))
    }
    try await hosted.end()
    while !output.take().isEmpty {}
    #expect(!output.comes(within: 100))
    withExtendedLifetime((place, shell)) {}
  }

  @Test(arguments: Backends.usable) func aTreeThatSleepsIsTaken(backend: Backend) async throws {
    let output = try Output()
    // The last one is of another session.
    let shell = try startShell("sleep 600 & (sleep 600 & wait) & setsid sleep 600 & echo ready; wait", output)
    _ = try await output.line("ready")
    var tree = ProcessTree([try #require(ProcessStat(of: shell.processIdentifier)).id])
    try await eventually("all five") {
      tree.look(at: ProcessTable.all())
      return tree.known.count == 5
        && !ProcessTable.all().contains {
          tree.known.contains($0.id) && $0.pid != shell.processIdentifier
            && ProcessTable.command(of: $0.pid) == "setsid"
        }
    }
    let hosted = try Hosted(backend)
    _ = try hosted.host.adopt(shell.processIdentifier, name: "app")
    #expect(Set(hosted.entry()?.pids ?? []) == Set(tree.known.map(\.pid)))
    try await hosted.end()
    shell.waitUntilExit()
  }

  @Test func whoIsNoneIsNamed() async throws {
    let hosted = try Hosted(.signals)
    let host = hosted.host
    // A service is started by the system's first.
    let parent = getppid()
    for (pid, word) in [
      (1, "first"), (getpid(), "the host"), (parent, parent == 1 ? "first" : "descends"),
      (Int32.max, "ended"),
    ] {
      do throws(ProcessHostError) {
        _ = try host.adopt(pid, name: nil)
        Issue.record("\(pid) was taken")
      } catch {
        guard case .process(let named, let why) = error.code else {
          Issue.record("\(error)")
          continue
        }
        #expect(named == pid)
        #expect(why.contains(word))
      }
    }
    // A tree with an app in it.
    let pid = try hosted.shell("sleep 600 & echo; wait", name: "inner")
    let own = try #require(ProcessStat(of: pid))
    var tree = ProcessTree([own.id], sparing: [])
    try await eventually("its child") {
      tree.look(at: ProcessTable.all())
      return tree.known.count == 2
    }
    let child = try #require(tree.known.first { $0.pid != pid })
    #expect(throws: ProcessHostError(.process(child.pid, "it belongs to the app 'inner'"))) {
      try host.adopt(child.pid, name: nil)
    }
    try await hosted.end()
  }

  @Test(.enabled(if: geteuid() == 0, "only root starts another user's process"))
  func anotherUsersProcessIsRefused() async throws {
    let hosted = try Hosted(.auto)
    let output = try Output()
    let shell = try startShell(
      "setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'echo pid $$ end; exec sleep 600' & wait",
      output)
    let said = try await output.line("end")
    let other = try #require(Self.number(after: "pid", in: said))
    let error = ProcessHostError(.otherUser(other, owner: 65534))
    #expect(error.message.contains("\(other)"))
    #expect(error.message.contains("65534"))
    #expect(throws: error) { try hosted.host.adopt(other, name: "app") }
    // Below one's own as well, and then nothing of the tree is taken.
    #expect(throws: error) { try hosted.host.adopt(shell.processIdentifier, name: "app") }
    #expect(hosted.host.apps().isEmpty)
    kill(other, SIGKILL)
    shell.waitUntilExit()
    try await hosted.end()
  }

  private static let ofKernel = ProcessTable.all().first(where: \.isOfKernel)?.pid

  @Test(.enabled(if: ofKernel != nil, "no thread of the kernel can be seen here"))
  func aThreadOfTheKernelIsRefused() async throws {
    let hosted = try Hosted(.signals)
    let pid = try #require(Self.ofKernel)
    #expect(throws: ProcessHostError(.process(pid, "it is a thread of the kernel"))) {
      try hosted.host.adopt(pid, name: "app")
    }
    try await hosted.end()
  }

  @Test func theCommandNamesTheApp() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let sleep = try startProgram(["/bin/sleep", "600"])
    func adopt(_ arguments: String...) throws -> (status: Int32, said: String) {
      try told(by: ["adopt", "--socket", place.path] + arguments)
    }
    let refused = try adopt("1")
    #expect(refused.status == 1)
    #expect(refused.said.contains("process 1 cannot be an app"))
    #expect(try adopt("--name", "x", "0").status == 64)
    let taken = try adopt("--name", "nap", "\(sleep.processIdentifier)")
    #expect(taken.status == 0)
    #expect(taken.said == "process \(sleep.processIdentifier) is the app 'nap'\n")
    #expect(try host.ask(.apps, nil).apps?.map(\.id) == ["nap"])
    try host.ask(.terminate, "nap")
    sleep.waitUntilExit()
    #expect(sleep.terminationStatus == SIGTERM)
    try await host.endWhenEmpty()
  }

  // MARK: Who descends from whom

  private func line(
    _ pid: Int32, parent: Int32, group: Int32, session: Int32, started: UInt64 = 10, flags: UInt64 = 0
  ) throws -> ProcessStat {
    let text =
      "\(pid) (a) (b) S \(parent) \(group) \(session) 0 -1 \(flags) 0 0 0 0 1 2 0 0 20 0 1 0 \(started) 0"
    return try #require(ProcessStat(pid, Array(text.utf8)))
  }

  @Test func aLineIsRead() throws {
    let one = try line(7, parent: 6, group: 5, session: 4, started: 3)
    #expect((one.pid, one.parent, one.group, one.session) == (7, 6, 5, 4))
    #expect(one.id.started == 3)
    #expect(one.ticks == 3)
    #expect(!one.isOfKernel)
    #expect(try line(2, parent: 0, group: 0, session: 0, flags: 0x20_8040).isOfKernel)
    for text in ["", ")", "7 (a) S 1 2", "7 (a) S x 5 4 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 3 0"] {
      #expect(ProcessStat(7, Array(text.utf8)) == nil)
    }
  }

  @Test func kinAreFound() throws {
    let root = try line(10, parent: 5, group: 10, session: 5)
    let all = try [
      line(1, parent: 0, group: 1, session: 1),
      line(5, parent: 1, group: 5, session: 5),
      line(13, parent: 12, group: 10, session: 5),  // before its parent
      line(12, parent: 10, group: 10, session: 5),
      line(20, parent: 12, group: 20, session: 20),  // a session of its own,
      line(21, parent: 1, group: 21, session: 20),  // whose leader's child has lost its parent
      line(30, parent: 1, group: 10, session: 5, started: 11),  // lost its parent meanwhile
      line(31, parent: 1, group: 10, session: 5, started: 9),  // before
      line(32, parent: 5, group: 10, session: 5, started: 11),  // the shell's, of the same job
      line(33, parent: 1, group: 5, session: 5, started: 11),  // lost by another
      line(40, parent: 10, group: 10, session: 5),  // this process, say
      root,
    ]
    var tree = ProcessTree([root.id], sparing: [40])
    #expect(Set(tree.look(at: all).map(\.pid)) == [12, 13, 20, 21])
    #expect(tree.look(at: all).isEmpty)
    #expect(tree.look(at: all, orphansSince: 10).map(\.pid) == [30])
    // The leader has ended, its session has not; but the number of one that has is of nobody here.
    let later =
      try all.filter { $0.pid != 20 && $0.pid != 12 } + [line(22, parent: 1, group: 22, session: 20)]
    #expect(tree.look(at: later).map(\.pid) == [22])
    let other = try [
      root, line(20, parent: 1, group: 20, session: 20, started: 99),
      line(23, parent: 20, group: 20, session: 20, started: 99),
    ]
    #expect(tree.look(at: other).isEmpty)
  }
}
