import Glibc
import OpportuneBase
import OpportuneHost
import ToolSupport

/// A program that the bench has started, in a session of its own; it ends with all that it has started.
final class HostedProgram {
  let process: pid_t
  private var hasEnded = false
  private var endedByItself = false

  init(_ words: [String], output: String = "/dev/null") throws(SystemFailure) {
    process = try ChildProcess.start(words, ownSession: true) {
      $0.write(to: output, O_WRONLY | O_CREAT | O_TRUNC, errors: true)
    }
  }

  deinit { end() }

  /// Keeps from programs that are started what whoever has started this one has left open: a lock of a file
  /// that a program has without knowing keeps a host from suspending it.
  static func inheritNothing() {
    for descriptor in SystemFile.names(in: "/proc/self/fd").compactMap({ Int32($0) }) where descriptor > 2 {
      let flags = fcntl(descriptor, F_GETFD)
      if flags >= 0 { _ = fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC) }
    }
  }

  /// Whether it has ended before ``end(_:within:)``.
  var hasEndedByItself: Bool {
    if !hasEnded, waitpid(process, nil, WNOHANG) == process {
      (hasEnded, endedByItself) = (true, true)
      kill(-process, SIGKILL)
    }
    return endedByItself
  }

  /// Kills it where it takes longer.
  func waitUntilItEnds(within seconds: Double) {
    let deadline = SystemClock.now() + Nanoseconds(seconds * 1e9)
    while !hasEndedByItself, SystemClock.now() < deadline {
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
    end()
  }

  /// Asks it to end, and kills its session after that.
  ///
  /// - Parameter seconds: so long it may take.
  func end(_ signal: Int32 = SIGKILL, within seconds: Double = 5) {
    guard !hasEnded else { return }
    hasEnded = true
    kill(process, signal)
    let deadline = SystemClock.now() + Nanoseconds(seconds * 1e9)
    while signal != SIGKILL, SystemClock.now() < deadline {
      if waitpid(process, nil, WNOHANG) == process {
        kill(-process, SIGKILL)
        return
      }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
    kill(-process, SIGKILL)
    ChildProcess.wait(for: process)
  }
}

/// `opportune host` of this very program, on a socket of its own.
final class HostDaemon {
  static let program = "/proc/\(getpid())/exe"
  let socket: String
  /// What it says.
  let log: String
  private let running: HostedProgram

  /// - Parameter prefix: what stands before its words.
  init(in folder: String, by prefix: [String] = [], options: [String] = []) throws {
    (socket, log) = (folder + "/host.sock", folder + "/host.log")
    running = try HostedProgram(
      prefix + [Self.program, "host", "--socket", socket, "--bus", "none"] + options, output: log)
    let deadline = SystemClock.now() + 10_000_000_000
    while (try? HostRequest(.apps).send(to: socket)) == nil {
      guard SystemClock.now() < deadline else {
        let said = TextFile.read(log) ?? ""
        throw BenchError(.unavailable, "no host came up: \(said)")
      }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
  }

  var process: pid_t { running.process }

  /// What stands before a program's words, so that it is an app.
  func runs(_ name: String, inFront: Bool) -> [String] {
    [Self.program, "run", "--socket", socket, "--name", name] + (inFront ? ["--foreground"] : []) + ["--"]
  }

  @discardableResult
  func ask(_ action: HostRequest.Action, _ name: String? = nil) throws -> HostAnswer {
    try HostRequest(action, name: name).send(to: socket)
  }

  /// Suspends an app, and waits until that is done.
  func suspend(_ name: String) throws {
    do {
      while let wait = try ask(.suspend, name).wait {
        SystemClock.sleep(until: SystemClock.now() + Nanoseconds(wait * 1e9) + 2_000_000)
      }
    } catch { throw BenchError(.unavailable, "'\(name)' is not suspended: \(error)") }
  }

  /// Hibernates an app, and waits until that is done.
  ///
  /// - Returns: bytes of it that are in main memory still.
  func hibernate(_ name: String) throws -> UInt64 {
    try ask(.hibernate, name)
    let deadline = SystemClock.now() + 60_000_000_000
    while true {
      if let app = try ask(.apps).apps?.first(where: { $0.id == name }),
        app.notes.contains(where: { $0.hasPrefix("hibernated: ") })
      {
        for pid in app.pids { Self.giveUp(pid) }
        return try ask(.apps).apps?.first { $0.id == name }?.memoryBytes ?? 0
      }
      guard SystemClock.now() < deadline else { throw BenchError(.unavailable, "'\(name)' is not paged out") }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
  }

  /// Has the kernel take what it keeps in memory of swapped pages, as it would for who needs room: where the
  /// process has a group of version 1 that counts its memory, and as root. Otherwise it answers from there.
  private static func giveUp(_ pid: Int32) {
    let groups = (try? String(contentsOfFile: "/proc/\(pid)/cgroup", encoding: .utf8)) ?? ""
    for line in groups.split(separator: "\n") {
      let fields = line.split(separator: ":", maxSplits: 2)
      guard fields.count == 3, fields[1] == "memory", fields[2].contains("/opportune") else { continue }
      try? "0".write(
        toFile: "/sys/fs/cgroup/memory\(fields[2])/memory.force_empty", atomically: false, encoding: .utf8)
    }
  }

  /// Waits until the host has an app of that name.
  func waitForApp(_ name: String) throws {
    let deadline = SystemClock.now() + 10_000_000_000
    while try ask(.apps).apps?.contains(where: { $0.id == name }) != true {
      guard SystemClock.now() < deadline else { throw BenchError(.unavailable, "'\(name)' became no app") }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
  }

  /// It was ended, by whomever.
  var hasEnded: Bool { running.hasEndedByItself }

  /// What one that was killed has left is put right as the next one would do it.
  func stop() {
    let wasKilled = hasEnded
    running.end(SIGTERM)
    guard wasKilled, let sweep = try? HostedProgram([Self.program, "host", "--socket", socket, "--sweep"])
    else { return }
    sweep.waitUntilItEnds(within: 10)
  }
}

/// A control group with the CPU controller in which what is in it weighs next to nothing: what people use
/// without a host.
final class WeightGroup {
  private let folder: String

  init() throws(BenchError) {
    let one = "/sys/fs/cgroup/cpu"
    let two = "/sys/fs/cgroup"
    let isOne = access("\(one)/cpu.shares", F_OK) == 0
    folder = "\(isOne ? one : two)/opportune-bench-\(getpid())"
    guard mkdir(folder, 0o755) == 0 || errno == EEXIST else {
      throw .unavailable("no group with the CPU controller was made at '\(folder)': \(errorText(errno))")
    }
    let (file, least) = isOne ? ("cpu.shares", "2") : ("cpu.weight", "1")
    guard TextFile.write(least, to: "\(folder)/\(file)") else {
      let reason = errorText(errno)
      rmdir(folder)
      throw .unavailable("'\(folder)/\(file)' does not take \(least): \(reason)")
    }
  }

  deinit {
    // Who has ended may still be on the way out.
    for _ in 0..<200 where rmdir(folder) != 0 { usleep(5000) }
  }

  /// What stands before a program's words, so that it starts in the group.
  var prefix: [String] { HostedProgram.entering(folder) }
}

extension HostedProgram {
  /// What stands before a program's words, so that it starts in a control group.
  static func entering(_ group: String) -> [String] {
    ["sh", "-c", "echo $$ > '\(group)/cgroup.procs' && exec \"$@\"", "sh"]
  }
}

extension BenchError {
  fileprivate static func unavailable(_ why: String) -> BenchError { BenchError(.unavailable, why) }
}
