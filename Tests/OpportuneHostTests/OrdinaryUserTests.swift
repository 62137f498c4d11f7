import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A host without any privilege, and another user who asks it.
@Suite(.bounded) struct OrdinaryUserTests {
  static let become = ["/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
  private static let why: Comment = "only root becomes nobody, and nobody must be able to reach the program"
  static let isPossible: Bool = {
    guard geteuid() == 0, let path = try? command().path,
      let status = try? outcome(of: become + ["test", "-x", path]).status
    else { return false }
    return status == 0
  }()

  private func place() throws -> Place {
    let place = try Place()
    try #require(chown(place.folder.path, 65534, 65534) == 0)
    return place
  }

  @Test(.enabled(if: isPossible, why)) func withoutPrivilegeSignalsDo() async throws {
    let place = try place()
    let (errors, output) = (try Output(), try Output())
    let host = try await HostProgram(place, .auto, grace: 1, prefix: Self.become, errors: errors)
    #expect(try await errors.line("Note:").contains("programs are stopped by signals"))
    func ask(_ words: String...) throws -> (status: Int32, output: String, errors: String) {
      try outcome(
        of: Self.become + [command().path, words[0], "--socket", place.path] + words.dropFirst())
    }
    func entry() throws -> AppEntry? {
      let said = try ask("apps", "--json")
      #expect(said.status == 0, "\(said.errors)")
      return try JSONDecoder().decode([AppEntry].self, from: Data(said.output.utf8)).first
    }
    let program = try startProgram(
      Self.become + [
        command().path, "run", "--socket", place.path, "--name", "app", "--", "sh", "-c",
        "while :; do echo tick; sleep 0.01; done",
      ], output)
    _ = try await output.line("tick")
    let first = try #require(try entry())
    #expect(first.state == "background")
    #expect(first.cgroup == nil)
    #expect(ProcessTable.user(of: program.processIdentifier) == 65534)
    #expect(first.pids.contains(program.processIdentifier))

    // What is idle may wait for a CPU for longer than the host does, before it gets to stop.
    try await eventually("its suspension") { try ask("suspend", "app").status == 0 }
    #expect(try entry()?.state == "suspended")
    #expect(isStopped(program.processIdentifier))
    while !output.take().isEmpty {}
    #expect(!output.comes(within: 100))
    #expect(try ask("resume", "app").status == 0)
    #expect(output.comes(within: 30_000))
    // Lowered is not raised again.
    let front = try ask("front", "app")
    #expect(front.status == 0)
    #expect(front.errors.contains("CAP_SYS_NICE"))
    #expect(try entry()?.notes.contains { $0.contains("CAP_SYS_NICE") } == true)
    // Not its own.
    let other = try ask("adopt", "\(getpid())")
    #expect(other.status == 1)
    #expect(other.errors.contains("process \(getpid()) cannot be an app: it is of user 'root' (0)"))

    #expect(try ask("terminate", "app").status == 0)
    program.waitUntilExit()
    #expect(program.terminationReason == .uncaughtSignal)
    #expect(program.terminationStatus == SIGTERM)
    try await eventually("its end") { try entry() == nil }
    host.end()
    #expect(host.process.terminationStatus == 0)
  }

  @Test(.enabled(if: isPossible, why)) func anotherUserIsRefusedAndLogged() async throws {
    let place = try place()
    let errors = try Output()
    let host = try await HostProgram(place, .signals, prefix: Self.become, errors: errors)
    // Root opens any socket, and is another user all the same.
    let said = try outcome(of: [command().path, "apps", "--socket", place.path])
    #expect(said.status == 1)
    #expect(said.output.isEmpty)
    #expect(said.errors.contains("it is the host of user 'nobody' (65534), who alone may ask"))
    let logged = try await errors.line("refused")
    #expect(logged.contains("a request of user 'root' (0) was refused"))
    host.end()
  }
}
