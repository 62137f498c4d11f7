import COpportuneHost
import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// What `opportune host` gives up, and that what it starts has it all the same.
@Suite(.bounded) struct ConfinementTests {
  /// A line of /proc/PID/status, or of that of a thread.
  private func field(_ name: String, of process: String) throws -> String {
    let text = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
    let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + ":") })
    return line.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
  }

  /// In kilobytes; of files alone, most of which a host needs to start and never again.
  @Test func whatOnlyStartingNeededIsGivenBack() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let process = "\(host.process.processIdentifier)"
    func kilobytes(_ name: String) throws -> Int {
      try #require(Int(try field(name, of: process).split(separator: " ")[0]))
    }
    try await eventually("less than half of it") { try kilobytes("RssFile") < kilobytes("VmHWM") / 2 }
    #expect(try host.ask(.apps, nil).apps?.isEmpty == true)
    // It stays a program that runs: so does this one.
    #expect(StartPages.giveBack() > 1 << 20)
    host.end()
  }

  @Test(.enabled(if: Confinement.lack == nil, "\(Confinement.lack ?? "")"))
  func eachThreadOfTheHostIsUnderItsFilter() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let pid = host.process.processIdentifier
    // Once it has answered all its threads run.
    #expect(try host.ask(.apps, nil).confined == true)
    let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")
    #expect(threads.count > 1)
    for thread in threads {
      #expect(try field("NoNewPrivs", of: "\(pid)/task/\(thread)") == "1")
      #expect(try field("Seccomp", of: "\(pid)/task/\(thread)") == "2")
      let capabilities = try #require(
        UInt64(try field("CapPrm", of: "\(pid)/task/\(thread)"), radix: 16))
      #expect(capabilities & (1 << 7 | 1 << 16) == 0, "CAP_SETUID, CAP_SYS_MODULE")
    }
    host.end()
    #expect(host.process.terminationStatus == 0)
  }

  // R-MAN-07
  @Test(arguments: Backends.usable) func whatItStartsKeepsWhatTheHostGivesUp(backend: Backend) async throws {
    let (place, manifests) = (try Place(), try ManifestPlace())
    // A program that becomes another user, as sudo does.
    let other = manifests.path + "/id"
    try FileManager.default.copyItem(atPath: "/usr/bin/id", toPath: other)
    let mayChange = chown(other, 65534, 65534) == 0
    try #require(chmod(other, 0o4755) == 0 && chmod(manifests.path, 0o755) == 0)
    let file = manifests.path + "/user"
    try manifests.script(
      "\(other) -u > \(file).new; mv \(file).new \(file); exec sleep 600", manifests.path, name: "app")
    try manifests.script("exit 3", manifests.path, name: "short")
    let host = try await HostProgram(place, backend, options: ["--manifests", manifests.path])
    let pid = try #require(try host.ask(.start, "app").pid)
    for name in ["NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapBnd"] {
      #expect(try field(name, of: "\(pid)") == field(name, of: "self"), "\(name)")
    }
    #expect(ProcessStat(of: pid)?.parent == host.process.processIdentifier)
    try await eventually("its user") { FileManager.default.fileExists(atPath: file) }
    let user = try String(contentsOfFile: file, encoding: .utf8)
    #expect(user == (mayChange ? "65534\n" : "\(geteuid())\n"))
    // The host reaps what it has not started itself.
    let short = try #require(try host.ask(.start, "short").pid)
    try await eventually("its end") { ProcessStat(of: short) == nil }
    try host.ask(.terminate, "app")
    let starter = try host.child("opportune-start").pid
    try await host.endWhenEmpty()
    #expect(host.process.terminationStatus == 0)
    try await eventually("its starter's end") { ProcessStat(of: starter)?.hasEnded != false }
  }

  @Test func aStarterThatWasKilledIsNamed() async throws {
    let (place, manifests) = (try Place(), try ManifestPlace())
    try manifests.script("exec sleep 600", manifests.path, name: "app")
    let host = try await HostProgram(place, .signals, options: ["--manifests", manifests.path])
    let starter = try host.child("opportune-start").pid
    let error = #expect(throws: PushError.self) {
      try HostRequest(.adopt, name: nil).adopting(starter).send(to: place.path)
    }
    #expect(error?.message.contains("it is the host") == true)
    kill(starter, SIGKILL)
    try await eventually("its end") { ProcessStat(of: starter)?.hasEnded != false }
    let failed = #expect(throws: PushError.self) { try host.ask(.start, "app") }
    #expect(failed?.message.contains("opportune-start") == true, "\(failed?.message ?? "")")
    host.end()
    #expect(host.process.terminationStatus == 0)
  }

  @Test func aStoppedStarterHoldsNothingUpAndStartsLater() async throws {
    let (place, manifests) = (try Place(), try ManifestPlace())
    let ran = manifests.path + "/ran"
    try manifests.script("echo > \(ran); exec sleep 600", manifests.path, name: "stale")
    try manifests.script("exec sleep 600", manifests.path, name: "app")
    let host = try await HostProgram(place, .signals, options: ["--manifests", manifests.path])
    let starter = try host.child("opportune-start").pid
    kill(starter, SIGSTOP)
    try await eventually("it is stopped") { isStopped(starter) }
    // The second finds the order of the first unanswered.
    for name in ["stale", "app"] {
      let failed = #expect(throws: PushError.self) { try host.ask(.start, name) }
      #expect(
        failed?.message.contains("is stopped: kill -CONT \(starter)") == true, "\(failed?.message ?? "")")
      #expect(try host.ask(.apps, nil).apps?.isEmpty == true)
    }
    kill(starter, SIGCONT)
    let pid = try #require(try host.ask(.start, "app").pid)
    #expect(ProcessStat(of: pid)?.parent == host.process.processIdentifier)
    #expect(try host.ask(.apps, nil).apps?.map(\.id) == ["app"])
    // It takes its orders in turn.
    #expect(!FileManager.default.fileExists(atPath: ran))
    try host.ask(.terminate, "app")
    try await eventually("its end") { try host.ask(.apps, nil).apps?.isEmpty == true }
    // Nor is the host's end held up.
    kill(starter, SIGSTOP)
    try await eventually("it is stopped") { isStopped(starter) }
    host.end()
    #expect(host.process.terminationStatus == 0)
    try await eventually("its starter's end") { ProcessStat(of: starter)?.hasEnded != false }
  }

  @Test func whatIsGivenUpEndsAndIsNotTakenForTheNext() throws {
    var starter = opp_host_starter()
    try #require(opp_host_starter_open(&starter) == 0)
    defer { opp_host_starter_close(&starter) }
    func start(_ seconds: String, within limit: Int32) -> pid_t {
      var pidfd: Int32 = -1
      var words: [UnsafeMutablePointer<CChar>?] = [strdup("/bin/sleep"), strdup(seconds), nil]
      var none: [UnsafeMutablePointer<CChar>?] = [nil]
      defer { for word in words { free(word) } }
      let pid = words.withUnsafeMutableBufferPointer { words in
        none.withUnsafeMutableBufferPointer { none -> pid_t in
          guard let first = words.baseAddress, let path = first.pointee, let nothing = none.baseAddress
          else { return -EINVAL }
          var program = opp_host_program(
            path: path, argv: first, envp: nothing, folder: nil, group: -1, entrance: -1,
            descriptors: (-1, -1, -1))
          return opp_host_starter_start(&starter, &program, limit, &pidfd)
        }
      }
      if pid > 0 { close(pidfd) }
      return pid
    }
    func end(_ pid: pid_t) {
      kill(pid, SIGKILL)
      while waitpid(pid, nil, 0) < 0, errno == EINTR {}
    }
    func children() -> [String] {
      ProcessTable.all().filter { $0.parent == getpid() }.compactMap {
        SystemFile.text("/proc/\($0.pid)/cmdline")
      }
    }
    for round in 0..<50 {
      // Without time for an answer, at whatever point of the start that is.
      let first = start("601", within: 0)
      if first > 0 {
        end(first)
        continue
      }
      #expect(first == -ETIMEDOUT && starter.lack == opp_host_starter_silent, "\(round)")
      let next = start("602", within: 60_000)
      #expect(next > 0 && starter.lack == opp_host_starter_fit, "\(round): \(next)")
      #expect(SystemFile.text("/proc/\(next)/cmdline") == "/bin/sleep\u{0}602\u{0}", "\(round)")
      #expect(!children().contains("/bin/sleep\u{0}601\u{0}"), "\(round)")
      end(next)
    }
  }

  @Test(arguments: Backends.usable) func theStarterIsAsTheHostItself(backend: Backend) async throws {
    let hosted = try Hosted(backend, starter: try ProgramStarter())
    let output = try Output()
    // More than a socket takes at once.
    let words = (0..<4000).map { "\($0)-" + String(repeating: "x", count: 200) }
    let shell = try hosted.host.launch(
      ["/bin/sh", "-c", "echo $# $1; exec sleep 600", "name"] + words, name: "app",
      descriptors: [-1, output.written, -1])
    #expect(try await output.lines(1) == ["4000 \(words[0])"])
    #expect(hosted.entry()?.pids.contains(shell) == true)
    let none = #expect(throws: ProcessHostError.self) {
      try hosted.host.launch(["/no/such/program"], name: "none")
    }
    #expect(none?.code == .program("/no/such/program", ENOENT))
    #expect(throws: ProcessHostError(.program("/", EACCES))) {
      try hosted.host.launch(["/"], name: "folder")
    }
    #expect(hosted.host.apps().map(\.id) == ["app"])
    try await hosted.end()
  }
}

extension HostRequest {
  func adopting(_ pid: Int32) -> HostRequest {
    var request = self
    request.pid = pid
    return request
  }
}
