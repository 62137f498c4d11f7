import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// A sway without a screen, as an ordinary user where this is root, which it refuses.
private final class TestSway {
  let folder: String
  private let process: Process
  var socket: String { folder + "/ipc.sock" }

  static let isPossible = ["sway", "swaymsg", "foot", "setpriv"].allSatisfy {
    ProgramFile.find($0).path != nil
  }
  static let why: Comment = "sway, foot or setpriv is missing: scripts/prepare sway foot util-linux"

  init(_ place: Place) async throws {
    folder = place.folder.path
    try Data("xwayland disable\n".utf8).write(to: place.folder.appending(path: "config"))
    let isRoot = geteuid() == 0
    if isRoot { try #require(chown(folder, 65534, 65534) == 0) }
    try #require(chmod(folder, 0o700) == 0)
    let words =
      (isRoot ? ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] : [])
      + ["sway", "--config", folder + "/config"]
    let environment = [
      "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin", "HOME": folder,
      "XDG_RUNTIME_DIR": folder, "SWAYSOCK": folder + "/ipc.sock", "WLR_BACKENDS": "headless",
      "WLR_LIBINPUT_NO_DEVICES": "1",
      "WLR_RENDERER": "pixman",
    ]
    process = try startProgram(words, environment: environment, isQuiet: true)
  }

  deinit { end() }

  func end() {
    guard process.isRunning else { return }
    kill(process.processIdentifier, SIGTERM)
    process.waitUntilExit()
  }

  func visible() -> Set<Int32>? {
    SwayProbe.visibleProcesses(SwayFront(path: socket), within: .seconds(30))
  }

  func say(_ words: String) throws {
    let tool = try #require(ProgramFile.find("swaymsg").path)
    #expect(try outcome(of: [tool, "-q", "-s", socket, words]).status == 0, "\(words)")
  }

  /// Runs a terminal of Wayland's.
  func terminal(_ hosted: Hosted, _ name: String) throws -> Int32 {
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nothing) }
    return try hosted.host.launch(
      [
        "/usr/bin/env", "XDG_RUNTIME_DIR=\(folder)", "WAYLAND_DISPLAY=wayland-1", "foot", "-c", "/dev/null",
        "sleep",
        "600",
      ], name: name, descriptors: [nothing, nothing, nothing])
  }
}

/// Who is in front by a real compositor, with real programs.
@Suite(.bounded) struct SwayDisplayTests {
  private func isFront(_ hosted: Hosted, _ name: String) -> Bool { hosted.entry(name)?.state == "foreground" }

  // R-LIFE-04
  @Test(.enabled(if: TestSway.isPossible, TestSway.why), arguments: Backends.usable)
  func theFocusedProgramIsInFront(backend: Backend) async throws {
    let place = try Place()
    let choice = try FrontChoice("sway=" + place.folder.appending(path: "ipc.sock").path, environment: [:])
    // The host is there first.
    let hosted = try Hosted(backend, front: choice)
    for round in 0..<2 {
      #expect(hosted.host.followed == nil)
      let sway = try await TestSway(place)
      try await eventually("sway, round \(round)") { hosted.host.followed == "sway" }
      let one = try sway.terminal(hosted, "one")
      try await eventually("the first") { isFront(hosted, "one") }
      _ = try sway.terminal(hosted, "other")
      try await eventually("the second") { isFront(hosted, "other") && !isFront(hosted, "one") }
      try sway.say("[pid=\(one)] focus")
      try await eventually("the first again") { isFront(hosted, "one") && !isFront(hosted, "other") }
      // An empty workspace has no window.
      try sway.say("workspace empty")
      try await eventually("none") { hosted.host.apps().allSatisfy { $0.state == "background" } }
      // Only what is hidden may be suspended; who is not shown needs no look.
      #expect(try #require(sway.visible()).isEmpty)
      try hosted.host.suspend("one")
      try sway.say("[pid=\(one)] focus")
      try await eventually("the one that goes on") { isFront(hosted, "one") }
      #expect(try #require(sway.visible()).contains(one))
      #expect {
        try hosted.host.suspend("one")
      } throws: {
        guard case .display("one", let why)? = ($0 as? ProcessHostError)?.code else { return false }
        return why.contains("visible")
      }
      #expect(isFront(hosted, "one"))
      try hosted.host.terminate("one")
      try await eventually("what is left") { isFront(hosted, "other") && hosted.entry("one") == nil }
      sway.end()
      try await eventually("the end of both") { hosted.host.followed == nil && hosted.host.apps().isEmpty }
    }
    try await hosted.end()
  }

  /// Who is frozen while it is shown dies of some hundred events.
  @Test(.enabled(if: TestSway.isPossible, TestSway.why), arguments: Backends.usable)
  func whatIsShownGoesOnAndWhatIsHiddenOutlivesEvents(backend: Backend) async throws {
    let place = try Place()
    let choice = try FrontChoice("sway=" + place.folder.appending(path: "ipc.sock").path, environment: [:])
    let log = Told()
    let hosted = try Hosted(backend, front: choice, log: { log.append($0) })
    let sway = try await TestSway(place)
    try await eventually("sway") { hosted.host.followed == "sway" }
    let one = try sway.terminal(hosted, "one")
    try await eventually("the first") { isFront(hosted, "one") }
    let other = try sway.terminal(hosted, "other")
    try await eventually("the second") { isFront(hosted, "other") }
    try sway.say("workspace elsewhere")
    try await eventually("none") { hosted.host.apps().allSatisfy { $0.state == "background" } }
    try hosted.host.suspend("one")
    // Its neighbour has the focus there still.
    try sway.say("[pid=\(other)] focus")
    try await eventually("both that are shown") { hosted.entry("one")?.state == "background" }
    #expect(isFront(hosted, "other"))
    #expect(try #require(sway.visible()).contains(one))
    #expect(log.lines.contains("'one' goes on, as a window of it is shown"))
    // Hidden, it hears of none of what happens.
    try sway.say("[pid=\(other)] move container to workspace elsewhere")
    try sway.say("workspace elsewhere")
    try await eventually("the second alone") { sway.visible() == [other] }
    try hosted.host.suspend("one")
    _ = try sway.terminal(hosted, "third")
    try await eventually("the third") { isFront(hosted, "third") }
    for round in 0..<20 {
      let changes = "[pid=\(other)] focus; resize set width \(30 + round) ppt; focus right; "
      try sway.say(
        String(repeating: changes, count: 25)
          + "output HEADLESS-1 resolution \(round % 2 == 0 ? "1000x700" : "1200x800")")
    }
    #expect(hosted.entry("one")?.state == "suspended")
    try sway.say("[pid=\(one)] focus")
    try await eventually("the first again") { isFront(hosted, "one") }
    try await hosted.end()
  }
}
