import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// docs/guide/manage.md shows a session that works, for whoever types it.
@Suite(.bounded) struct ManagePageTests {
  enum User: String, CaseIterable, Sendable { case own, nobody }

  struct Setting: Sendable, CustomTestStringConvertible {
    let user: User
    let backend: Backend
    var testDescription: String { "\(user) \(backend.rawValue)" }
  }

  private static let docs = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../docs").standardizedFileURL
  private static let script = docs.appending(path: "examples/manage/manage.sh")

  private static let settings =
    Backends.usable.map { Setting(user: .own, backend: $0) }
    + (OrdinaryUserTests.isPossible ? [Setting(user: .nobody, backend: .auto)] : [])

  private func page() throws -> String {
    try String(contentsOf: Self.docs.appending(path: "guide/manage.md"), encoding: .utf8)
  }

  @Test func thePageShowsTheSession() throws {
    let page = try page()
    let script = try String(contentsOf: Self.script, encoding: .utf8)
    #expect(page.contains("`docs/examples/manage/manage.sh`"))
    #expect(page.contains("<!-- example -->\n```sh\n\(script)```\n"))
    #expect(page.ranges(of: "```sh").count == 1, "the page shows what is not run")
    let list = try String(contentsOf: Self.docs.appending(path: "README.md"), encoding: .utf8)
    #expect(list.contains("(guide/manage.md)"))
  }

  /// Without root and without control groups as well.
  @Test(arguments: settings) func theSessionPrintsWhatThePageSays(setting: Setting) throws {
    let place = try Place()
    let script = place.folder.appending(path: "manage.sh")
    try FileManager.default.copyItem(at: Self.script, to: script)
    try #require(chmod(place.folder.path, 0o755) == 0 && chmod(script.path, 0o644) == 0)
    let become = setting.user == .nobody ? OrdinaryUserTests.become : []
    let folder = try command().deletingLastPathComponent().path
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    let (status, output, errors) = try outcome(
      of: ["/usr/bin/env", "-C", "/", "PATH=\(folder):\(path)"] + become
        + ["timeout", "-k", "5", "50", "sh", script.path, "--backend", setting.backend.rawValue])
    #expect(status == 0, "\(errors)")
    #expect(try page().contains("<!-- prints -->\n```text\n\(output)```\n"), "\(output)")
    #expect(
      errors.contains("app 'player' is exempt by its manifest (mode audio); opportune keep player --end"))
    // Of `front` alone, and not again of all that follows.
    #expect(errors.ranges(of: "could not be raised again").count <= 1, "\(errors)")
    #expect(errors.contains(": a backup; opportune keep indexer --end ends that"))
    #expect(errors.contains("there is no app 'build': opportune apps --all lists them"))
  }

  /// As who has forgotten the two dashes.
  @Test func whoForgetsTheDashesIsToldOfThem() async throws {
    let place = try Place()
    let errors = try Output()
    let host = try await HostProgram(
      place, .signals, options: ["--manifests", place.folder.appending(path: "none").path], errors: errors)
    #expect(try await errors.line("Note: there is no folder").contains("none' of manifests yet"))
    func run(_ words: String...) throws -> String {
      try outcome(of: [command().path, words[0], "--socket", place.path] + words.dropFirst()).errors
    }
    #expect(try run("run", "true").contains("a program is run by: opportune run -- true"))
    #expect(try !run("run", "no-such-program").contains("opportune run --"))
    #expect(try !run("front", "true").contains("opportune run --"))
    #expect(try run("run", "sleep", "-x", "9").contains("behind '--': opportune run -- sleep -x 9\n"))
    #expect(try !run("run", "--foregroud", "no-such-program").contains("behind '--'"))
    host.end()
  }
}
