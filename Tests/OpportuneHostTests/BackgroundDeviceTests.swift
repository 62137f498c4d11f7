import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Devices are taken from real programs in background. The device is the one that makes terminals, which each
/// machine has and which may be opened as often as one likes.
@Suite(.bounded) struct BackgroundDeviceTests {
  static let opening = """
    import os, time
    while True:
      try:
        os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
        print("opened", flush=True)
      except OSError as error: print("error", error.errno, flush=True)
      os.close(os.open("/dev/null", os.O_RDWR))
      time.sleep(0.01)
    """
  static let terminals = "pty=c:5:2"

  /// What the program meets from now on: of lines that come now, the first may be of before.
  private func says(_ output: Output) async throws -> String {
    output.forget()
    return try await output.lines(3)[2]
  }

  private func start(_ hosted: Hosted, _ script: String, foreground: Bool, output: Output) throws {
    _ = try hosted.host.launch(
      [try #require(Backends.python), "-c", script], name: "app", foreground: foreground,
      descriptors: [-1, output.written, -1])
  }

  // R-HW-01, R-HW-02, R-GFX-02
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits))
  func aDeviceIsOpenedInFrontAlone() async throws {
    let (key, output) = (Hosted.newKey(), try Output())
    do {
      let hosted = try Hosted(.auto, key: key, devices: DeviceList(Self.terminals))
      try start(hosted, Self.opening, foreground: false, output: output)
      #expect(try await output.lines(1) == ["error 1"])
      try hosted.host.bringForward("app")
      #expect(try await says(output) == "opened")
      _ = try hosted.shell("sleep 600", name: "other", foreground: true)
      #expect(try await says(output) == "error 1")
      try hosted.host.suspend("app")
      try hosted.host.resume("app")
      #expect(try await says(output) == "error 1")
      #expect(hosted.entry()?.notes == [])
      hosted.host.stop()
      #expect(try await says(output) == "opened")
    }
    // A host after it ends what is left.
    let next = try Hosted(.auto, key: key)
    #expect(next.host.apps().count == 2)
    try await next.end()
  }

  // R-HW-01
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits))
  func whatIsOpenStaysOfUseAndIsTold() async throws {
    let hosted = try Hosted(.auto, devices: DeviceList(Self.terminals + ",gpu"))
    let output = try Output()
    let script = """
      import fcntl, os, struct, termios, time
      kept = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
      while True:
        print("number", struct.unpack("I", fcntl.ioctl(kept, 0x80045430, b"0000"))[0] >= 0, flush=True)
        time.sleep(0.01)
      """
    try start(hosted, script, foreground: true, output: output)
    #expect(try await says(output) == "number True")
    #expect(hosted.entry()?.notes == [])
    _ = try hosted.shell("sleep 600", name: "other", foreground: true)
    #expect(try await says(output) == "number True")
    let note = try #require(hosted.entry()?.notes.first)
    #expect(note.contains("pty ('/dev/ptmx')") || note.contains("pty ('/dev/pts/ptmx')"), "\(note)")
    try hosted.host.bringForward("app")
    #expect(hosted.entry()?.notes == [])
    try await hosted.end()
  }

  /// By the host's word, or by that of its manifest; who has none open stays, and so does who is kept.
  // R-HW-01, R-GFX-02
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits), arguments: HeldDevices.Answer.allCases)
  func whoHasADeviceOpenIsSuspendedOrTerminated(by answer: HeldDevices.Answer) async throws {
    let place = try Place()
    let holding = [
      try #require(Backends.python), "-c",
      "import os, time; kept = os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); print('open', flush=True); "
        + "time.sleep(600)",
    ]
    let toSay = "exec \"$0\" \"$@\" > '\(place.folder.path)/said'"
    try writeManifest(
      ["/bin/sh", "-c", toSay] + holding, name: "declared", ["OpportuneHeldDevices": answer.rawValue],
      in: place.folder.path)
    let log = Told()
    let hosted = try Hosted(
      .auto, catalog: ManifestCatalog(folders: [place.folder.path]), devices: DeviceList(Self.terminals),
      heldDevices: answer == .tell ? .terminate : answer, log: { log.append($0) })
    for name in answer == .tell ? [] : ["app", "kept"] {
      let output = try Output()
      _ = try hosted.host.launch(
        holding, name: name, foreground: true, descriptors: [-1, output.written, -1])
      _ = try await output.lines(1)
      if name == "kept" { try hosted.host.keep(name, seconds: nil, reason: "a call") }
    }
    _ = try hosted.shell("exec sleep 600", name: "without", foreground: true)
    try hosted.host.start("declared", foreground: true)
    let file = place.folder.path + "/said"
    try await eventually("its device is open") { SystemFile.text(file) == "open\n" }
    _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
    switch answer {
    case .tell:
      // The host's word is another; it has been heard of one that says nothing.
      _ = try hosted.host.launch(
        ["/bin/sh", "-c", "exec 3<>/dev/ptmx; exec sleep 600"], name: "undeclared", foreground: true)
      try await eventually("its device is open") {
        hosted.entry("undeclared").map { SystemFile.exists("/proc/\($0.pids.first ?? 0)/fd/3") } == true
      }
      try hosted.host.bringForward("other")
      try await eventually("its end") { hosted.entry("undeclared") == nil }
      #expect(hosted.entry("declared")?.notes.first?.contains("/ptmx'") == true)
    case .suspend:
      for name in ["app", "declared"] {
        try await eventually("\(name) is suspended") { hosted.entry(name)?.state == "suspended" }
        #expect(hosted.entry(name)?.notes.first?.contains("/ptmx'") == true)
      }
      try await eventually("the reason") {
        log.lines.contains { $0.hasPrefix("'declared' is suspended: it has open") }
      }
      try hosted.host.bringForward("app")
      #expect(hosted.entry()?.notes == [])
    case .terminate:
      for name in ["app", "declared"] {
        try await eventually("the end of \(name)") { hosted.entry(name) == nil }
      }
      try await eventually("the reason") {
        log.lines.contains { $0.hasPrefix("'declared' is terminated: it has open") }
      }
    }
    if answer != .terminate { #expect(hosted.entry("declared") != nil) }
    if answer != .tell { #expect(hosted.entry("kept")?.state == "background") }
    #expect(hosted.entry("without")?.state == "background")
    try await hosted.end()
  }

  /// A user's word goes before it: who is told to go on does, who is kept stays, also one whose device has
  /// its node elsewhere. Who was in front of a host that has ended has not come to background.
  // R-GFX-02
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits), arguments: [false, true])
  func aUsersWordGoesBeforeWhatIsOpen(terminates: Bool) async throws {
    let place = try Place()
    let node = place.folder.path + "/node"
    // The one that is full of zeros.
    try #require(mknod(node, S_IFCHR | 0o600, 1 << 8 | 5) == 0)
    let (key, log) = (Hosted.newKey(), Told())
    let answer = terminates ? HeldDevices.Answer.terminate : .suspend
    func host() throws -> Hosted {
      try Hosted(
        .auto, key: key, devices: DeviceList("zero=c:1:5"), heldDevices: answer, log: { log.append($0) })
    }
    let output = try Output()
    do {
      let hosted = try host()
      try start(
        hosted,
        "import os, time; kept = os.open('\(node)', os.O_RDWR); print('open', flush=True); "
          + "time.sleep(600)", foreground: true, output: output)
      _ = try await output.lines(1)
      hosted.host.stop()
    }
    let hosted = try host()
    #expect(hosted.entry()?.state == "background")
    try hosted.host.bringForward("app")
    try hosted.host.keep("app", seconds: nil, reason: "a call")
    _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
    // What is due by then has been done when another is suspended for its devices.
    _ = try hosted.shell("exec sleep 600 < \(node)", name: "next", foreground: true)
    try await eventually("it is open") {
      SystemFile.target(of: "/proc/\(hosted.entry("next")?.pids.first ?? 0)/fd/0") == node
    }
    try hosted.host.bringForward("other")
    try await eventually("the next is judged") { log.lines.contains { $0.hasPrefix("'next' is ") } }
    #expect(hosted.entry()?.state == "background")
    #expect(!log.lines.contains { $0.hasPrefix("'app' is ") })
    try hosted.host.endKeeping("app")
    try await eventually("it is judged") { log.lines.contains { $0.hasPrefix("'app' is ") } }
    if terminates {
      try await eventually("its end") { hosted.entry() == nil }
    } else {
      try await eventually("it is suspended") { hosted.entry()?.state == "suspended" }
      try hosted.host.resume("app")
      try hosted.host.bringForward("next")
      try hosted.host.bringForward("other")
      try await eventually("the next is judged again") { log.lines.count { $0.hasPrefix("'next' is ") } == 2 }
      #expect(hosted.entry()?.state == "background")
    }
    try await hosted.end()
  }

  // R-HW-03
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits))
  func whoRecordsKeepsTheMicrophone() async throws {
    let place = try Place()
    let (recording, reading) = (try Output(), try Output())
    for (name, mode) in [("recorder", "audio"), ("reader", "location")] {
      let command = [
        "/bin/sh", "-c", "exec \"$0\" \"$@\" > '\(place.folder.path)/\(name)'",
        try #require(Backends.python), "-c", Self.opening,
      ]
      try writeManifest(command, name: name, ["UIBackgroundModes": [mode]], in: place.folder.path)
      try #require(mkfifo(place.folder.path + "/" + name, 0o600) == 0)
    }
    // What makes terminals is their microphone.
    let hosted = try Hosted(
      .auto, catalog: ManifestCatalog(folders: [place.folder.path]), devices: DeviceList("microphone=c:5:2"))
    for (name, output) in [("recorder", recording), ("reader", reading)] {
      let pipe = open(place.folder.path + "/" + name, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
      try #require(pipe >= 0)
      defer { close(pipe) }
      try hosted.host.start(name)
      try #require(dup2(pipe, output.read) >= 0)
    }
    #expect(try await says(recording) == "opened")
    #expect(try await says(reading) == "error 1")
    try await hosted.end()
  }

  // R-HW-01
  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits))
  func nothingStaysRefusedByAHostThatWasKilled() async throws {
    let place = try Place()
    let output = try Output()
    let options = ["--deny-devices", Self.terminals, "--held-devices", "tell"]
    let host = try await HostProgram(place, .auto, options: options)
    let program = try host.run(
      [try #require(Backends.python), "-c", Self.opening], options: ["--name", "app"], output: output)
    try await eventually("a refusal") { output.take().contains("error 1") }
    kill(host.process.processIdentifier, SIGKILL)
    host.process.waitUntilExit()
    #expect(try await says(output) == "opened")

    // The next one takes them from it again.
    let next = try await HostProgram(place, .auto, options: options)
    #expect(try next.ask(.apps, nil).apps?.map(\.id) == ["app"])
    #expect(try await says(output) == "error 1")
    try next.ask(.front, "app")
    #expect(try await says(output) == "opened")
    try next.ask(.terminate, "app")
    program.waitUntilExit()
    try await next.endWhenEmpty()
  }

  /// It works as before, and says so.
  @Test func withoutControlGroupsItIsToldWhileItIsInBackground() async throws {
    let hosted = try Hosted(.signals)
    let lack =
      "background is not kept from devices (camera, input): "
      + "that needs control groups of version 2 that may be written"
    #expect(hosted.host.notes == [lack])
    _ = try hosted.shell("exec sleep 600")
    #expect(withoutClasses(hosted.entry()?.notes) == [lack])
    // Who asks for something else is not told of it each time.
    var request = HostRequest(.front, name: "app")
    #expect(withoutClasses(try HostSocket.carryOut(request, hosted.host).notes) == [])
    #expect(withoutClasses(hosted.entry()?.notes) == [])
    _ = try hosted.shell("exec sleep 600", name: "other", foreground: true)
    #expect(withoutClasses(hosted.entry()?.notes) == [lack])
    request = HostRequest(.resume, name: "app")
    #expect(withoutClasses(try HostSocket.carryOut(request, hosted.host).notes) == [])
    try await hosted.end()
    let none = try Hosted(.signals, devices: DeviceList("none"))
    #expect(none.host.notes == [])
    _ = try none.shell("exec sleep 600")
    #expect(none.entry()?.notes == [])
    try await none.end()
  }

  @Test(.enabled(if: Backends.hasLimits, Backends.whyNoLimits)) func whatMayBeLimitedIsNoLack() {
    #expect(LimitSupport.lack() == nil)
  }

  /// A user without privileges, who owns a group or not.
  @Test(
    .enabled(
      if: OrdinaryUserTests.isPossible && Backends.hasLimits,
      "only root becomes nobody, and nobody must be able to reach the program"))
  func theDoctorSaysWhatIsMissing() throws {
    let said = try outcome(of: OrdinaryUserTests.become + [try command().path, "doctor", "--json"])
    #expect(said.status == 0, "\(said.errors)")
    #expect(said.output.contains("that needs control groups of version 2 that may be written"))
    let own = try outcome(of: [try command().path, "doctor", "--json"])
    #expect(own.output.contains("opportune host may keep background from devices and network"))
    // Root without a capability.
    let without = ["/usr/bin/setpriv", "--bounding-set=-net_admin,-sys_admin", "--inh-caps=-all"]
    let bare = try outcome(of: without + [try command().path, "doctor", "--json"])
    #expect(bare.output.contains("CAP_BPF and CAP_NET_ADMIN"))
  }

  /// The kernel's reasons, and what each means.
  @Test func whyThereAreNoLimitsIsSaid() {
    #expect(BackgroundLimits.whyNotLoaded(EPERM).contains("CAP_BPF and CAP_NET_ADMIN"))
    #expect(BackgroundLimits.whyNotLoaded(EINVAL).contains("CONFIG_CGROUP_BPF"))
    #expect(BackgroundLimits.whyNotLoaded(ENOMEM).contains("could not be loaded"))
    #expect(BackgroundLimits.whyNotAttached(EPERM, "/g").contains("above '/g'"))
    #expect(BackgroundLimits.whyNotAttached(EINVAL, "/g").contains("Linux 5.7"))
    #expect(BackgroundLimits.whyNotAttached(ENOENT, "/g").contains("'/g'"))
    #expect(LimitSupport.lack(inGroup: nil)?.contains("control groups of version 2") == true)
    #expect(LimitSupport.lack(inGroup: "/nowhere") == LimitSupport.lack(inGroup: nil))
    let lack = { try BackgroundLimits(devices: .standard).attach(.devices(.standard), to: nil) }
    #expect(throws: LimitLack.self) { try lack() }
  }
}
