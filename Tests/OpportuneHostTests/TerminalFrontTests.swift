import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A shell with job control on a terminal of its own, which a test types into.
private final class TestTerminal {
  private let (keys, output): (Output, Output)
  private let program: Process
  private var seen = ""
  private(set) var path = ""

  static let isPossible = Backends.python != nil && ProgramFile.find("bash").path != nil
  static let why: Comment = "there is no Python or no bash"

  init() async throws {
    (keys, output) = (try Output(), try Output())
    let spawn = "import pty; pty.spawn(['bash', '--norc', '--noprofile', '-i'])"
    program = try startProgram(
      [try #require(Backends.python), "-c", spawn], output, input: keys, isQuiet: true)
    type("echo at=$(tty)")
    path = try await answer(/at=(\/dev\/[a-z0-9\/]+)/)
  }

  deinit { end() }

  /// The shell is hung up on, and what it runs.
  func end() {
    guard program.isRunning else { return }
    kill(program.processIdentifier, SIGKILL)
    program.waitUntilExit()
  }

  /// A line; or, of one byte below the blank, a control character.
  func type(_ text: String) {
    let bytes = Array(text.utf8) + (text.utf8.first.map { $0 < 32 } == true ? [] : [UInt8(ascii: "\n")])
    _ = write(keys.written, bytes, bytes.count)
  }

  static let stop = "\u{1a}"

  /// Waits for what matches, and takes it and all before.
  func answer(_ wanted: Regex<(Substring, Substring)>) async throws -> String {
    var found = ""
    try await eventually("an answer of the shell") {
      if output.comes(within: 0) { seen += output.take() }
      guard let match = seen.firstMatch(of: wanted) else { return false }
      found = String(match.output.1)
      seen.removeSubrange(..<match.range.upperBound)
      return true
    }
    return found
  }

  /// Starts a job in the foreground that says nothing more, and returns the process that is to be the app.
  func job(_ start: String = "") async throws -> Int32 {
    type(start + "sh -c 'echo pid=$$.; exec sleep 600'")
    return try #require(Int32(try await answer(/pid=([0-9]+)\./)))
  }
}

@Suite(.bounded) struct TerminalFrontTests {
  private func isFront(_ hosted: Hosted, _ name: String) -> Bool { hosted.entry(name)?.state == "foreground" }

  // R-LIFE-04
  @Test(.enabled(if: TestTerminal.isPossible, TestTerminal.why), arguments: Backends.usable)
  func theForegroundJobIsInFront(backend: Backend) async throws {
    let terminal = try await TestTerminal()
    let choice = try FrontChoice("terminal=\(terminal.path)", environment: [:])
    #expect(choice.look(within: .zero) == .answers("the terminal \(terminal.path)"))
    let hosted = try Hosted(backend, front: choice)
    try await eventually("the terminal") { hosted.host.followed == "the terminal \(terminal.path)" }
    _ = try hosted.host.adopt(try await terminal.job(), name: "one")
    try await eventually("the first") { isFront(hosted, "one") }
    terminal.type(TestTerminal.stop)
    try await eventually("none while the shell waits") { !isFront(hosted, "one") }
    // Not the first process of its job.
    _ = try hosted.host.adopt(try await terminal.job("sleep 600 | "), name: "other")
    try await eventually("the second") { isFront(hosted, "other") }
    terminal.type(TestTerminal.stop)
    try await eventually("none again") { !isFront(hosted, "other") }
    terminal.type("fg %1")
    try await eventually("the first again") { isFront(hosted, "one") && !isFront(hosted, "other") }
    // What is typed elsewhere, where no app is, takes nothing from it.
    let elsewhere = try await TestTerminal()
    elsewhere.type("true")
    #expect(isFront(hosted, "one"))
    terminal.type(TestTerminal.stop)
    terminal.type("bg")
    try await eventually("none behind the shell") { !isFront(hosted, "one") }
    terminal.end()
    try await eventually("the end") { hosted.host.followed == nil && hosted.host.apps().isEmpty }
    #expect(choice.look(within: .zero) == .doesNotAnswer("the terminal \(terminal.path)"))
    try await hosted.end()
  }

  @Test(.enabled(if: TestTerminal.isPossible, TestTerminal.why))
  func theTerminalThatWasTypedIntoLastCounts() async throws {
    let follower = TerminalFollower(TerminalFront(path: nil))
    var focus: pid_t?
    var isFollowed = false
    /// Also other tests have terminals: until it is as expected.
    func follows(_ job: Int32) async throws {
      try await eventually("the job \(job)") {
        var waits = follower.waits
        let isReady = poll(&waits, nfds_t(waits.count), 0) > 0
        // A time by which each look is due.
        for event in follower.advance(
          isReady ? Set(waits.map(\.fd)) : [], now: follower.nextDeadline ?? .zero)
        {
          switch event {
          case .followed: isFollowed = true
          case .lost(let why): Issue.record("\(why)")
          case .focus(.job(let job)): if job.isUsed { focus = job.group }
          case .focus: Issue.record("\(event)")
          case .shown: break
          }
        }
        return focus == job
      }
    }
    let one = try await TestTerminal()
    let first = try await one.job()
    try await follows(first)
    #expect(isFollowed)
    /// What it waits for then has no end: no look without an event.
    func rests() async throws {
      try await eventually("rest") {
        var waits = follower.waits
        let isReady = poll(&waits, nfds_t(waits.count), 0) > 0
        _ = follower.advance(isReady ? Set(waits.map(\.fd)) : [], now: follower.nextDeadline ?? .zero)
        return !isReady && follower.nextDeadline == nil
      }
      #expect(follower.waits.count == 1)
    }
    let other = try await TestTerminal()
    try await rests()
    let second = try await other.job()
    try await follows(second)
    one.type("a line that its job does not read")
    one.type(TestTerminal.stop)
    one.type("fg")
    try await follows(first)
    try await rests()
  }

  /// Nobody could let it go on from there.
  // R-LIFE-06
  @Test(.enabled(if: TestTerminal.isPossible, TestTerminal.why))
  func theShellThatAsksIsNotStopped() async throws {
    let terminal = try await TestTerminal()
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let opportune = try command().path
    terminal.type("\(opportune) run --socket \(place.path) --name own -- bash --norc --noprofile -i")
    try await eventually("the shell") { try host.ask(.apps, nil).apps?.first?.state == "background" }
    for action in ["suspend", "hibernate"] {
      terminal.type("\(opportune) \(action) --socket \(place.path) own; echo status=$?.")
      #expect(try await terminal.answer(/(could not let itself go on once it is stopped)/) != "")
      #expect(try await terminal.answer(/status=([0-9]+)\./) == "1")
    }
    #expect(try host.ask(.apps, nil).apps?.first?.state == "background")
    try host.ask(.terminate, "own")
    try await host.endWhenEmpty()
  }

  @Test func whatIsNoTerminalIsNotFollowed() {
    let missing = TerminalFollower(TerminalFront(path: "/dev/pts/99999"))
    #expect(missing.advance([], now: .zero) == [.lost("the terminal /dev/pts/99999 is not there by now")])
    let nowhere = TerminalFollower(TerminalFront(path: "/dev/nowhere/1"))
    #expect(
      nowhere.advance([], now: .zero)
        == [.lost("the terminal /dev/nowhere/1: '/dev/nowhere' cannot be watched: No such file or directory")]
    )
    #expect(nowhere.waits.isEmpty && nowhere.nextDeadline == nil)
    let all = TerminalFront(path: nil)
    #expect(!all.follows("/dev/pts/ptmx") && !all.follows("/dev/null") && !all.follows("/dev/pts/99999"))
  }
}
