import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Apps that are started by their manifests, and what these say.
@Suite(.bounded) struct HostStartTests {
  private static let sleeps = "exec sleep 600"

  private func hosted(
    _ place: ManifestPlace, _ backend: Backend = .signals, key: String = Hosted.newKey(),
    telling told: Told = Told()
  ) throws -> Hosted {
    try Hosted(
      backend, key: key, catalog: ManifestCatalog(folders: [place.path], log: { told.append($0) }))
  }

  // R-MAN-07
  @Test(arguments: Backends.usable) func anAppStartsOnDemandOnce(backend: Backend) async throws {
    let place = try ManifestPlace()
    try place.script(
      "cd .; pwd > \(place.path)/where; " + Self.sleeps, place.path, name: "mail", ["OpportuneFolder": "/usr"]
    )
    try place.script(Self.sleeps, place.path, name: "game")
    let hosted = try hosted(place, backend)
    #expect(hosted.host.known().map(\.id) == ["game", "mail"])
    #expect(hosted.host.known().allSatisfy { $0.state == "terminated" && $0.pids.isEmpty })
    let pid = try #require(try hosted.host.start("mail"))
    #expect(hosted.entry("mail")?.state == "background")
    #expect(hosted.host.known().map(\.id) == ["game"])
    try await eventually("its folder") {
      (try? String(contentsOfFile: place.path + "/where", encoding: .utf8)) == "/usr\n"
    }
    // Another call starts no other, and lets one that is suspended go on.
    #expect(try hosted.host.start("mail") == nil)
    try hosted.host.suspend("mail", locks: .ignore)
    #expect(hosted.entry("mail")?.state == "suspended")
    #expect(try hosted.host.start("mail") == nil)
    #expect(hosted.entry("mail")?.state == "background")
    #expect(hosted.entry("mail")?.pids.contains(pid) == true)
    try hosted.host.bringForward("game")
    #expect(hosted.entry("game")?.state == "foreground")
    try hosted.host.bringForward("mail")
    #expect(hosted.entry("game")?.state == "background")
    let none = #expect(throws: ProcessHostError.self) { try hosted.host.start("none") }
    #expect(none?.code == .unknownApp("none"))
    try await hosted.end()
  }

  // R-MAN-07
  @Test func whatIsStartedFindsItsHost() async throws {
    // By whatever variable the host was started, its programs join this one.
    setenv(HostSocket.variable, "/another", 1)
    defer { unsetenv(HostSocket.variable) }
    let place = try ManifestPlace()
    try place.script(
      "echo $OPPORTUNE_SOCKET > \(place.path)/socket; " + Self.sleeps, place.path, name: "mail")
    for socket in [nil, "/run/this.sock"] {
      let hosted = try Hosted(
        .signals, catalog: ManifestCatalog(folders: [place.path], log: { _ in }), socket: socket)
      try hosted.host.start("mail")
      try await eventually("its host") {
        (try? String(contentsOfFile: place.path + "/socket", encoding: .utf8))
          == (socket ?? "/another") + "\n"
      }
      try await hosted.end()
    }
  }

  @Test func whatCannotBeStartedSaysWhy() async throws {
    let place = try ManifestPlace()
    let entry = "[Desktop Entry]\nType=Application\nName=x\n"
    try place.write(entry + "Exec=no-such-program\n", place.path, "none.desktop")
    try place.write(entry + "Exec=top\nTerminal=true\n", place.path, "top.desktop")
    try place.write(entry + "Exec=a|b\n", place.path, "bad.desktop")
    let told = Told()
    let hosted = try hosted(place, telling: told)
    for (name, part) in [
      ("none", "'no-such-program' could not be started: No such file"),
      ("top", "needs a terminal, which the host has none of: opportune run --name top -- top"),
      ("bad", "the manifest '\(place.path)/bad.desktop': 'Exec' is 'a|b'"),
    ] {
      let error = #expect(throws: ProcessHostError.self) { try hosted.host.bringForward(name) }
      #expect(error?.message.contains(part) == true, "\(String(describing: error))")
    }
    #expect(hosted.host.apps().isEmpty)
    #expect(told.lines.count == 1, "\(told.lines)")
    try await hosted.end()
  }

  // R-MAN-01 R-MAN-06
  @Test func aBackgroundModeKeepsItFromSuspensionUntilItsUserEndsThat() async throws {
    let place = try ManifestPlace()
    try place.script(Self.sleeps, place.path, name: "player", ["UIBackgroundModes": ["audio"]])
    try place.script(
      Self.sleeps, place.path, name: "server", ["OpportuneSuspend": "refuse", "OpportuneTaskSeconds": 0.001])
    let hosted = try hosted(place)
    for (name, why) in [("player", "mode audio"), ("server", "its manifest")] {
      try hosted.host.start(name)
      #expect(hosted.entry(name)?.keptBy == [why])
      let error = #expect(throws: ProcessHostError.self) { try hosted.host.suspend(name, locks: .ignore) }
      #expect(error?.message.contains("exempt by its manifest (\(why))") == true)
      #expect(hosted.entry(name)?.state == "background")
      try hosted.host.endKeeping(name)
      if name == "player" {
        try hosted.host.suspend(name, locks: .ignore)
        #expect(hosted.entry(name)?.state == "suspended")
      }
    }
    // Its time in background was over long ago; only the manifest's other key kept it.
    try await eventually("its suspension") { hosted.entry("server")?.state == "suspended" }
    try await hosted.end()
  }

  // R-TASK-04
  @Test(arguments: Backends.usable) func timeInBackgroundEndsInSuspensionAndBeginsAnew(backend: Backend)
    async throws
  {
    let place = try ManifestPlace()
    try place.script(
      Self.sleeps, place.path, name: "mail", ["OpportuneTaskSeconds": 0.02, "OpportuneLocks": "ignore"])
    try place.script(Self.sleeps, place.path, name: "game")
    let hosted = try hosted(place, backend)
    try hosted.host.start("mail", foreground: true)
    try hosted.host.start("game", foreground: true)
    try await eventually("its suspension") { hosted.entry("mail")?.state == "suspended" }
    // Kept, it stays in background; the time is over as soon as that ends.
    try hosted.host.bringForward("mail")
    try hosted.host.keep("mail")
    try hosted.host.bringForward("game")
    #expect(hosted.entry("mail")?.state == "background")
    try hosted.host.keep("mail", seconds: 0.05)
    try await eventually("its suspension") { hosted.entry("mail")?.state == "suspended" }
    #expect(hosted.entry("game")?.state == "foreground")
    try await hosted.end()
  }

  // R-MAN-04
  @Test func whoExitsOnSuspensionIsTerminatedWhenItLeavesTheForeground() async throws {
    let place = try ManifestPlace()
    try place.script(Self.sleeps, place.path, name: "mail", ["UIApplicationExitsOnSuspend": true])
    try place.script(Self.sleeps, place.path, name: "game")
    let hosted = try hosted(place)
    let first = try #require(try hosted.host.start("mail"))
    #expect(hosted.entry("mail")?.state == "foreground")
    try hosted.host.start("game", foreground: true)
    try await eventually("its end") { hosted.entry("mail") == nil }
    let second = try #require(try hosted.host.start("mail"))
    #expect(first != second && hosted.entry("game")?.state == "background")
    let error = #expect(throws: ProcessHostError.self) { try hosted.host.suspend("mail") }
    #expect(error?.message.contains("terminated instead") == true)
    try await eventually("its end") { hosted.entry("mail") == nil }
    try await hosted.end()
  }

  /// Its own grace is shorter than the host's, which is never reached here; or longer.
  @Test func theGraceIsItsOwn() async throws {
    let place = try ManifestPlace()
    let script = "trap '' TERM; echo > \(place.path)/$0.on; while :; do sleep 0.01; done"
    for (name, grace) in [("short", 0.1), ("long", 3600)] {
      try writeManifest(
        ["sh", "-c", script, name], name: name, ["OpportuneGraceSeconds": grace], in: place.path)
    }
    let short = try Hosted(.signals, grace: .seconds(3600), catalog: ManifestCatalog(folders: [place.path]))
    try short.host.start("short")
    try await eventually("its trap") { SystemFile.exists(place.path + "/short.on") }
    try short.host.terminate("short")
    try await eventually("its end") { short.host.apps().isEmpty }
    short.host.stop()

    let long = try Hosted(
      .signals, grace: .milliseconds(100), catalog: ManifestCatalog(folders: [place.path]))
    let pid = try #require(try long.host.start("long"))
    try await eventually("its trap") { SystemFile.exists(place.path + "/long.on") }
    let other = try long.shell(
      "trap '' TERM; echo > \(place.path)/other.on; while :; do sleep 0.01; done", name: "other")
    try await eventually("its trap") { SystemFile.exists(place.path + "/other.on") }
    try long.host.terminate("long")
    try long.host.terminate("other")
    // The host's grace is over for the one that was asked later.
    try await eventually("the end of the other") { long.entry("other") == nil }
    #expect(ProcessStat(of: pid)?.hasEnded == false && ProcessStat(of: other)?.hasEnded != false)
    let again = #expect(throws: ProcessHostError.self) { try long.host.start("long") }
    #expect(again?.message.contains("it is being ended") == true)
    kill(pid, SIGKILL)
    try await eventually("its end") { long.host.apps().isEmpty }
    long.host.stop()
  }

  @Test(arguments: Backends.usable) func aHostThatFollowsKnowsTheManifestOfWhatWasLeft(backend: Backend)
    async throws
  {
    let place = try ManifestPlace()
    try place.script(Self.sleeps, place.path, name: "player", ["UIBackgroundModes": ["audio"]])
    let key = Hosted.newKey()
    // The first host goes before the second comes, which waits for its warden, for five seconds.
    func startsAndGoes() throws -> Int32? {
      let first = try hosted(place, backend, key: key)
      defer { first.host.stop() }
      return try first.host.start("player")
    }
    let pid = try #require(try startsAndGoes())
    let second = try hosted(place, backend, key: key)
    #expect(second.entry("player")?.pids.contains(pid) == true)
    #expect(second.entry("player")?.keptBy == ["mode audio"])
    for app in second.host.apps() { try second.host.terminate(app.id) }
    // It is this process's child, which the first host has started and the second one reaps.
    try await eventually("the reaping") { ProcessStat(of: pid) == nil }
    try await second.end()
  }

  // MARK: The command

  @Test func theCommandStartsListsAndSaysWhy() async throws {
    let (place, manifests) = (try Place(), try ManifestPlace())
    try manifests.script(Self.sleeps, manifests.path, name: "mail")
    try manifests.write("[Desktop Entry]\nType=Application\n", manifests.path, "bad.desktop")
    let errors = try Output()
    let host = try await HostProgram(
      place, .signals, options: ["--manifests", manifests.path], errors: errors)
    func opportune(_ arguments: String...) throws -> (status: Int32, said: String) {
      try told(by: [arguments[0], "--socket", place.path] + arguments.dropFirst())
    }
    #expect(try opportune("apps").said == "no app runs\n")
    let known = try JSONDecoder().decode(
      [AppEntry].self, from: Data(try opportune("apps", "--all", "--json").said.utf8))
    #expect(known.map(\.id) == ["mail"] && known.first?.state == "terminated")
    #expect(try await errors.line("Note: manifest").contains("bad.desktop': the key 'Name' is missing"))
    let started = try opportune("run", "mail")
    #expect(started.status == 0 && started.said.hasPrefix("app 'mail' was started: process "))
    #expect(try opportune("run", "mail", "--foreground").said.hasPrefix("app 'mail' runs already\n"))
    #expect(try host.ask(.apps, nil).apps?.first?.state == "foreground")
    let bad = try opportune("run", "bad")
    #expect(bad.status == 1 && bad.said.contains("the key 'Name' is missing"))
    #expect(try opportune("front", "none").said.contains("there is no app 'none'"))
    #expect(try opportune("run", "mail", "--name", "x").status == 64)
    #expect(try opportune("run", "mail", "--", "true").status == 64)
    try host.ask(.terminate, "mail")
    try await host.endWhenEmpty()
  }

  /// As `ExecStopPost` of a unit does, when the host and its warden were killed.
  @Test(arguments: Backends.usable) func aSweepLetsGoOnWhatWasLeft(backend: Backend) async throws {
    let place = try Place()
    let host = try await HostProgram(place, backend)
    let output = try Output()
    let program = try host.run(["sh", "-c", "while :; do echo tick; sleep 0.01; done"], output: output)
    _ = try await output.line("tick")
    try host.ask(.suspend, "sh")
    func sweep() throws -> (status: Int32, said: String) {
      try told(by: ["host", "--sweep", "--socket", place.path, "--backend", backend.rawValue])
    }
    // Not while a host lives, whose apps these are.
    let early = try sweep()
    #expect(early.status == 1 && early.said.contains("a host"), "\(early)")
    let warden = try host.child("opportune-ward")
    kill(warden.pid, SIGKILL)
    try await eventually("its end") { ProcessStat(of: warden.pid)?.hasEnded != false }
    kill(host.process.processIdentifier, SIGKILL)
    host.process.waitUntilExit()
    while !output.take().isEmpty {}
    #expect(!output.comes(within: 50))
    #expect(try sweep().said.contains("left, and running now: sh\n"))
    #expect(output.comes(within: 30_000))
    kill(program.processIdentifier, SIGKILL)
    program.waitUntilExit()
    #expect(try sweep().said.contains("no app was left\n"))
  }

  @Test func aServiceManagerIsToldByADatagram() async throws {
    let place = try Place()
    for name in [place.folder.path + "/notify", "@" + Hosted.newKey()] {
      let receiver = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
      defer { close(receiver) }
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      let bytes = (name.hasPrefix("@") ? [0] : []) + Array(name.drop { $0 == "@" }.utf8)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
      let length = socklen_t(2 + bytes.count + (bytes[0] == 0 ? 0 : 1))
      let status = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(receiver, $0, length) }
      }
      #expect(status == 0)
      let host = Process(
        [try command().path, "host", "--socket", place.path, "--backend", "signals", "--bus", "none"],
        environment: ["PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": name])
      host.standardOutput = FileHandle.nullDevice
      try runUnblocked(host)
      func next() -> String {
        var polled = pollfd(fd: receiver, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, 30_000) > 0 else { return "nothing" }
        var bytes = [UInt8](repeating: 0, count: 4096)
        return String(decoding: bytes[..<max(0, recv(receiver, &bytes, bytes.count, 0))], as: UTF8.self)
      }
      #expect(next() == "READY=1\nSTATUS=The host listens at '\(place.path)'.")
      // Ready means that it answers.
      #expect(try HostRequest(.apps).send(to: place.path).ok)
      kill(host.processIdentifier, SIGTERM)
      #expect(next() == "STOPPING=1")
      host.waitUntilExit()
      #expect(host.terminationStatus == 0)
    }
    #expect(ServiceNotice(socket: "relative").send("READY=1")?.contains("expected a path") == true)
    #expect(ServiceNotice(socket: "/nonexistent/x").send("READY=1")?.contains("was not told") == true)
    #expect(
      ServiceNotice(socket: "/" + String(repeating: "x", count: 200)).send("A=1")?.contains("longer") == true)
  }

  @Test func theGroupOfAServiceIsFoundFromBesideIt() {
    #expect(ControlGroupTree.ofService("/sys/fs/cgroup/a.service/.control") == "/sys/fs/cgroup/a.service")
    #expect(ControlGroupTree.ofService("/sys/fs/cgroup/a.service") == "/sys/fs/cgroup/a.service")
    #expect(ControlGroupTree.ofService("/.control") == "/.control")
    #expect(
      ControlGroupTree.ofService("/sys/fs/cgroup/a.service/opportune-host") == "/sys/fs/cgroup/a.service")
    #expect(ControlGroupTree.ofService("/sys/fs/cgroup/opportune-host.service").hasSuffix(".service"))
  }
}
