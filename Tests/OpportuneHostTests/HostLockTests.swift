import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Locks of files that an app holds when it is to be suspended.
@Suite(.bounded) struct HostLockTests {
  // MARK: Policy

  private static let lock = HeldLock(
    path: "/a", kind: "FLOCK", isExclusive: true, holder: 7, waiters: [])
  private static let waited = HeldLock(
    path: "/b", kind: "POSIX", isExclusive: false, holder: 8, waiters: [9])

  // R-LOCK-01, R-LOCK-04
  @Test(
    arguments: [
      // Nothing is held, from the first or in the end.
      (LockPolicy.Answer.refuse, [], 0, LockPolicy.Decision.suspend),
      (.terminate, [], 5, .suspend),
      (.refuse, [lock], 0, .wait(until: .seconds(12), "process 7 holds a write lock (FLOCK) of '/a'")),
      (.terminate, [lock], 1.999, .wait(until: .seconds(12), "process 7 holds a write lock (FLOCK) of '/a'")),
      (.refuse, [lock], 2, .refuse("process 7 holds a write lock (FLOCK) of '/a'")),
      (.terminate, [lock], 3, .terminate("process 7 holds a write lock (FLOCK) of '/a'")),
      (.ignore, [lock, waited], 0, .suspend),
      // The one that keeps somebody waiting is named.
      (
        .refuse, [lock, waited], 2,
        .refuse("process 8 holds a read lock (POSIX) of '/b', for which process 9 waits, and 1 more")
      ),
    ] as [(LockPolicy.Answer, [HeldLock], Double, LockPolicy.Decision)])
  func theAnswerFollowsThePolicy(
    answer: LockPolicy.Answer, held: [HeldLock], later: Double, decision: LockPolicy.Decision
  ) {
    let policy = LockPolicy(grace: .seconds(2), answer: answer)
    #expect(policy.decide(held, askedAt: .seconds(10), now: .seconds(10 + later)) == decision)
  }

  // MARK: What the kernel tells

  private func parsed(_ text: String) -> [FileLock] { FileLock.all(in: Array(text.utf8)) }

  @Test func linesAreRead() throws {
    let all = parsed(
      """
      1: POSIX  ADVISORY  READ 100 fe:00:12 1073741826 1073742335
      2: FLOCK  ADVISORY  WRITE 101 fe:00:13 0 EOF
      2: -> FLOCK  ADVISORY  WRITE 102 fe:00:13 0 EOF
      2:   -> FLOCK  ADVISORY  WRITE 103 fe:00:13 0 EOF
      3: OFDLCK ADVISORY  WRITE -1 fe:00:14 0 EOF
      4: LEASE  ACTIVE    WRITE 104 fe:00:15 0 EOF
      lock:\t5: FLOCK  ADVISORY  READ 0 fe:00:16 0 EOF
      """)
    #expect(all.map(\.kind) == [.posix, .flock, .flock, .flock, .ofd, .lease, .flock])
    #expect(all.map(\.pid) == [100, 101, 102, 103, -1, 104, 0])
    #expect(all.map(\.isWaiting) == [false, false, true, true, false, false, false])
    #expect(all.map(\.isExclusive) == [false, true, true, true, true, true, false])
    #expect(all[1].file == "fe:00:13")

    let found = all.filter { $0.kind == .ofd }.map { HeldLocks.Found(pid: 7, path: "/x", lock: $0) }
    let held = HeldLocks.held(by: [7, 101, 103], all, found)
    #expect(held.map(\.path) == ["/x", "file fe:00:13"])
    #expect(held.map(\.holder) == [7, 101])
    // A member that waits for its own app keeps nobody else waiting.
    #expect(held.map(\.waiters) == [[], [102]])
    #expect(HeldLocks.held(by: [7], all, []).isEmpty)
  }

  @Test func malformedLinesArePassedOver() {
    let good = "2: FLOCK  ADVISORY  WRITE 101 fe:00:13 0 EOF"
    for bad in [
      "", ":", "2:", "2 FLOCK ADVISORY WRITE 101 fe:00:13 0 EOF", "x: FLOCK ADVISORY WRITE 1 fe:00:13 0 EOF",
      "2: -> ", "2: FLOCK ADVISORY WRITE", "2: FLOCK ADVISORY WRITE 99999999999 fe:00:13 0 EOF",
      "2: FLOCK ADVISORY WRITE -2 fe:00:13 0 EOF", "2: FLOCK ADVISORY WRITE one fe:00:13 0 EOF",
      "2: FLOCK ADVISORY WRITE 1 fe:00 0 EOF", "2: FLOCK ADVISORY WRITE 1 fe:00:zz 0 EOF",
      "2: FLOCK ADVISORY WRITE 1 fe:00:99999999999999999999 0 EOF", "2: DELEG ACTIVE READ 1 fe:00:13 0 EOF",
      "lock: lock: 2: FLOCK ADVISORY WRITE 1 fe:00:13 0 EOF", "\u{0}\u{1}\u{fffd}",
      "2: FLOCK ADVISORY WRITE 1 fe:00:13 0 EOF" + String(repeating: " ", count: FileLock.longestLine),
    ] {
      #expect(parsed(bad).isEmpty, "\(bad)")
      #expect(parsed(bad + "\n" + good + "\n").count == 1, "\(bad)")
    }
    #expect(FileLock.all(in: [0xff, 0xfe, 10] + Array(good.utf8)).count == 1)
    let many = String(repeating: good + "\n", count: FileLock.most + 10)
    #expect(parsed(many).count == FileLock.most)
    var random = SplitMix64(seed: 7)
    for _ in 0..<2000 {
      var bytes = Array(good.utf8)
      for _ in 0..<3 {
        bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
      }
      #expect(FileLock.all(in: bytes).count <= 1)
    }
  }

  // MARK: Real programs

  /// A pipe to a program, whose end of it waits.
  private func input() throws -> Output {
    let pipe = try Output()
    _ = fcntl(pipe.read, F_SETFL, 0)
    return pipe
  }

  private func waits(_ hosted: Hosted) async throws -> [HeldLock] {
    var held: [HeldLock] = []
    try await eventually("its lock") {
      held = HeldLocks.look(at: hosted.entry()?.pids ?? [])
      return !held.isEmpty
    }
    return held
  }

  /// What becomes of a suspension that waits.
  private func outcome(_ hosted: Hosted) async throws -> ProcessHostError? {
    var error: ProcessHostError?
    try await eventually("the end of the grace") {
      do throws(ProcessHostError) {
        return try hosted.host.suspend("app", isAgain: true) == nil
      } catch let thrown {
        error = thrown
        return true
      }
    }
    return error
  }

  // R-LOCK-01, R-LOCK-03
  @Test(.enabled(if: SystemFile.exists("/usr/bin/flock"), "no flock is there"), arguments: Backends.usable)
  func whoHoldsALockStaysRunning(backend: Backend) async throws {
    let place = try Place()
    let hosted = try Hosted(backend, locks: LockPolicy(grace: .milliseconds(300)))
    let file = place.folder.appending(path: "lock").path
    let pid = try hosted.shell("exec flock '\(file)' sleep 600")
    #expect(try await waits(hosted).first?.path == file)
    let other = try startProgram(["/usr/bin/flock", file, "true"])
    try await eventually("who waits") {
      FileLock.all(in: SystemFile.bytes("/proc/locks") ?? []).contains {
        $0.isWaiting && $0.pid == other.processIdentifier
      }
    }
    let (wait, reason) = try #require(try hosted.host.suspend("app"))
    #expect(wait > .zero && wait <= .milliseconds(300))
    #expect(reason.contains(file))
    #expect(hosted.entry()?.state == "background")
    let error = try #require(try await outcome(hosted))
    guard case .locked("app", let why, isTerminated: false) = error.code else { throw error }
    #expect(why.contains("process \(pid) holds a write lock (FLOCK) of '\(file)'"))
    #expect(why.contains("for which process \(other.processIdentifier) waits"))
    #expect(hosted.entry()?.state == "background")
    #expect(hosted.entry()?.notes.contains { $0.contains(file) } == true)
    #expect(!isStopped(pid))
    // Told once; the next request begins anew, and may say otherwise.
    #expect(try hosted.host.suspend("app") != nil)
    #expect(try hosted.host.suspend("app", locks: .ignore) == nil)
    #expect(hosted.entry()?.state == "suspended")
    #expect(hosted.entry()?.notes.contains { $0.contains("is not suspended") } == false)
    try await hosted.end()
    other.waitUntilExit()
  }

  // R-LOCK-04
  @Test(.enabled(if: SystemFile.exists("/usr/bin/flock"), "no flock is there"), arguments: Backends.usable)
  func whoLetsGoIsSuspended(backend: Backend) async throws {
    let place = try Place()
    let hosted = try Hosted(backend, locks: LockPolicy(grace: .seconds(2), answer: .terminate))
    let input = try input()
    _ = try hosted.host.launch(
      ["/bin/sh", "-c", "flock '\(place.folder.path)' sh -c 'read line'; exec sleep 600"], name: "app",
      descriptors: [input.read, -1, -1])
    _ = try await waits(hosted)
    #expect(try hosted.host.suspend("app") != nil)
    #expect(write(input.written, "\n", 1) == 1)
    #expect(try await outcome(hosted) == nil)
    #expect(hosted.entry()?.state == "suspended")
    try await hosted.end()
  }

  // R-LOCK-01
  @Test(.enabled(if: SystemFile.exists("/usr/bin/flock"), "no flock is there"), arguments: Backends.usable)
  func aLockThatIsTakenMeanwhileIsSeen(backend: Backend) async throws {
    let place = try Place()
    let hosted = try Hosted(backend, locks: LockPolicy(grace: .zero))
    // Held for about half of the time.
    _ = try hosted.shell("while :; do flock '\(place.folder.path)' sleep 0.005; sleep 0.005; done")
    var (suspended, refused) = (0, 0)
    try await eventually("stops in between, and others") {
      do throws(ProcessHostError) {
        try hosted.host.suspend("app")
        suspended += 1
        let held = HeldLocks.look(at: hosted.entry()?.pids ?? [])
        #expect(held.isEmpty)
        try hosted.host.resume("app")
      } catch {
        guard case .locked = error.code else { throw error }
        refused += 1
        #expect(hosted.entry()?.state == "background")
      }
      return suspended >= 5 && refused >= 5
    }
    try await hosted.end()
  }

  // R-LOCK-01, R-LOCK-03
  @Test(
    .enabled(if: SystemFile.exists("/usr/bin/sqlite3"), "no sqlite3 is there"), arguments: Backends.usable)
  func aTransactionEndsWithItsApp(backend: Backend) async throws {
    let place = try Place()
    let hosted = try Hosted(backend, locks: LockPolicy(grace: .zero, answer: .terminate))
    let file = place.folder.appending(path: "data").path
    let (input, output) = (try input(), try Output())
    _ = try hosted.host.launch(
      ["/usr/bin/sqlite3", file], name: "app", descriptors: [input.read, output.written, -1])
    func say(_ line: String) async throws {
      let bytes = Array((line + " SELECT 'said' || 'it';\n").utf8)
      #expect(write(input.written, bytes, bytes.count) == bytes.count)
      _ = try await output.line("saidit")
    }
    try await say("CREATE TABLE t(a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT;")
    // Between transactions it is as any other.
    #expect(try hosted.host.suspend("app") == nil)
    try hosted.host.resume("app")
    try await say("BEGIN IMMEDIATE; INSERT INTO t VALUES (2);")
    do throws(ProcessHostError) {
      _ = try hosted.host.suspend("app")
      Issue.record("it was suspended")
    } catch {
      guard case .locked("app", let why, isTerminated: true) = error.code else { throw error }
      #expect(why.contains("(POSIX)"))
      #expect(why.contains(file))
    }
    try await eventually("its end") { hosted.host.apps().isEmpty }
    try await hosted.end()
  }

  // R-LOCK-03
  @Test(.enabled(if: Backends.python != nil, "no python3 is there"), arguments: Backends.usable)
  func locksOfOpenFilesAreFound(backend: Backend) async throws {
    let place = try Place()
    let hosted = try Hosted(backend, locks: LockPolicy(grace: .zero))
    let file = place.folder.appending(path: "lock").path
    // Held by the child, whose parent took it and has ended.
    let script = """
      import fcntl, os, struct, sys, time
      f = open(sys.argv[1], 'w')
      fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
      if os.fork(): os._exit(0)
      time.sleep(600)
      """
    let python = try #require(Backends.python)
    let first = try hosted.host.launch([python, "-c", script, file], name: "app")
    try await eventually("its fork") { hosted.entry().map { !$0.pids.contains(first) } == true }
    let pid = try #require(hosted.entry()?.pids.first)
    #expect(
      throws: ProcessHostError(
        .locked("app", "process \(pid) holds a write lock (OFDLCK) of '\(file)'", isTerminated: false))
    ) { try hosted.host.suspend("app") }
    #expect(hosted.entry()?.state == "background")
    try await hosted.end()
  }

  // MARK: The command

  @Test(.enabled(if: SystemFile.exists("/usr/bin/flock"), "no flock is there"))
  func theCommandWaitsAndTells() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto, options: ["--lock-grace", "0.2"])
    let file = place.folder.appending(path: "lock").path
    let output = try Output()
    let program = try host.run(["flock", file, "sh", "-c", "echo up; exec sleep 600"], output: output)
    _ = try await output.line("up")
    func suspend(_ arguments: String...) throws -> (status: Int32, said: String) {
      try told(by: ["suspend", "--socket", place.path, "flock"] + arguments)
    }
    let refused = try suspend()
    #expect(refused.status == 1)
    #expect(refused.said.contains("Note: app 'flock' goes on for now"))
    #expect(refused.said.contains("app 'flock' is not suspended: process"))
    #expect(refused.said.contains(file))
    #expect(try host.ask(.apps, nil).apps?.first?.state == "background")
    #expect(try suspend("--locks", "ignore").status == 0)
    #expect(try host.ask(.apps, nil).apps?.first?.state == "suspended")
    try host.ask(.terminate, "flock")
    program.waitUntilExit()
    try await host.endWhenEmpty()
  }
}
