import Glibc
import OpportuneBase
import OpportuneHost

extension HostBench {
  /// What the host itself takes while it has many apps, nearly all suspended, and nothing happens.
  func measureIdle(_ folder: String) throws -> [HostBenchReport.Result] {
    let scratch = folder + "/idle"
    guard mkdir(scratch, 0o755) == 0 else { throw BenchError.failed("'\(scratch)' was not made") }
    defer { Self.empty(scratch) }
    let daemon = try HostDaemon(in: scratch)
    defer { daemon.stop() }
    progress("idle: starting \(options.apps) apps")
    var programs: [HostedProgram] = []
    for number in 0..<options.apps where !isInterrupted() {
      programs.append(
        try HostedProgram(daemon.runs("app\(number)", inFront: false) + ["sleep", "86400"]))
    }
    for number in programs.indices where !isInterrupted() {
      try daemon.waitForApp("app\(number)")
      // One in ten goes on in background.
      if number % 10 != 0 { try daemon.suspend("app\(number)") }
    }
    guard !isInterrupted() else { return [] }
    // What follows a suspension is a look at locks.
    SystemClock.sleep(until: SystemClock.now() + 3_000_000_000)
    progress("idle: \(fixed(options.seconds, 0)) s in which nothing happens")
    let before = DaemonReading(daemon.process)
    SystemClock.sleep(until: SystemClock.now() + Nanoseconds(options.seconds * 1e9))
    let after = DaemonReading(daemon.process)
    let begin = SystemClock.now()
    let listed = try daemon.ask(.apps).apps?.count ?? 0
    let listing = Double(elapsed(from: begin, to: SystemClock.now())) / 1000
    guard listed == options.apps else {
      throw BenchError(.workLost, "the host has \(listed) of \(options.apps) apps")
    }
    let mode = "\(options.apps) apps"
    return [
      .init("idle", "\(mode): times that a thread of the host woke", "", [after.switches - before.switches]),
      .init("idle", "\(mode): CPU time of the host", "us", [after.cpu - before.cpu]),
      .init("idle", "\(mode): resident memory of the host", "MB", [after.resident / 1e6]),
      .init("idle", "\(mode): of that its own, not of files", "MB", [after.anonymous / 1e6]),
      .init("idle", "\(mode): listing them", "us", [listing]),
    ]
  }
}

/// What a process had used.
private struct DaemonReading {
  /// Microseconds.
  var cpu = 0.0
  var switches = 0.0
  var resident = 0.0
  var anonymous = 0.0

  init(_ process: pid_t) {
    var clock = clockid_t()
    var time = timespec()
    if clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 {
      cpu = Double(time.tv_sec) * 1e6 + Double(time.tv_nsec) / 1000
    }
    for name in SystemFile.names(in: "/proc/\(process)/task") {
      guard let status = TextFile.read("/proc/\(process)/task/\(name)/status") else { continue }
      switches += Self.value("voluntary_ctxt_switches", status)
    }
    let status = TextFile.read("/proc/\(process)/status") ?? ""
    resident = Self.value("VmRSS", status) * 1024
    anonymous = Self.value("RssAnon", status) * 1024
  }

  private static func value(_ key: String, _ status: String) -> Double {
    for line in status.split(separator: "\n") {
      let words = line.split(whereSeparator: { $0 == ":" || $0 == "\t" || $0 == " " })
      if words.count > 1, words[0] == key, let value = Double(words[1]) { return value }
    }
    return 0
  }
}
