import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// `opportune run`, and what it needs.
@Suite(.bounded) struct HostCommandTests {
  @Test(arguments: Backends.usable) func aProgramIsAsWithoutTheHost(backend: Backend) async throws {
    let place = try Place()
    let host = try await HostProgram(place, backend)
    let output = try Output()
    let plain = try host.run(["sh", "-c", "cat; echo $$; exit 7"], output: output, input: "from stdin\n")
    plain.waitUntilExit()
    #expect(plain.terminationStatus == 7)
    let said = output.take()
    #expect(said.contains("from stdin"))
    // It has become the program: no process is between.
    #expect(said.contains("\(plain.processIdentifier)\n"))

    let killed = try host.run(["sh", "-c", "kill -USR1 $$"], output: output)
    killed.waitUntilExit()
    #expect(killed.terminationReason == .uncaughtSignal)
    #expect(killed.terminationStatus == SIGUSR1)

    let none = try host.run(["no-such-program"], output: output)
    none.waitUntilExit()
    #expect(none.terminationStatus == 127)
    let folder = try host.run(["/tmp"], output: output)
    folder.waitUntilExit()
    #expect(folder.terminationStatus == 126)
    try await host.endWhenEmpty()
  }

  /// Wherever the host listens, its program and the commands of that know it.
  @Test func aProgramKnowsWhereItsHostListens() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let output = try Output()
    let script = "echo at $OPPORTUNE_SOCKET; '\(try command().path)' apps"
    let program = try host.run(["sh", "-c", script], options: ["--name", "knowing"], output: output)
    program.waitUntilExit()
    let said = output.take()
    #expect(said.contains("at \(place.path)\n"))
    #expect(said.contains("knowing"))
    try await host.endWhenEmpty()
  }

  @Test func namesAreNumbered() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let output = try Output()
    let programs = try (0..<3).map { _ in
      try host.run(["sh", "-c", "echo on; exec sleep 600"], output: output)
    }
    try await eventually("all") { try host.ask(.apps, nil).apps?.map(\.id) == ["sh", "sh-2", "sh-3"] }
    let named = try host.run(["true"], options: ["--name", "sh"], output: output)
    named.waitUntilExit()
    #expect(named.terminationStatus == 1)
    for name in ["sh", "sh-2", "sh-3"] { try host.ask(.terminate, name) }
    for program in programs {
      program.waitUntilExit()
      #expect(program.terminationStatus == SIGTERM)
    }
    try await host.endWhenEmpty()
  }

  @Test func withoutAHostTheCommandIsNamed() throws {
    let place = try Place()
    let (status, said) = try told(by: ["run", "--socket", place.path, "--", "true"])
    #expect(status == 1)
    #expect(said.contains("no host runs"))
    #expect(said.contains("opportune host --socket \(place.path)"))
  }
}
