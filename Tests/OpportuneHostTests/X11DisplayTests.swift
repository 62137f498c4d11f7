import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A virtual X display with a window manager.
final class TestDisplay {
  private(set) var number = -1
  private var programs: [Process] = []

  static let programs = ["Xvfb", "openbox", "xterm", "xdotool"]
  static let isPossible = programs.allSatisfy { ProgramFile.find($0).path != nil }
  static let why: Comment =
    "Xvfb, openbox, xterm or xdotool is missing: scripts/prepare xvfb openbox xterm xdotool"

  /// - Parameters:
  ///   - number: `nil`: a free one.
  ///   - authority: a file of cookies, one of which everybody needs.
  init(number wanted: Int? = nil, authority: String? = nil, hasManager: Bool = true) async throws {
    let output = try Output()
    let words =
      ["Xvfb"] + (wanted.map { [":\($0)"] } ?? []) + ["-displayfd", "1", "-nolisten", "tcp", "-noreset"]
      + (authority.map { ["-auth", $0] } ?? [])
    programs.append(try startProgram(words, output, isQuiet: true))
    let line = try await output.line("\n")
    number = try #require(Int(line.trimmingCharacters(in: .whitespacesAndNewlines)))
    guard hasManager else { return }
    // It says when it manages the windows that come.
    try start(["openbox", "--sm-disable", "--startup", "echo ready"], output: output)
    _ = try await output.line("ready")
  }

  deinit { end() }

  func end() {
    for program in programs.reversed() where program.isRunning {
      kill(program.processIdentifier, SIGKILL)
      program.waitUntilExit()
    }
    programs = []
    guard number >= 0 else { return }
    // Killed, it leaves them.
    unlink("/tmp/.X11-unix/X\(number)")
    unlink("/tmp/.X\(number)-lock")
  }

  @discardableResult func start(_ words: [String], output: Output? = nil) throws -> Process {
    let environment = ProcessInfo.processInfo.environment.merging(["DISPLAY": ":\(number)"]) { $1 }
    let program = try startProgram(words, output, environment: environment, isQuiet: true)
    programs.append(program)
    return program
  }

  /// Gives the focus to a window of a process, by the window manager.
  func activate(_ pid: Int32) throws {
    let tool = try start(
      [
        "timeout", "60", "xdotool", "search", "--sync", "--onlyvisible", "--all", "--pid", "\(pid)",
        "--class",
        "xterm", "windowactivate",
      ])
    tool.waitUntilExit()
    #expect(tool.terminationStatus == 0)
  }

  func choice() throws -> FrontChoice { try FrontChoice("x11=:\(number)", environment: [:]) }

  /// Runs xterm as an app.
  func terminal(_ hosted: Hosted, _ name: String) throws -> Int32 {
    // It complains of fonts.
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nothing) }
    return try hosted.host.launch(
      [try #require(ProgramFile.find("xterm").path), "-display", ":\(number)", "-e", "sleep 600"], name: name,
      descriptors: [nothing, nothing, nothing])
  }
}

/// Who is in front by a real display, with real programs.
@Suite(.bounded) struct X11DisplayTests {
  private func isFront(_ hosted: Hosted, _ name: String) -> Bool { hosted.entry(name)?.state == "foreground" }

  // R-LIFE-04
  @Test(.enabled(if: TestDisplay.isPossible, TestDisplay.why), arguments: Backends.usable)
  func theFocusedProgramIsInFront(backend: Backend) async throws {
    let display = try await TestDisplay()
    let hosted = try Hosted(backend, front: try display.choice())
    try await eventually("the display") { hosted.host.followed == "the X display :\(display.number)" }
    let one = try display.terminal(hosted, "one")
    // A window manager gives a new window the focus.
    try await eventually("the first") { isFront(hosted, "one") }
    let other = try display.terminal(hosted, "other")
    try await eventually("the second") { isFront(hosted, "other") && !isFront(hosted, "one") }
    try display.activate(one)
    try await eventually("the first again") { isFront(hosted, "one") && !isFront(hosted, "other") }
    // One that is not the host's puts none in front.
    let stranger = try display.start(["xterm", "-e", "sleep 600"])
    try display.activate(stranger.processIdentifier)
    try await eventually("none") { hosted.host.apps().allSatisfy { $0.state == "background" } }
    // Whoever is suspended goes on when its window is focused.
    try hosted.host.suspend("other")
    #expect(hosted.entry("other")?.state == "suspended")
    try display.activate(other)
    try await eventually("the second again") { isFront(hosted, "other") }
    // Its window has the focus still when it goes on.
    try hosted.host.suspend("other")
    try hosted.host.resume("other")
    #expect(isFront(hosted, "other"))
    let (name, _) = try hosted.host.adopt(stranger.processIdentifier, name: nil)
    #expect(!isFront(hosted, name))
    try display.activate(stranger.processIdentifier)
    try await eventually("the one that was taken in") { isFront(hosted, name) }
    try await hosted.end()
  }

  @Test(.enabled(if: TestDisplay.isPossible, TestDisplay.why))
  func whoIsTakenInWithTheFocusIsInFront() async throws {
    let display = try await TestDisplay()
    let stranger = try display.start(["xterm", "-e", "sleep 600"])
    try display.activate(stranger.processIdentifier)
    let hosted = try Hosted(.auto, front: try display.choice())
    try await eventually("the display") { hosted.host.followed != nil }
    _ = try hosted.host.adopt(stranger.processIdentifier, name: "app")
    try await eventually("the foreground") { isFront(hosted, "app") }
    try await hosted.end()
  }

  @Test(.enabled(if: TestDisplay.isPossible, TestDisplay.why))
  func aDisplayMayComeLaterAndGo() async throws {
    let first = try await TestDisplay()
    let number = first.number
    first.end()
    let choice = try first.choice()
    let hosted = try Hosted(.auto, front: choice)
    #expect(choice.look(within: .seconds(30)) == .doesNotAnswer("the X display :\(number)"))
    for round in 0..<3 {
      #expect(hosted.host.followed == nil)
      let display = try await TestDisplay(number: number)
      try await eventually("the display, round \(round)") { hosted.host.followed != nil }
      #expect(choice.look(within: .seconds(30)) == .answers("the X display :\(number)"))
      _ = try display.terminal(hosted, "app")
      try await eventually("the foreground") { isFront(hosted, "app") }
      display.end()
      try await eventually("the end of both") { hosted.host.followed == nil && hosted.entry("app") == nil }
    }
    try await hosted.end()
  }

  @Test(.enabled(if: TestDisplay.isPossible, TestDisplay.why))
  func aCookieIsShown() async throws {
    let place = try Place()
    let file = place.folder.appending(path: "cookies").path
    func counted(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)] + bytes }
    func entry(_ data: [UInt8]) -> [UInt8] {
      [255, 255] + counted([]) + counted([]) + counted(X11Authority.magicCookie) + counted(data)
    }
    try Data(entry(Array(1...16))).write(to: URL(filePath: file))
    let display = try await TestDisplay(authority: file, hasManager: false)
    func events(_ file: String) throws -> [FrontEvent] {
      var shown = try #require(X11Display(":\(display.number)"))
      shown.authority = file
      let follower = DisplayFollower(X11Front(display: shown))
      var events = follower.advance([], now: .zero)
      // Until it has answered: one of the two.
      while events.isEmpty {
        var waits = follower.waits
        guard poll(&waits, nfds_t(waits.count), 60_000) > 0 else { break }
        events = follower.advance(Set(waits.filter { $0.revents != 0 }.map(\.fd)), now: .zero)
      }
      return events
    }
    #expect(try events(file).first == .followed("the X display :\(display.number)"))
    let wrong = place.folder.appending(path: "wrong").path
    try Data(entry(Array(2...17))).write(to: URL(filePath: wrong))
    let refused = try events(wrong)
    guard case .lost(let why) = refused.first else {
      Issue.record("not refused: \(refused)")
      return
    }
    #expect(why.contains("refused"))
  }

  /// Grabs the server, with nothing but a socket: for ever, or most of the time.
  private static let grabbing = """
    import random, socket, struct, sys, time
    s = socket.socket(socket.AF_UNIX); s.connect('/tmp/.X11-unix/X' + sys.argv[1])
    s.sendall(struct.pack('<BxHHHHxx', 0x6c, 11, 0, 0, 0))
    head = b''
    while len(head) < 8: head += s.recv(8 - len(head))
    left = 4 * struct.unpack('<H', head[6:8])[0]
    while left: left -= len(s.recv(left))
    def ask():
      s.sendall(struct.pack('<BxH', 43, 1)); n = 0
      while n < 32: n += len(s.recv(32 - n))
    while True:
      s.sendall(struct.pack('<BxH', 36, 1)); ask(); print('grabbed', flush=True)
      time.sleep(600 if sys.argv[2] == 'ever' else 0.02)
      s.sendall(struct.pack('<BxH', 37, 1)); ask()
      time.sleep(0.015 * random.random())
    """

  @Test(
    .enabled(if: TestDisplay.isPossible && Backends.python != nil, TestDisplay.why),
    arguments: Backends.usable)
  func whoHoldsTheDisplayIsNotFrozen(backend: Backend) async throws {
    let display = try await TestDisplay(hasManager: false)
    let hosted = try Hosted(backend, front: try display.choice())
    let output = try Output()
    _ = try hosted.host.launch(
      [try #require(Backends.python), "-c", Self.grabbing, "\(display.number)", "sometimes"], name: "app",
      descriptors: [-1, output.written, -1])
    _ = try await output.line("grabbed")
    var (frozen, refused) = (0, 0)
    let shown = try #require(X11Display(":\(display.number)"))
    func answers() -> Bool {
      if case .open(let probe) = DisplayProbe.open(shown, within: .seconds(30)) { return probe.answers() }
      return false
    }
    try await eventually("both ends") {
      output.take()
      do throws(ProcessHostError) {
        try hosted.host.suspend("app")
        frozen += 1
        #expect(hosted.entry()?.state == "suspended")
        #expect(answers())
        try hosted.host.resume("app")
      } catch {
        guard case .display("app", let why) = error.code else { throw error }
        #expect(why.contains("while it was suspended"))
        refused += 1
        #expect(hosted.entry()?.state == "background")
        // It goes on, and lets go.
        #expect(answers())
      }
      return frozen > 0 && refused > 0
    }
    try await hosted.end()
  }

  @Test(.enabled(if: TestDisplay.isPossible && Backends.python != nil, TestDisplay.why))
  func aDisplayThatIsHeldAlreadyIsReasonEnough() async throws {
    let display = try await TestDisplay(hasManager: false)
    let hosted = try Hosted(.auto, front: try display.choice())
    let output = try Output()
    _ = try hosted.host.launch(
      [try #require(Backends.python), "-c", Self.grabbing, "\(display.number)", "ever"], name: "app",
      descriptors: [-1, output.written, -1])
    _ = try await output.line("grabbed")
    #expect {
      try hosted.host.suspend("app")
    } throws: {
      guard case .display("app", let why)? = ($0 as? ProcessHostError)?.code else { return false }
      return why.contains("does not answer")
    }
    #expect(hosted.entry()?.state == "background")
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.entry() == nil }
    // Then nothing is in the way.
    _ = try hosted.shell("exec sleep 600")
    try hosted.host.suspend("app")
    #expect(hosted.entry()?.state == "suspended")
    try await hosted.end()
  }
}
