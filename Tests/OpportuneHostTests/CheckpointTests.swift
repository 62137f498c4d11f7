import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A stand-in for CRIU, in a folder of its own. It writes what it is asked for to the file `calls`. `dump`
/// ends the process where there is a file `done`, or says so where there is `lives`, once a line has come
/// through the fifo `hold.dump` where that is; else it fails, as `restore` does.
private final class StandIn {
  let place: Place
  var path: String { place.folder.appending(path: "criu").path }

  private static let script = """
    #!/bin/sh
    place=${0%/*}
    echo "$1" >> "$place/calls"
    [ "$1" = check ] && exec test ! -e "$place/broken"
    action=$1
    while [ $# -gt 0 ]; do
      case $1 in -D) folder=$2 ;; -t) root=$2 ;; --freeze-cgroup) group=$2 ;; esac
      shift
    done
    [ "$action" = restore ] && : > "$folder/restore.log"
    [ -p "$place/hold.$action" ] && read -r line < "$place/hold.$action"
    if [ "$action" = dump ] && [ -e "$place/done" ]; then
      echo pages > "$folder/pages.img"
      [ -e "$place/lives" ] || kill -KILL "$root"
      : > "$folder/stats-dump"
      exit
    fi
    [ "$action" = dump ] && echo 1 > "$group/cgroup.freeze" # as it was
    {
      echo "(00.01) Error (criu/util.c:1): rlimit: it is not raised"
      echo "(00.02) Error (criu/files.c:22): files: it has a door open"
      echo "(00.03) Error (criu/files.c:23): something else (of 7): for that"
      echo "(00.04) Error (criu/cr-$action.c:333): It FAILED."
    } > "$folder/$action.log"
    exit 1

    """

  init() throws {
    place = try Place()
    try Data(Self.script.utf8).write(to: URL(filePath: path))
    chmod(path, 0o755)
  }

  func put(_ name: String) throws { try Data().write(to: place.folder.appending(path: name)) }

  var calls: [String] {
    (SystemFile.text(place.folder.appending(path: "calls").path) ?? "").split(separator: "\n").map(
      String.init)
  }

  /// From then on it waits in a dump, or a restore.
  func hold(_ action: String = "dump") {
    mkfifo(place.folder.appending(path: "hold." + action).path, 0o600)
  }

  /// Lets it go on; once it waits.
  func goOn() throws {
    let file = try FileHandle(forWritingTo: place.folder.appending(path: "hold.dump"))
    try file.write(contentsOf: Data("\n".utf8))
    try file.close()
  }
}

/// A host without swap, with checkpoints.
private final class Checkpointing {
  let place: Place
  let key = Hosted.newKey()
  let log = Told()
  let changes = Told()
  private let criu: String?
  private var running: [Hosted] = []

  var hosted: Hosted { running[0] }
  var host: ProcessHost { hosted.host }
  var states: String { place.folder.appending(path: "states").path }
  var files: [String] { SystemFile.names(in: states).sorted() }

  /// - Parameter limit: how long a host that ends waits.
  init(_ criu: String?, hibernatesAfter: Duration? = nil, limit: Duration = .seconds(60)) throws {
    (place, self.criu) = (try Place(), criu)
    try open(hibernatesAfter, limit: limit)
  }

  private func open(_ hibernatesAfter: Duration? = nil, limit: Duration = .seconds(60)) throws {
    let (log, changes) = (log, changes)
    let tool = try criu.map { try CheckpointTool($0, starter: nil) }
    running = [
      try Hosted(
        .cgroup, key: key, hibernatesAfter: hibernatesAfter, states: states, hasSwap: false,
        checkpoints: tool, checkpointLimits: (limit, limit),
        log: { log.append($0) },
        changed: { for one in $0 { changes.append("\(one.name) \(one.state ?? "ended")") } })
    ]
  }

  /// - Parameter meanwhile: done while there is no host.
  func restartHost(limit: Duration = .seconds(60), meanwhile: () async throws -> Void = {}) async throws {
    host.stop()
    running = []
    try await meanwhile()
    try open(limit: limit)
  }

  /// Starts a program that has nothing open which another has.
  func launch(_ command: [String]) throws -> Int32 {
    let nothing = Glibc.open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nothing) }
    return try host.launch(command, name: "app", descriptors: [nothing, nothing, nothing])
  }

  func sleeper() throws -> Int32 { try launch(["/bin/sh", "-c", "exec sleep 600"]) }

  /// Asks until it is hibernated or that is refused.
  func hibernate() async throws {
    var wait = try host.hibernate("app")
    try await eventually("hibernation") {
      if wait != nil { wait = try host.hibernate("app", isAgain: true) }
      return wait == nil
    }
  }

  /// Brings it forward on a thread of its own, as that waits.
  func front() -> Told {
    let (host, told) = (host, Told())
    Thread.detachNewThread {
      do throws(ProcessHostError) {
        try host.bringForward("app")
        told.append("done")
      } catch { told.append(error.message) }
    }
    return told
  }
}

private let mayHold: ConditionTrait = .enabled(
  if: Backends.hasControlGroups && geteuid() == 0, "checkpoints take root and control groups of version 2")

/// Apps that CRIU writes to files.
@Suite(.bounded) struct CheckpointTests {
  // R-LIFE-07
  @Test func aCheckpointIsBetterThanASavedStateAndPagingOutThanBoth() {
    typealias Way = HibernationWay
    #expect(Way.best(notPagedOut: nil, checkpoint: .possible, notSaved: nil) == .pagedOut(notBetter: nil))
    #expect(Way.best(notPagedOut: "y", checkpoint: .possible, notSaved: nil) == .checkpoint(notPagedOut: "y"))
    #expect(Way.best(notPagedOut: "y", checkpoint: .possible, notSaved: "x") == .checkpoint(notPagedOut: "y"))
    #expect(
      Way.best(notPagedOut: "y", checkpoint: .refused("z"), notSaved: nil)
        == .savedState(notBetter: "y; no checkpoint of it is made: z"))
    #expect(
      Way.best(notPagedOut: "y", checkpoint: .refused("z"), notSaved: "x")
        == .pagedOut(notBetter: "no checkpoint of it is made: z; its state is not saved: x"))
  }

  // R-LIFE-07
  @Test(mayHold, .enabled(if: Backends.python != nil, "there is no python3"))
  func whatCannotComeBackIsNotTried() async throws {
    let standIn = try StandIn()
    let checkpointing = try Checkpointing(standIn.path)
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nothing) }
    let terminal = "import os, signal; ends = os.openpty(); print('up', flush=True); signal.pause()"
    for (command, why) in [
      ([try #require(Backends.python), "-c", terminal], "is on the terminal '/dev/pts/"),
      (["/bin/sh", "-c", "echo up; exec sleep 600"], "has a pipe to a process that is not of the app"),
    ] {
      let output = try Output()
      let pid = try checkpointing.host.launch(
        command, name: "app", descriptors: [nothing, output.written, nothing])
      _ = try await output.line("up")
      try await checkpointing.hibernate()
      let entry = try #require(checkpointing.hosted.entry())
      #expect(entry.hibernatedBy?.keepsProcesses == true && entry.pids == [pid])
      try await eventually("the note") {
        checkpointing.hosted.entry()?.notes.contains { $0.contains(why) } == true
      }
      try checkpointing.host.terminate("app")
      try await eventually("its end") { checkpointing.hosted.entry() == nil }
    }
    // Its parent would take it for ended.
    let other = try startProgram(["sleep", "600"], isQuiet: true)
    let refused = CheckpointScope.look(at: [other.processIdentifier], maker: ProcessPrivileges(of: getpid()))
    guard case .possible = refused else {
      Issue.record("\(refused)")
      return
    }
    let shell = try startProgram(["sh", "-c", "sleep 600 & wait"], isQuiet: true)
    var child: Int32?
    try await eventually("the child") {
      child = ProcessTable.all().first { $0.parent == shell.processIdentifier }?.pid
      return child != nil
    }
    guard case .refused(let why) = CheckpointScope.look(at: [try #require(child)], maker: nil) else {
      Issue.record("not refused")
      return
    }
    #expect(why == "process \(shell.processIdentifier), which has started it, would take it for ended")
    for one in [child ?? 0, other.processIdentifier, shell.processIdentifier] where one > 0 {
      kill(one, SIGKILL)
    }
    for one in [other, shell] { one.waitUntilExit() }
    #expect(standIn.calls == ["check"])
    try await checkpointing.hosted.end()
  }

  /// It would come back with less than it had, or not at all.
  // R-LIFE-07
  @Test(.enabled(if: geteuid() == 0 && ProgramFile.find("setpriv").path != nil, "needs root and setpriv"))
  func whoMayDoMoreThanTheHostIsNotTried() async throws {
    let program = try startProgram(["sleep", "600"], isQuiet: true)
    defer { kill(program.processIdentifier, SIGKILL) }
    for (options, lack) in [
      (["--bounding-set", "-sys_boot"], "may have capabilities that this host was started without"),
      (["--no-new-privs"], "may gain privileges, as by sudo, and this host was started with NoNewPrivileges"),
    ] {
      // In the place of a host that was started so.
      let maker = try startProgram(["setpriv"] + options + ["sleep", "600"], isQuiet: true)
      defer { kill(maker.processIdentifier, SIGKILL) }
      try await eventually("the program") { ProcessTable.command(of: maker.processIdentifier) == "sleep" }
      let least = try #require(ProcessPrivileges(of: maker.processIdentifier))
      let look = CheckpointScope.look(at: [program.processIdentifier], maker: least)
      guard case .refused(let why) = look else {
        Issue.record("not refused: \(options)")
        continue
      }
      #expect(why == "process \(program.processIdentifier) of it \(lack)")
      let own = try #require(ProcessPrivileges(of: getpid()))
      #expect(own.lacks(of: least) == nil)
      var (elsewhere, grouped) = (own, own)
      elsewhere.cpus = "77"
      grouped.groups.insert("pids:/x")
      #expect(own.lacks(of: elsewhere) == "has its own choice of CPUs (77), which CRIU does not keep")
      #expect(own.lacks(of: grouped) == "is in the control group 'pids:/x', which it would leave")
      #expect(grouped.lacks(of: own) == nil)
    }
  }

  // R-LIFE-07
  @Test func aHostUnderAFilterMakesNone() throws {
    let filtered = try #require(
      ProcessPrivileges(status: "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nCapBnd:\t000001ffffffffff\n"))
    #expect(filtered.isFiltered && filtered.hasNoNew && filtered.bounding == 0x1ff_ffff_ffff)
    #expect(CheckpointTool.lack(filtered)?.contains("under the filter of system calls") == true)
    // As of a kernel without filters.
    let free = try #require(ProcessPrivileges(status: "Name:\tx\nCapBnd:\t1f\n"))
    #expect(!free.isFiltered && !free.hasNoNew && CheckpointTool.lack(free) == nil)
    #expect(ProcessPrivileges(status: "") == nil && ProcessPrivileges(status: "CapBnd:\tx\n") == nil)
  }

  // R-LIFE-07
  @Test func aCommandThatIsNoneIsRefused() throws {
    let place = try Place()
    for path in ["/nowhere/criu", place.folder.path, "/etc/passwd"] {
      let error = #expect(throws: ProcessHostError.self) { try CheckpointTool(path, starter: nil) }
      #expect(error?.message == "the command of CRIU is '\(path)': expected a file that may be executed")
    }
    let (status, said) = try told(by: [
      "host", "--socket", place.path, "--bus", "none", "--front", "none", "--criu", "/nowhere/criu",
    ])
    #expect(status == 1)
    #expect(said.contains("the command of CRIU is '/nowhere/criu': expected a file that may be executed"))
  }

  // R-LIFE-07
  @Test(mayHold) func aCommandWhoseCheckFailsIsToldAndNotUsed() async throws {
    let standIn = try StandIn()
    try standIn.put("broken")
    let checkpointing = try Checkpointing(standIn.path)
    let lack = "'\(standIn.path) check' fails: it ended with status 1"
    #expect(checkpointing.host.notes.contains("no checkpoints are made: \(lack)"))
    _ = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    #expect(checkpointing.hosted.entry()?.hibernatedBy?.keepsProcesses == true)
    try await eventually("the note") {
      checkpointing.hosted.entry()?.notes.contains { $0.contains("no checkpoint of it is made: \(lack)") }
        == true
    }
    #expect(standIn.calls == ["check"])
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold) func whereNoCheckpointCanBeMadeItIsAsItWas() async throws {
    let standIn = try StandIn()
    let checkpointing = try Checkpointing(standIn.path)
    let pid = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    let entry = try #require(checkpointing.hosted.entry())
    #expect(entry.state == "hibernated" && entry.hibernatedBy?.keepsProcesses == true && entry.pids == [pid])
    #expect(entry.notes.contains("no checkpoint of it was made: files: it has a door open"))
    #expect(SystemFile.value(of: "frozen", in: try #require(entry.cgroup) + "/cgroup.events") == 1)
    #expect(standIn.calls == ["check", "dump"] && checkpointing.files == [])
    // It is not asked again until it has gone on.
    try await checkpointing.hibernate()
    #expect(standIn.calls == ["check", "dump"])
    try checkpointing.host.resume("app")
    #expect(checkpointing.hosted.entry()?.state == "background")
    try await checkpointing.hibernate()
    #expect(standIn.calls == ["check", "dump", "dump"])
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold) func whatCannotBeRestoredStaysInItsFiles() async throws {
    let standIn = try StandIn()
    try standIn.put("done")
    let checkpointing = try Checkpointing(standIn.path)
    let pid = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    let entry = try #require(checkpointing.hosted.entry())
    #expect(entry.state == "hibernated" && entry.hibernatedBy == .checkpoint && entry.pids == [])
    #expect(entry.notes.first?.contains("it was not paged out: there is no swap") == true, "\(entry.notes)")
    #expect(checkpointing.files == ["app.checkpoint"])
    #expect(!SystemFile.exists("/proc/\(pid)"))
    // Nobody would hear it, and nobody may have its name.
    for attempt in [
      { _ = try checkpointing.host.notify("app", Message("letter")) }, { _ = try checkpointing.sleeper() },
      { try checkpointing.host.keep("app") },
    ] {
      let error = #expect(throws: ProcessHostError.self) { try attempt() }
      #expect(error?.message.contains("it is hibernated by a checkpoint") == true)
    }
    let why = "files: it has a door open"
    for _ in 0..<2 {
      let error = #expect(throws: ProcessHostError.self) { try checkpointing.host.bringForward("app") }
      #expect(error?.message == "app 'app': it could not be restored, and its checkpoint is kept: \(why)")
      #expect(checkpointing.hosted.entry()?.notes == ["hibernated: it could not be restored: \(why)"])
      #expect(
        checkpointing.hosted.entry()?.state == "hibernated" && checkpointing.files == ["app.checkpoint"])
    }
    #expect(
      checkpointing.log.lines.contains { $0.hasPrefix("'app' could not be restored, and its checkpoint") })
    #expect(standIn.calls == ["check", "dump", "restore", "restore"])
    // Who has no more use of it says so.
    try checkpointing.host.terminate("app")
    #expect(checkpointing.hosted.entry() == nil && checkpointing.files == [])
    #expect(checkpointing.changes.lines.last == "app ended")
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold) func whatCouldNotBeStartedLosesNothing() async throws {
    let standIn = try StandIn()
    try standIn.put("done")
    let checkpointing = try Checkpointing(standIn.path)
    _ = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    chmod(standIn.path, 0o644)
    let error = #expect(throws: ProcessHostError.self) { try checkpointing.host.bringForward("app") }
    #expect(error?.message.contains("could not be started: Permission denied") == true)
    #expect(checkpointing.hosted.entry()?.hibernatedBy == .checkpoint)
    #expect(checkpointing.files == ["app.checkpoint"])
    try checkpointing.host.terminate("app")
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold) func whoseNumberAnotherHasStaysInFilesUntilThatIsFree() async throws {
    let standIn = try StandIn()
    for name in ["done", "lives"] { try standIn.put(name) }
    let checkpointing = try Checkpointing(standIn.path)
    let pid = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    let why = "process \(pid) is there, whose number is that of one of its own"
    let error = #expect(throws: ProcessHostError.self) { try checkpointing.host.resume("app") }
    #expect(error?.message == "app 'app': it could not be restored, and its checkpoint is kept: \(why)")
    let entry = try #require(checkpointing.hosted.entry())
    #expect(entry.state == "hibernated" && entry.notes == ["hibernated: it could not be restored: \(why)"])
    #expect(standIn.calls == ["check", "dump"] && checkpointing.files == ["app.checkpoint"])
    // It has ended by now, as what is in the app's group is not to stay.
    #expect(throws: ProcessHostError.self) { try checkpointing.host.resume("app") }
    #expect(standIn.calls == ["check", "dump", "restore"])
    try checkpointing.host.terminate("app")
    #expect(checkpointing.files == [])
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07, R-MEM-08
  @Test(mayHold) func whoIsNotUsedForLongLeavesAsWell() async throws {
    let standIn = try StandIn()
    try standIn.put("done")
    let checkpointing = try Checkpointing(standIn.path, hibernatesAfter: .milliseconds(50))
    _ = try checkpointing.sleeper()
    try checkpointing.host.suspend("app")
    try await eventually("its checkpoint") { checkpointing.hosted.entry()?.hibernatedBy == .checkpoint }
    try checkpointing.host.terminate("app")
    #expect(checkpointing.hosted.entry() == nil)
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold, arguments: [true, false])
  func whoIsToGoOnMeanwhileWaitsForItsCheckpoint(isMade: Bool) async throws {
    let standIn = try StandIn()
    if isMade { try standIn.put("done") }
    standIn.hold()
    let checkpointing = try Checkpointing(standIn.path)
    let pid = try checkpointing.sleeper()
    #expect(try checkpointing.host.hibernate("app")?.reason == "a checkpoint of it is being made")
    let told = checkpointing.front()
    try await eventually("the dump") { standIn.calls == ["check", "dump"] }
    #expect(checkpointing.hosted.entry()?.state == "suspended" && told.lines == [])
    try standIn.goOn()
    try await eventually("an answer") { !told.lines.isEmpty }
    if isMade {
      #expect(told.lines.first?.contains("it could not be restored, and") == true)
      #expect(standIn.calls == ["check", "dump", "restore"])
    } else {
      #expect(told.lines == ["done"])
      #expect(
        checkpointing.hosted.entry()?.state == "foreground" && checkpointing.hosted.entry()?.pids == [pid])
    }
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold) func whoIsTerminatedMeanwhileLeavesNothing() async throws {
    let standIn = try StandIn()
    standIn.hold()
    let checkpointing = try Checkpointing(standIn.path)
    _ = try checkpointing.sleeper()
    _ = try checkpointing.host.hibernate("app")
    try await eventually("the dump") { standIn.calls == ["check", "dump"] }
    try checkpointing.host.terminate("app")
    try standIn.goOn()
    try await eventually("its end") { checkpointing.hosted.entry() == nil }
    #expect(checkpointing.files == [])
    try await checkpointing.hosted.end()
  }

  // R-LIFE-07
  @Test(mayHold) func aCheckpointOutlivesTheHostAndIsDroppedWithItsApp() async throws {
    let standIn = try StandIn()
    try standIn.put("done")
    standIn.hold()
    let checkpointing = try Checkpointing(standIn.path)
    _ = try checkpointing.sleeper()
    _ = try checkpointing.host.hibernate("app")
    // A host that ends waits for it.
    try await eventually("the dump") { standIn.calls == ["check", "dump"] }
    try standIn.goOn()
    mkdir(checkpointing.states + "/other.checkpoint", 0o700)
    try await checkpointing.restartHost()
    let entry = try #require(checkpointing.hosted.entry())
    #expect(entry.state == "hibernated" && entry.hibernatedBy == .checkpoint)
    #expect(checkpointing.files == ["app.checkpoint"])
    #expect(
      checkpointing.log.lines.contains(
        "a checkpoint of 'other' that was not at its end when a host ended is removed"))
    try checkpointing.host.terminate("app")
    #expect(checkpointing.hosted.entry() == nil && checkpointing.files == [])
    try await checkpointing.hosted.end()
  }

  /// CRIU goes on without its host, and the next one sees it at work.
  // R-LIFE-07
  @Test(mayHold, arguments: [true, false])
  func theNextHostSeesToTheEndOfACheckpoint(isMade: Bool) async throws {
    let standIn = try StandIn()
    if isMade { try standIn.put("done") }
    standIn.hold()
    let checkpointing = try Checkpointing(standIn.path, limit: .milliseconds(1))
    let pid = try checkpointing.sleeper()
    _ = try checkpointing.host.hibernate("app")
    try await eventually("the dump") { standIn.calls == ["check", "dump"] }
    try await checkpointing.restartHost(limit: .milliseconds(1))
    #expect(checkpointing.log.lines.contains { $0.hasPrefix("a checkpoint of 'app' is being made still") })
    #expect(checkpointing.hosted.entry()?.pids == [pid])
    let reason = "a checkpoint of it is being made"
    #expect(try checkpointing.host.suspend("app")?.reason == reason)
    #expect(try checkpointing.host.hibernate("app")?.reason == reason)
    let group = try #require(checkpointing.hosted.entry()?.cgroup)
    try standIn.goOn()
    try await eventually("its end") {
      let entry = checkpointing.hosted.entry()
      return isMade
        ? entry?.hibernatedBy == .checkpoint && entry?.state == "hibernated"
        : entry?.notes.contains("no checkpoint of it was made: files: it has a door open") == true
    }
    #expect(checkpointing.files == (isMade ? ["app.checkpoint"] : []))
    if !isMade {
      #expect(checkpointing.hosted.entry()?.state == "background")
      // CRIU has frozen it again.
      #expect(SystemFile.text(group + "/cgroup.freeze") == "0\n")
    }
    try checkpointing.host.terminate("app")
    try await checkpointing.hosted.end()
  }

  /// The processes went while no host was there.
  // R-LIFE-07
  @Test(mayHold, arguments: [true, false])
  func aCheckpointThatWasMadeWithoutAHostIsThere(isMade: Bool) async throws {
    let standIn = try StandIn()
    standIn.hold()
    let checkpointing = try Checkpointing(standIn.path, limit: .milliseconds(1))
    let pid = try checkpointing.sleeper()
    _ = try checkpointing.host.hibernate("app")
    try await eventually("the dump") { standIn.calls == ["check", "dump"] }
    try await checkpointing.restartHost(meanwhile: {
      if isMade { try standIn.put("done") } else { kill(pid, SIGKILL) }
      try standIn.goOn()
      try await eventually("its end") { ProcessStat(of: pid)?.hasEnded != false }
    })
    #expect(checkpointing.hosted.entry()?.hibernatedBy == (isMade ? .checkpoint : nil))
    #expect(checkpointing.files == (isMade ? ["app.checkpoint"] : []))
    if isMade { try checkpointing.host.terminate("app") }
    try await checkpointing.hosted.end()
  }

  /// What a host had begun to make again that was killed: what is made lives, what is not stays in files.
  // R-LIFE-07
  @Test(mayHold, arguments: [true, false]) func aRestoreWithoutAHostIsDoneOrNot(isMade: Bool) async throws {
    let standIn = try StandIn()
    try standIn.put("done")
    let checkpointing = try Checkpointing(standIn.path)
    _ = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    let folder = checkpointing.states + "/app.checkpoint"
    let program = try startProgram(["sleep", "600"])
    let pid = program.processIdentifier
    try await checkpointing.restartHost(meanwhile: {
      for name in isMade ? ["restore.log", "stats-restore"] : ["restore.log"] {
        try Data().write(to: URL(filePath: folder + "/" + name))
      }
      let group = try ControlGroupTree(key: checkpointing.key).group("app")
      #expect(SystemFile.write("\(pid)", to: group.path + "/cgroup.procs") == 0)
    })
    let entry = try #require(checkpointing.hosted.entry())
    #expect(entry.hibernatedBy == (isMade ? nil : .checkpoint) && entry.pids == (isMade ? [pid] : []))
    #expect(checkpointing.files == (isMade ? [] : ["app.checkpoint"]))
    try checkpointing.host.terminate("app")
    program.waitUntilExit()
    try await checkpointing.hosted.end()
  }

  /// A host that ends does not wait for long; what did not come back stays in files.
  // R-LIFE-07
  @Test(mayHold) func aHostThatEndsStopsARestore() async throws {
    let standIn = try StandIn()
    try standIn.put("done")
    standIn.hold("restore")
    let checkpointing = try Checkpointing(standIn.path, limit: .milliseconds(1))
    _ = try checkpointing.sleeper()
    try await checkpointing.hibernate()
    let told = checkpointing.front()
    try await eventually("the restore") { standIn.calls.last == "restore" }
    try await checkpointing.restartHost()
    #expect(checkpointing.hosted.entry()?.hibernatedBy == .checkpoint)
    #expect(checkpointing.files == ["app.checkpoint"])
    try await eventually("an answer") { !told.lines.isEmpty }
    try checkpointing.host.terminate("app")
    try await checkpointing.hosted.end()
  }

  /// CRIU itself, and a program that knows of nothing.
  // R-LIFE-07
  @Test(
    mayHold, .enabled(if: Backends.python != nil, "there is no python3"),
    .enabled(if: realCRIU != nil, "OPPORTUNE_CRIU names no command of CRIU: scripts/install-criu"))
  func aServerComesBackAsItWas() async throws {
    let checkpointing = try Checkpointing(realCRIU)
    try #require(checkpointing.host.notes.allSatisfy { !$0.contains("checkpoint") })
    let port = try freePort()
    let pid = try checkpointing.launch([
      try #require(Backends.python), "-m", "http.server", "\(port)", "--bind", "127.0.0.1", "--directory",
      "/usr",
    ])
    try await eventually("an answer") { answers(port) }
    for isForeground in [true, false] {
      try await checkpointing.hibernate()
      let entry = try #require(checkpointing.hosted.entry())
      #expect(entry.hibernatedBy == .checkpoint && entry.pids == [], "\(entry)")
      #expect(!SystemFile.exists("/proc/\(pid)") && !answers(port))
      let files = checkpointing.states + "/app.checkpoint"
      var status = stat()
      #expect(stat(files, &status) == 0 && status.st_mode & 0o777 == 0o700)
      if isForeground {
        try checkpointing.host.bringForward("app")
      } else {
        try checkpointing.host.resume("app")
      }
      let back = try #require(checkpointing.hosted.entry())
      #expect(back.state == (isForeground ? "foreground" : "background") && back.pids == [pid])
      #expect(answers(port))
      #expect(ProcessStat(of: pid)?.parent == getpid() && checkpointing.files == [])
      #expect(back.cgroup != nil && ControlGroupTree.group(of: pid) == back.cgroup)
    }
    // The user goes on while a checkpoint is made.
    _ = try checkpointing.host.hibernate("app")
    try checkpointing.host.bringForward("app")
    try await eventually("the foreground") { checkpointing.hosted.entry()?.state == "foreground" }
    #expect(answers(port) && checkpointing.hosted.entry()?.pids == [pid])
    // Its end is seen, and nothing of it stays in the table of processes.
    try checkpointing.host.terminate("app")
    try await eventually("its end") { checkpointing.hosted.entry() == nil }
    #expect(!SystemFile.exists("/proc/\(pid)"))
    try await checkpointing.hosted.end()
  }
}

private let realCRIU = ProcessInfo.processInfo.environment["OPPORTUNE_CRIU"]

/// One that nobody has just now.
private func freePort() throws -> UInt16 {
  let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(listener) }
  var address = sockaddr_in()
  var size = socklen_t(MemoryLayout<sockaddr_in>.size)
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = inet_addr("127.0.0.1")
  let result = withUnsafeMutablePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(listener, $0, size) == 0 ? getsockname(listener, $0, &size) : -1
    }
  }
  guard result == 0 else { throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO) }
  return UInt16(bigEndian: address.sin_port)
}

/// Whether a server answers a request.
private func answers(_ port: UInt16) -> Bool {
  guard let client = try? connectHere(port) else { return false }
  defer { close(client) }
  var limit = timeval(tv_sec: 5, tv_usec: 0)
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  let request = "GET / HTTP/1.0\r\n\r\n"
  guard write(client, request, request.utf8.count) > 0 else { return false }
  var bytes = [UInt8](repeating: 0, count: 12)
  return recv(client, &bytes, bytes.count, Int32(MSG_WAITALL)) == 12
    && String(decoding: bytes, as: UTF8.self) == "HTTP/1.0 200"
}
