import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A host with its socket, and a program that is one of its apps from its start.
private final class Program: JoinedHost {
  init(_ path: String, _ arguments: [String] = [], taskLimit: Duration = .seconds(60)) throws {
    try super.init(Hosted(.auto, taskLimit: taskLimit))
    _ = try hosted.host.launch(
      ["/usr/bin/env", "OPPORTUNE_SOCKET=\(place.path)", path] + arguments, name: "app", foreground: true,
      descriptors: [input.read, output.written, -1])
  }

  func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(input.written, bytes, bytes.count)
  }
}

/// The examples of programs that cooperate, as a user starts them: in Swift, and in C without Swift.
@Suite(.bounded) struct CooperateTests {
  static let compiler = ["/usr/bin/gcc", "/usr/bin/cc"].first(where: SystemFile.exists)

  // R-LIFE-11, R-LIFE-12, R-LIFE-14
  @Test func aSwiftProgramHearsWhatAnAppHears() async throws {
    let program = try Program(try command().deletingLastPathComponent().appending(path: "Cooperate").path)
    let host = program.hosted.host
    #expect(Set(try await program.lines(3)) == ["is the app 'app'", "launched", "is in front"])
    _ = try host.suspend("app")
    #expect(try await program.lines(3) == ["leaves the front", "is in background: saves", "stops"])
    try await eventually("suspension") { program.hosted.entry()?.state == "suspended" }
    try host.bringForward("app")
    #expect(try await program.lines(3) == ["goes on", "comes to the front", "is in front"])
    #expect(try HostRequest(.warn, name: "app").send(to: program.place.path, within: .seconds(30)).ok)
    #expect(try await program.lines(1) == ["lets caches go"])
    // R-MSG-01
    let sent = try host.notify("app", Message("letter", payload: ["from": "ada"]))
    #expect(try await program.lines(1) == ["has a message 'letter' of ada"])
    try await eventually("a reply") { try host.reply(to: sent, of: "app").reply == "read" }
    try host.terminate("app")
    #expect(try await program.lines(2) == ["leaves the front", "ends: saves"])
    try await eventually("the end") { program.hosted.entry() == nil }
    try await program.hosted.end()
  }

  // R-LIFE-01, R-LIFE-04
  @Test func itsAppsInsideAreAppsOfTheHost() async throws {
    let program = try Program(try command().deletingLastPathComponent().appending(path: "Cooperate").path)
    let host = program.hosted.host
    _ = try await program.lines(3)
    program.say("apps mail music")
    // The first may be left before it is in front.
    var began: Set<String> = []
    while !began.isSuperset(of: ["music is in front", "has apps"]) {
      began.formUnion(try await program.lines(1))
    }
    func states(_ mail: String, _ music: String) async throws {
      try await eventually("mail \(mail), music \(music)") {
        program.hosted.entry("app/mail")?.state == mail && program.hosted.entry("app/music")?.state == music
      }
    }
    try await states("suspended", "foreground")
    #expect(program.hosted.entry("app/mail")?.pids == [])
    try host.bringForward("app/mail")
    began = []
    while !began.isSuperset(of: ["music is in background", "mail is in front"]) {
      began.formUnion(try await program.lines(1))
    }
    try await states("foreground", "suspended")
    // The program leaves the front, and its front app with it; both come back.
    _ = try host.suspend("app")
    let leaves: Set = ["leaves the front", "mail is in background", "is in background: saves", "stops"]
    #expect(Set(try await program.lines(4)) == leaves)
    try await states("suspended", "suspended")
    try host.bringForward("app")
    let comes: Set = ["goes on", "comes to the front", "mail is in front", "is in front"]
    #expect(Set(try await program.lines(4)) == comes)
    try await states("foreground", "suspended")
    // What is not there any more is not listed.
    try host.terminate("app/music")
    try await eventually("no music") { program.hosted.entry("app/music") == nil }
    _ = try host.suspend("app/mail")
    #expect(try await program.lines(1) == ["mail is in background"])
    #expect(program.hosted.entry()?.state == "foreground")
    // Others take their place.
    program.say("apps me/you")
    #expect(Set(try await program.lines(2)) == ["me/you is in front", "has apps"])
    #expect(try await program.lines(1)[0].hasPrefix("me/you is not listed: its name is 'me/you'"))
    #expect(program.hosted.host.apps().map(\.id) == ["app"])
    // More than a host takes at once is told in a while, and what it does not list is said once.
    program.say("apps " + (0..<100).map { "a\($0)" }.joined(separator: " "))
    try await eventually("those of which 64 are listed") { program.hosted.host.apps().count == 1 + 64 }
    #expect(program.hosted.entry()?.notes.contains { $0.contains("cooperates no more") } == false)
    try host.terminate("app")
    try await eventually("the end") { program.hosted.host.apps().isEmpty }
    try await program.hosted.end()
  }

  // R-TASK-01
  @Test func aSwiftProgramHasTimeAndIsToldOfItsEnd() async throws {
    let program = try Program(
      try command().deletingLastPathComponent().appending(path: "Cooperate").path,
      taskLimit: .seconds(2))
    let host = program.hosted.host
    _ = try await program.lines(3)
    program.say("begin upload")
    #expect(try await program.lines(1) == ["has time"])
    #expect(program.hosted.entry()?.keptBy.contains("background task: upload") == true)
    _ = try host.suspend("app")
    let lines = ["leaves the front", "is in background: saves", "has no more time", "stops"]
    #expect(try await program.lines(4) == lines)
    try await eventually("suspension") { program.hosted.entry()?.state == "suspended" }
    try host.resume("app")
    #expect(try await program.lines(1) == ["goes on"])
    program.say("begin another")
    #expect(try await program.lines(1) == ["has time"])
    program.say("end")
    try await eventually("the end of the task") { program.hosted.entry()?.keptBy == [] }
    let pids = program.hosted.entry()?.pids ?? []
    #expect(pids.count == 1)
    host.stop()
    #expect(try await program.lines(1) == ["is alone: the host ends"])
    // No host is there to reap it; and who waits for any child, as exit tests do, would find it for ever.
    for pid in pids {
      kill(pid, SIGKILL)
      waitpid(pid, nil, 0)
    }
  }

  // R-TASK-01, R-RULE-10
  /// What is cancelled has returned before the program is stopped.
  @Test func theBodyOfATaskEndsBeforeSuspension() async throws {
    let program = try Program(
      try command().deletingLastPathComponent().appending(path: "Cooperate").path, taskLimit: .seconds(1))
    _ = try await program.lines(3)
    program.say("finish index")
    #expect(try await program.lines(1) == ["works"])
    #expect(program.hosted.entry()?.keptBy.contains("background task: index") == true)
    _ = try program.hosted.host.suspend("app")
    let lines = [
      "leaves the front", "is in background: saves", "has put away what is not finished", "stops",
    ]
    #expect(try await program.lines(4) == lines)
    try await eventually("suspension") { program.hosted.entry()?.state == "suspended" }
    #expect(program.hosted.entry()?.keptBy == [])
    try await program.hosted.end()
  }

  // R-MSG-02, R-MSG-09, R-MSG-10
  @Test func aSwiftProgramIsRemindedAtItsTime() async throws {
    let program = try Program(try command().deletingLastPathComponent().appending(path: "Cooperate").path)
    _ = try await program.lines(3)
    program.say("remind 3600")
    program.say("reminders")
    #expect(try await program.lines(2) == ["will be reminded", "is to hear of reminder"])
    #expect(program.hosted.entry()?.scheduled == 1)
    program.say("forget")
    program.say("reminders")
    #expect(try await program.lines(1) == ["is to hear of nothing"])
    #expect(program.hosted.entry()?.scheduled == 0)
    program.say("remind 1e15")
    #expect(try await program.lines(1).first?.hasPrefix("cannot be reminded: the date of the") == true)
    program.say("remind 0")
    #expect(Set(try await program.lines(2)) == ["will be reminded", "is reminded: tea"])
    let pids = program.hosted.entry()?.pids ?? []
    program.hosted.host.stop()
    #expect(try await program.lines(1) == ["is alone: the host ends"])
    program.say("remind 0")
    let alone = "cannot be reminded: there is no connection to the host: the host ends"
    #expect(try await program.lines(1) == [alone])
    for pid in pids {
      kill(pid, SIGKILL)
      waitpid(pid, nil, 0)
    }
  }

  // R-VOIP-01, R-VOIP-03
  @Test func aSwiftProgramHearsWhatComesWhileItIsSuspended() async throws {
    let program = try Program(try command().deletingLastPathComponent().appending(path: "Cooperate").path)
    _ = try await program.lines(3)
    program.say("listen /proc/self/exe")
    let refused = "cannot listen: the host keeps no socket alive: it is no socket and no pipe"
    #expect(try await program.lines(1) == [refused])
    let path = program.place.folder.appending(path: "feed").path
    #expect(mkfifo(path, 0o600) == 0)
    program.say("listen " + path)
    #expect(try await program.lines(1) == ["listens"])
    let feed = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
    defer { close(feed) }
    _ = try program.hosted.host.suspend("app")
    #expect(try await program.lines(3) == ["leaves the front", "is in background: saves", "stops"])
    try await eventually("suspension") { program.hosted.entry()?.state == "suspended" }
    _ = write(feed, "news", 4)
    #expect(try await program.lines(3) == ["goes on", "has heard 'news'", "stops"])
    try await eventually("suspension") { program.hosted.entry()?.state == "suspended" }
    try await program.hosted.end()
  }

  @Test func aSwiftProgramOfNoAppWorksAlone() async throws {
    let (place, hosted) = (try Place(), try Hosted(.signals))
    let host = hosted.host
    let socket = try HostSocket.open(at: place.path) { host }
    for (path, said) in [(place.path, "it belongs to no app"), (place.path + "-none", "no host answers at")] {
      let text = try outcome(of: [builtProgram("Cooperate")], environment: ["OPPORTUNE_SOCKET": path]).output
      #expect(text.hasPrefix("works alone: ") && text.contains(said), "\(text)")
    }
    try await hosted.end()
    withExtendedLifetime(socket) {}
  }

  /// The example in C, without Swift.
  ///
  /// - Returns: the path of the program.
  static func buildInC(in place: Place) throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
      .standardizedFileURL
    let built = place.folder.appending(path: "cooperate").path
    let library = root.appending(path: "CSupport/OpportuneClient")
    let build = try outcome(
      of: [try #require(compiler), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
        + ["-I\(library.path)/include", "\(root.path)/docs/examples/c/cooperate.c"]
        + ["\(library.path)/client.c", "\(library.path)/line.c", "-o", built])
    #expect(build.status == 0, "\(build.errors)")
    return built
  }

  @Test(.enabled(if: compiler != nil, "there is no C compiler")) func aCProgramNeedsNoSwift() async throws {
    let place = try Place()
    let built = try Self.buildInC(in: place)
    let count = place.folder.appending(path: "count.txt")
    let program = try Program(built, [count.path])
    let host = program.hosted.host
    #expect(try await program.lines(1) == ["in front"])
    _ = try host.suspend("app")
    // Stopped only when it has counted to ten, which its task was for.
    #expect(try await program.lines(2) == ["in background", "stops"])
    try await eventually("suspension") { program.hosted.entry()?.state == "suspended" }
    #expect(FileManager.default.fileExists(atPath: count.path))
    try host.resume("app")
    #expect(try await program.lines(1) == ["goes on"])
    // R-MSG-01
    let sent = try host.notify("app", Message("letter", payload: ["from": "ada"]))
    #expect(try await program.lines(1) == ["a message 'letter' of ada"])
    try await eventually("a reply") { try host.reply(to: sent, of: "app").reply == "read" }
    try host.terminate("app")
    #expect(try await program.lines(1) == ["ends"])
    try await eventually("the end") { program.hosted.entry() == nil }
    let text = try String(contentsOf: count, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
    #expect(Int(text).map { $0 >= 10 } == true, "\(text)")
    try await program.hosted.end()
  }
}
