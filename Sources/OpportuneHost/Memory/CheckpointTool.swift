internal import COpportuneHost
import Foundation
internal import Glibc
internal import OpportuneBase

/// CRIU, which writes all that processes are to files and ends them, and makes them again of that. It is a
/// program of others, which this host starts for each of the two. Any thread.
package struct CheckpointTool: Sendable {
  /// Its file, from the root.
  package let path: String
  /// What starts it; `nil`: this process itself.
  private let starter: ProgramStarter?
  /// Why it makes no checkpoints here, for people; `nil`: it does.
  package let lack: String?
  /// What it is started with, and what it makes cannot have more of.
  let privileges: ProcessPrivileges?

  /// Runs its own check.
  ///
  /// - Parameter path: of its file; it may be relative.
  /// - Throws: ``ProcessHostError``: `value` where that is no program.
  package init(_ path: String, starter: ProgramStarter?) throws(ProcessHostError) {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, access(path, X_OK) == 0 else {
      throw ProcessHostError(
        .value("the command of CRIU", "'\(path.printable)'", "expected a file that may be executed"))
    }
    self.path = SystemFile.absolute(path)
    self.starter = starter
    privileges = ProcessPrivileges(of: starter?.pid ?? getpid())
    if let lack = Self.lack(privileges) {
      self.lack = lack
      return
    }
    guard geteuid() == 0 else {
      lack = "only root's host makes checkpoints"
      return
    }
    lack = Self.run(self.path, ["check"], starter, folder: nil, log: "").failure.map {
      "'\(path.printable) check' fails: \($0)"
    }
  }

  static func lack(_ privileges: ProcessPrivileges?) -> String? {
    guard privileges?.isFiltered == true else { return nil }
    return "what it makes again would be under the filter of system calls that this host was started with"
  }

  /// What is measured to be needed: sockets and locks of files are the program's still when it comes back,
  /// and its group is the host's.
  private static let terms = [
    "--tcp-established", "--network-lock", "skip", "--file-locks", "--manage-cgroups=ignore", "-v1",
  ]

  /// Writes the processes of a frozen group to files, and ends them. Takes as long as that does.
  ///
  /// - Parameters:
  ///   - root: the process of which all others descend.
  ///   - inherited: as of ``restore(from:inherited:group:entrance:)``.
  ///   - group: thawed when nothing of it can run any more, and frozen again where it fails.
  /// - Returns: `nil`: it is done; else the reason why not: the group is frozen as it was.
  func dump(_ root: pid_t, inherited: [String], group: String, to folder: String) -> String? {
    // Of a socket it is to be told that its other end is nobody's of the app.
    let sockets = inherited.compactMap { text in
      text.range(of: ":socket:[").map { "unix[" + text[$0.upperBound...] }
    }
    return Self.run(
      path,
      ["dump", "-t", "\(root)", "-D", folder, "-o", Self.dumpLog, "--freeze-cgroup", group] + Self.terms
        + sockets.flatMap { ["--external", $0] },
      starter, folder: folder, log: Self.dumpLog
    ).failure
  }

  /// Makes the processes again, in the groups in which it is started itself; the first is this process's
  /// child.
  ///
  /// - Parameters:
  ///   - inherited: descriptors of this process that stand for what the program had, as `fd[1]:pipe:[77]`.
  ///   - group: a descriptor of the folder of the control group; -1: none.
  ///   - entrance: a descriptor by which a group of version 1 is entered; -1: none.
  func restore(
    from folder: String, inherited: [String], group: Int32, entrance: Int32
  ) -> CheckpointRun.Outcome {
    Self.run(
      path,
      ["restore", "-D", folder, "-o", Self.restoreLog, "--restore-detached", "--restore-sibling"] + Self.terms
        + inherited.flatMap { ["--inherit-fd", $0] },
      starter, folder: folder, log: Self.restoreLog, group: group, entrance: entrance,
      inherits: !inherited.isEmpty)
  }

  // MARK: What a host before has started

  /// What is locked while CRIU is at work in a folder: its standard input, which nobody has open but CRIU and
  /// who is about to become it. So a host that comes after one that was killed knows of it, by no number of a
  /// process.
  private static let held = "/at-work"
  private static let (dumpLog, restoreLog) = ("dump.log", "restore.log")
  /// What CRIU writes at its end, once the processes have gone or are there.
  private static let (dumped, restored) = ("/stats-dump", "/stats-restore")

  /// Waits until CRIU is at work in a folder no longer.
  ///
  /// - Parameter end: `nil`: however long that takes.
  /// - Returns: whether that came about.
  static func waitForEnd(in folder: String, until end: ContinuousClock.Instant?) -> Bool {
    let file = open(folder + held, O_RDWR | O_CLOEXEC)
    guard file >= 0 else { return errno == ENOENT }
    defer { close(file) }
    guard let end else {
      while flock(file, LOCK_EX) != 0 { guard errno == EINTR else { return false } }
      return true
    }
    while flock(file, LOCK_EX | LOCK_NB) != 0 {
      guard ContinuousClock.now < end else { return false }
      usleep(1000)
    }
    return true
  }

  /// Waits until CRIU is at work in no folder of a host's: it freezes again what it fails to dump.
  ///
  /// - Parameters:
  ///   - states: the host's folder of states.
  ///   - limit: for all of them.
  package static func waitForEnds(in states: String, limit: Duration) {
    let end = ContinuousClock.now + limit
    for name in SystemFile.names(in: states) { _ = waitForEnd(in: states + "/" + name, until: end) }
  }

  /// Whether it has made a checkpoint there and ended the processes.
  static func hasDumped(to folder: String) -> Bool { SystemFile.exists(folder + dumped) }

  /// Why it has not, if it says so.
  static func dumpFailure(in folder: String) -> String? { reason(in: folder + "/" + dumpLog) }

  /// Whether it has made the processes again.
  static func hasRestored(from folder: String) -> Bool { SystemFile.exists(folder + restored) }

  /// Whether it has begun to, or may be about to.
  static func mayBeRestoring(from folder: String) -> Bool {
    SystemFile.exists(folder + "/" + restoreLog) || !waitForEnd(in: folder, until: .now)
  }

  /// What it had made again is ended, and in its files alone.
  static func forgetRestore(from folder: String) {
    for name in ["/" + restoreLog, restored] { unlink(folder + name) }
  }

  // MARK: The program

  private static func run(
    _ path: String, _ arguments: [String], _ starter: ProgramStarter?, folder: String?, log: String,
    group: Int32 = -1, entrance: Int32 = -1, inherits: Bool = false
  ) -> CheckpointRun.Outcome {
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { if nothing >= 0 { close(nothing) } }
    let input = folder.map { open($0 + held, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) } ?? nothing
    if let folder, input < 0 || flock(input, LOCK_EX | LOCK_NB) != 0 {
      let error = errno
      if input >= 0 { close(input) }
      return .failed("'\(folder + held)' could not be locked: \(errorText(error))")
    }
    let output = inherits ? -1 : nothing
    let (pid, pidfd, lack) = ProgramFile.start(
      path, [path] + arguments, environment: ownEnvironment(), folder: "/", group: group, entrance: entrance,
      descriptors: [input, output, output], by: starter)
    // The lock is that of whoever has it open, from here on CRIU's.
    if folder != nil { close(input) }
    if let lack { return .failed("the host's process opportune-start \(lack.message)") }
    guard pid > 0 else { return .failed("'\(path.printable)' could not be started: \(errorText(-pid))") }
    defer { close(pidfd) }
    var status: Int32 = 0
    var reaped: Int32 = 0
    while reaped == 0 {
      var polled = pollfd(fd: pidfd, events: Int16(POLLIN), revents: 0)
      poll(&polled, 1, -1)
      reaped = opp_host_reap(pidfd, &status)
    }
    if reaped == 1, status == 0 { return .done }
    let why = status & 0x7f == 0 ? "it ended with status \(status >> 8)" : "signal \(status & 0x7f) ended it"
    return .failed(folder.flatMap { reason(in: $0 + "/" + log) } ?? why)
  }

  /// The first error that it tells: others follow of that. It may begin with one of a limit of its own, which
  /// it goes on without.
  static func reason(in log: String) -> String? {
    let errors = (SystemFile.text(log) ?? "").split(separator: "\n").filter { $0.contains("Error (") }
    guard let line = errors.first(where: { !$0.contains("): rlimit: ") }) ?? errors.first else { return nil }
    // As `(00.012) Error (criu/sk-unix.c:874): unix: External socket is used.`
    let begin = line.range(of: "Error (")?.upperBound ?? line.startIndex
    let text = line[begin...].range(of: "): ").map { line[$0.upperBound...] } ?? line
    // It goes on in a sentence of the host's.
    return String((text.hasSuffix(".") ? text.dropLast() : text).prefix(300)).printable
  }
}

/// One run of CRIU for an app, which is waited for aside. Any thread.
final class CheckpointRun: @unchecked Sendable {
  // Sendable: the result is touched under the lock of the condition alone.
  enum Outcome: Sendable, Hashable {
    case done
    case failed(String)

    /// For people; `nil`: it is done.
    var failure: String? {
      switch self {
      case .done: nil
      case .failed(let why): why
      }
    }
  }

  /// Of processes that are made again, and not ended.
  let isRestore: Bool
  let began = ContinuousClock.now
  private let condition = NSCondition()
  private var result: (Outcome, Duration)?

  init(isRestore: Bool) { self.isRestore = isRestore }

  func end(_ outcome: Outcome) {
    condition.lock()
    result = (outcome, ContinuousClock.now - began)
    condition.broadcast()
    condition.unlock()
  }

  /// `nil`: it has not ended.
  var outcome: Outcome? {
    condition.lock()
    defer { condition.unlock() }
    return result?.0
  }

  /// In milliseconds, as far as it has ended.
  var milliseconds: Int {
    condition.lock()
    defer { condition.unlock() }
    return Int((result?.1 ?? .zero) / .milliseconds(1))
  }

  /// - Returns: whether it has ended.
  func wait(until end: Date) -> Bool {
    condition.lock()
    defer { condition.unlock() }
    while result == nil, condition.wait(until: end) {}
    return result != nil
  }

  func wait() {
    condition.lock()
    while result == nil { condition.wait() }
    condition.unlock()
  }
}
