import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// The host on a bus of its own, asked by gdbus as a shell in another language would.
@Suite(.bounded, .enabled(if: PrivateBus.isPossible, PrivateBus.why)) struct HostBusTests {
  private static let become = ["/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
  private static let root: Comment = "only root becomes nobody"

  /// A host on a bus, with its standard error.
  private final class OnBus {
    let place: Place
    let bus: PrivateBus
    let host: HostProgram
    let errors: Output
    /// All that the host has said.
    private(set) var log = ""

    /// - Parameter prepare: called with the place before the host begins.
    ///   It returns what its environment has besides.
    init(
      isSystem: Bool = false, options: [String] = [], prepare: (Place) throws -> [String] = { _ in [] }
    ) async throws {
      place = try Place()
      let environment = try prepare(place)
      bus = try await PrivateBus(in: place.folder, isSystem: isSystem)
      errors = try Output()
      host = try await HostProgram(
        place, .signals, options: ["--bus", isSystem ? "system" : "session"] + options,
        prefix: ["/usr/bin/env", "\(isSystem ? "DBUS_SYSTEM" : "DBUS_SESSION")_BUS_ADDRESS=\(bus.address)"]
          + environment,
        errors: errors)
      try await says("shells find the host as org.opportune.Host1")
    }

    func says(_ text: String) async throws {
      try await eventually("the host says '\(text)'") {
        log += errors.take()
        return log.contains(text)
      }
    }

    func state(_ name: String) throws -> String? {
      try HostRequest(.apps).send(to: place.path).apps?.first { $0.id == name }?.state
    }
  }

  @Test func eachMethodIsCarriedOut() async throws {
    let on = try await OnBus()
    let bus = on.bus
    #expect(try bus.call("Apps", "false").output == "(@aa{sv} [],)\n")
    let (program, other) = (try Sleeper(), try Sleeper())
    let adopted = try bus.call("Adopt", "\(program.pid)", "", "false", "false", "false", "")
    #expect(adopted.output.hasPrefix("('sleep', '") && adopted.output.hasSuffix("', @as [])\n"), "\(adopted)")
    let two = try bus.call("Adopt", "\(other.pid)", "two", "true", "false", "false", "")
    #expect(two.output.hasPrefix("('two', '"), "\(two)")
    #expect(try on.state("sleep") == "background" && on.state("two") == "foreground")
    let apps = try bus.call("Apps", "false").output
    for part in [
      "'id': <'sleep'>", "'state': <'foreground'>", "'pids': <[uint32 \(program.pid)]>", "'cpu_s': <",
      "'memory_bytes': <uint64 ", "'memory_by': <'pss'>", "'kept_by': <@as []>", "'notes': <",
    ] { #expect(apps.contains(part), "\(apps)") }

    #expect(try bus.call("Front", "sleep").output.hasPrefix("("))
    #expect(try on.state("sleep") == "foreground" && on.state("two") == "background")
    #expect(try bus.call("Suspend", "two", "refuse", "false").output.hasPrefix("(0.0, "))
    #expect(try on.state("two") == "suspended" && isStopped(other.pid))
    // What is suspended is paged out, where the host may. The kernel may have said so before.
    #expect(try bus.call("Warn", "").status == 0)
    try await eventually("the note") {
      try bus.call("Apps", "false").output.contains("memory was short: it ")
    }
    #expect(try bus.call("Warn", "nobody").errors.contains("org.opportune.Host1.Error.UnknownApp"))
    let unheard = try bus.call("Notify", "two", "letter", #"{"from":"ada"}"#)
    #expect(unheard.errors.contains("Error.Lifecycle") && unheard.errors.contains("nobody would hear"))
    #expect(try bus.call("Notify", "two", "letter", "[]").errors.contains("InvalidArgs"))
    #expect(try bus.call("Reply", "two", "1").errors.contains("Error.Value"))
    #expect(try bus.call("Resume", "two").status == 0)
    #expect(try on.state("two") == "background")
    #expect(try !bus.call("Apps", "false").output.contains("hibernated_by"))
    #expect(try bus.call("Hibernate", "two", "refuse", "false").output.hasPrefix("(0.0, "))
    #expect(try on.state("two") == "hibernated" && isStopped(other.pid))
    let hibernated = try bus.call("Apps", "false").output
    #expect(hibernated.components(separatedBy: "'hibernated_by': <'").count == 2, "\(hibernated)")
    #expect(try bus.call("Resume", "two").status == 0)
    #expect(try !bus.call("Apps", "false").output.contains("hibernated_by"))
    #expect(try on.state("two") == "background")
    #expect(try bus.call("Keep", "two", "600.0", "a test").status == 0)
    let exempt = try bus.call("Suspend", "two", "", "false")
    #expect(exempt.status != 0 && exempt.errors.contains("org.opportune.Host1.Error.Exempt"))
    #expect(exempt.errors.contains("a test"))
    #expect(try bus.call("EndKeep", "two").status == 0)
    // Without an end.
    #expect(try bus.call("Keep", "two", "0.0", "").status == 0)
    #expect(try bus.call("Apps", "false").output.contains("'exempt'"))
    #expect(try bus.call("EndKeep", "two").status == 0)
    #expect(try bus.call("Start", "two", "true").output.hasPrefix("(uint32 0, "))
    #expect(try on.state("two") == "foreground")
    for name in ["sleep", "two"] { #expect(try bus.call("Terminate", name).status == 0) }
    try await eventually("the end of both") { try bus.call("Apps", "false").output == "(@aa{sv} [],)\n" }
    on.host.end()
  }

  // R-LIFE-07
  @Test func whoIsAdoptedIsStartedAnewAsItWasSaid() async throws {
    let home = try Place()
    var folder = ""
    let variables = ["XDG_STATE_HOME": home.folder.path]
    let on = try await OnBus { place in
      folder = try #require(HostSocket.stateFolder(of: place.path, environment: variables))
      return variables.map { "\($0)=\($1)" }
    }
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (program, other) = (try Sleeper(), try Sleeper())
    let wrong = #"{"command":["sleep"],"folder":"/","environment":[]}"#
    let refused = try on.bus.call("Adopt", "\(program.pid)", "x", "false", "false", "true", wrong)
    #expect(refused.errors.contains("org.opportune.Host1.Error.Value"), "\(refused)")
    let restart = #"{"command":["/bin/sleep","601"],"folder":"/","environment":["A=b"]}"#
    let adopted = try on.bus.call("Adopt", "\(program.pid)", "x", "false", "false", "true", restart)
    #expect(adopted.output.hasPrefix("('x', '"), "\(adopted)")
    let kept = RunDeclaration(command: ["/bin/sleep", "601"], folder: "/", environment: ["A=b"])
    #expect(RunDeclaration(file: folder + "/x.run") == kept)
    // The name is taken.
    let taken = try on.bus.call("Adopt", "\(other.pid)", "x", "false", "false", "true", "")
    #expect(taken.errors.contains("Error.NameTaken"), "\(taken)")
    let second = try on.bus.call("Adopt", "\(other.pid)", "x", "false", "true", "true", "").output
    #expect(second.hasPrefix("('x") && !second.hasPrefix("('x'"), "\(second)")
    on.host.end()
  }

  @Test func whoHoldsALockGoesOnForNow() async throws {
    let on = try await OnBus(options: ["--lock-grace", "600"])
    let (script, output) = (
      "exec 9>\(on.place.path).lock; flock 9; echo locked; exec sleep 600", try Output()
    )
    let program = try Sleeper("/bin/sh", ["-c", script], output: output)
    _ = try await output.line("locked")
    _ = try on.bus.call("Adopt", "\(program.pid)", "x", "false", "false", "false", "")
    let waits = try on.bus.call("Suspend", "x", "refuse", "false").output
    #expect(waits.contains("app 'x' goes on for now") && !waits.hasPrefix("(0.0,"), "\(waits)")
    #expect(try on.state("x") == "background")
    let again = try on.bus.call("Suspend", "x", "refuse", "true").output
    #expect(again.contains("goes on for now"), "\(again)")
    #expect(try on.bus.call("Suspend", "x", "ignore", "false").output.hasPrefix("(0.0, "))
    #expect(try on.state("x") == "suspended")
    on.host.end()
  }

  @Test func whatHasAManifestIsStarted() async throws {
    let folder = try Place()
    try Data(#"{"CFBundleIdentifier":"mail","OpportuneCommand":["/bin/sleep","600"]}"#.utf8).write(
      to: folder.folder.appending(path: "mail.json"))
    let on = try await OnBus(options: ["--manifests", folder.folder.path])
    #expect(try on.bus.call("Apps", "true").output.contains("'state': <'terminated'>"))
    let started = try on.bus.call("Start", "mail", "false").output
    let app = try HostRequest(.apps).send(to: on.place.path).apps?.first
    let pid = try #require(app?.pids.first)
    #expect(started.hasPrefix("(uint32 \(pid), "))
    #expect(try on.bus.call("Terminate", "mail").status == 0)
    try await eventually("its end") { try on.state("mail") == nil }
    on.host.end()
  }

  /// A program that was ended with its state saved, as a host before had.
  // R-LIFE-07
  @Test func whatIsHibernatedBySavedStateSaysSo() async throws {
    let home = try Place()
    var folder = ""
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let variables = ["XDG_STATE_HOME": home.folder.path]
    let on = try await OnBus { place in
      folder = try #require(HostSocket.stateFolder(of: place.path, environment: variables))
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      try Data("page 7".utf8).write(to: URL(filePath: folder + "/mail.state"))
      return variables.map { "\($0)=\($1)" }
    }
    let apps = try on.bus.call("Apps", "false").output
    for part in ["'id': <'mail'>", "'state': <'hibernated'>", "'hibernated_by': <'saved state'>"] {
      #expect(apps.contains(part), "\(apps)")
    }
    #expect(try on.bus.call("Terminate", "mail").status == 0)
    #expect(try on.bus.call("Apps", "false").output == "(@aa{sv} [],)\n")
    on.host.end()
  }

  @Test func theObjectTellsOfItself() async throws {
    let on = try await OnBus()
    let shown = try PrivateBus.run(
      "/usr/bin/gdbus",
      ["introspect", "--address", on.bus.address, "--dest", HostBus.name, "--object-path", HostBus.path])
    #expect(shown.status == 0)
    for method in BusMethod.allCases { #expect(shown.output.contains(" \(method.rawValue)(")) }
    for signal in BusSignal.allCases { #expect(shown.output.contains(" \(signal.rawValue)(s name")) }
    // As in docs/host.md.
    if FileManager.default.isExecutableFile(atPath: "/usr/bin/busctl") {
      let program = try Sleeper()
      _ = try on.bus.call("Adopt", "\(program.pid)", "make", "false", "false", "false", "")
      let asked = try PrivateBus.run(
        "/usr/bin/busctl",
        [
          "--address=\(on.bus.address)", "call", HostBus.name, HostBus.path, HostBus.name, "Suspend", "ssb",
          "make", "", "false",
        ])
      #expect(asked.status == 0 && asked.output == "das 0 0\n", "\(asked)")
      #expect(try on.state("make") == "suspended")
    } else {
      print("skipped: there is no busctl")
    }
    on.host.end()
  }

  @Test(arguments: [
    (["Front", "nobody"], "org.opportune.Host1.Error.UnknownApp"),
    (["Resume", "nobody"], "org.opportune.Host1.Error.UnknownApp"),
    (["Adopt", "1", "", "false", "false", "false", ""], "org.opportune.Host1.Error.Process"),
    (["Adopt", "4294967295", "", "false", "false", "false", ""], "org.opportune.Host1.Error.Process"),
    (["Adopt", "1", "../x", "false", "false", "false", ""], "org.opportune.Host1.Error.InvalidName"),
    (["Adopt", "1", "", "false", "false", "false", "[]"], "org.freedesktop.DBus.Error.InvalidArgs"),
    (["Keep", "nobody", "-5.0", ""], "org.opportune.Host1.Error.Value"),
    (["Suspend", "nobody", "perhaps", "false"], "org.freedesktop.DBus.Error.InvalidArgs"),
    (["Suspend", "nobody", "", "false"], "org.opportune.Host1.Error.UnknownApp"),
    (["Front", "1", "2"], "org.freedesktop.DBus.Error.InvalidArgs"),
    (["Front"], "org.freedesktop.DBus.Error.InvalidArgs"),
    (["Fly", "x"], "org.freedesktop.DBus.Error.UnknownMethod"),
  ]) func wrongCallsHaveNamedErrors(words: [String], name: String) async throws {
    let on = try await OnBus()
    let refused = try on.bus.call(words[0], words.dropFirst())
    #expect(refused.status != 0 && refused.errors.contains(name), "\(refused)")
    let long = try on.bus.call("Front", String(repeating: "x", count: 70_000))
    #expect(long.errors.contains("org.freedesktop.DBus.Error.LimitsExceeded"), "\(long.errors.prefix(300))")
    #expect(try on.bus.call("Apps", "false").status == 0)
    on.host.end()
  }

  @Test func changesAreSignalled() async throws {
    let on = try await OnBus()
    let heard = try Output()
    let monitor = try startProgram(
      ["/usr/bin/gdbus", "monitor", "--address", on.bus.address, "--dest", HostBus.name], heard)
    defer { monitor.terminate() }
    _ = try await heard.line("is owned by")
    let program = try Sleeper()
    var all = ""
    func hears(_ text: String) async throws {
      try await eventually("the signal \(text)") {
        all += heard.take()
        return all.contains("\(HostBus.path): \(HostBus.name).\(text)\n")
      }
      all = ""
    }
    // By the socket, which is the same host.
    var request = HostRequest(.adopt, name: "x")
    request.pid = program.pid
    _ = try request.send(to: on.place.path)
    try await hears("StateChanged ('x', 'background')")
    for (action, state) in [
      (HostRequest.Action.front, "foreground"), (.suspend, "suspended"), (.resume, "background"),
    ] {
      try on.host.ask(action, "x")
      try await hears("StateChanged ('x', '\(state)')")
    }
    // Nobody has asked for this.
    kill(program.pid, SIGKILL)
    try await hears("Ended ('x',)")
    on.host.end()
  }

  // R-MSG-02, R-MSG-10
  @Test(.enabled(if: Backends.python != nil, "there is no python3")) func notificationsAreSignalled()
    async throws
  {
    let script = """
      import json, signal, socket, sys
      open(sys.argv[2]).read()
      s = socket.socket(socket.AF_UNIX)
      s.connect(sys.argv[1])
      s.sendall(b'{"request":"join"}\\n')
      s.makefile("r").readline()
      s.sendall(b'{"schedule":1,"name":"tea","body":"It is ready","action":"Pour","after_ms":0}\\n')
      while True: signal.pause()
      """
    let on = try await OnBus()
    let heard = try Output()
    let monitor = try startProgram(
      ["/usr/bin/gdbus", "monitor", "--address", on.bus.address, "--dest", HostBus.name], heard)
    defer { monitor.terminate() }
    _ = try await heard.line("is owned by")
    // It joins when it is an app.
    let go = on.place.folder.appending(path: "go").path
    #expect(mkfifo(go, 0o600) == 0)
    let program = try Sleeper(try #require(Backends.python), ["-c", script, on.place.path, go])
    var request = HostRequest(.adopt, name: "x")
    request.pid = program.pid
    _ = try request.send(to: on.place.path)
    close(open(go, O_WRONLY | O_CLOEXEC))
    var all = ""
    try await eventually("the signal") {
      all += heard.take()
      return all.contains("\(HostBus.path): \(HostBus.name).Notified ('x', 'It is ready', 'Pour', '')\n")
    }
    #expect(try on.bus.call("Apps", "false").output.contains("'scheduled': <uint32 0>"))
    on.host.end()
  }

  @Test(.enabled(if: geteuid() == 0, root)) func anotherUserIsRefusedAndLogged() async throws {
    let on = try await OnBus()
    let refused = try on.bus.call("Apps", ["false"], prefix: Self.become)
    #expect(refused.errors.contains("org.freedesktop.DBus.Error.AccessDenied"), "\(refused)")
    #expect(refused.errors.contains("it is the host of user 'root' (0), who alone may ask"))
    try await on.says("a call of user 'nobody' (65534) on the session bus was refused")
    #expect(try on.bus.call("Apps", "false").status == 0)
    on.host.end()
  }

  /// A bus with the rules of a system's, and ours as it is installed.
  @Test(.enabled(if: geteuid() == 0, root)) func thePolicyLetsRootAloneIn() async throws {
    let on = try await OnBus(isSystem: true)
    #expect(try on.bus.call("Apps", "false").status == 0)
    let refused = try on.bus.call("Apps", ["false"], prefix: Self.become)
    #expect(refused.errors.contains("org.freedesktop.DBus.Error.AccessDenied"), "\(refused)")
    // By the bus, not by the host.
    #expect(!refused.errors.contains("it is the host of"))
    on.host.end()
  }

  @Test func aBusThatGoesHarmsNothingAndMayComeBack() async throws {
    let on = try await OnBus()
    let program = try Sleeper()
    _ = try on.bus.call("Adopt", "\(program.pid)", "x", "false", "false", "false", "")
    on.bus.end()
    try await on.says("the session bus is gone")
    #expect(try on.host.ask(.suspend, "x").ok && on.state("x") == "suspended")
    #expect(try on.host.ask(.resume, "x").ok && on.state("x") == "background")
    let again = try await PrivateBus(in: on.place.folder)
    try await eventually("the host on the new bus") { try again.call("Apps", "false").status == 0 }
    #expect(try again.call("Front", "x").status == 0)
    on.host.end()
    #expect(on.host.process.terminationStatus == 0)
    withExtendedLifetime(again) {}
  }

  @Test func withoutABusTheHostSaysSoAndRuns() async throws {
    let (place, errors) = (try Place(), try Output())
    let host = try await HostProgram(
      place, .signals, options: ["--bus", "session"],
      prefix: ["/usr/bin/env", "DBUS_SESSION_BUS_ADDRESS=unix:path=\(place.folder.path)/none"], errors: errors
    )
    let said = try await errors.line("requests come by the socket")
    #expect(said.contains("the session bus does not answer (No such file or directory)"))
    #expect(try host.ask(.apps, nil).ok)
    host.end()
    #expect(host.process.terminationStatus == 0)
  }

  /// A file that is no library stands for one that is not installed.
  @Test func withoutTheLibraryHostAndDoctorSaySo() async throws {
    let (place, errors) = (try Place(), try Output())
    try Data().write(to: place.folder.appending(path: "libsystemd.so.0"))
    let hidden = ["/usr/bin/env", "LD_LIBRARY_PATH=\(place.folder.path)"]
    let host = try await HostProgram(
      place, .signals, options: ["--bus", "session"], prefix: hidden, errors: errors)
    let said = try await errors.line("requests come by the socket")
    #expect(said.contains("there is no libsystemd (libsystemd.so.0)"))
    #expect(try host.ask(.apps, nil).ok)
    host.end()
    #expect(host.process.terminationStatus == 0)
    let doctor = try PrivateBus.run(try command().path, ["doctor"], prefix: hidden)
    #expect(doctor.output.contains("there is no libsystemd"), "\(doctor)")
  }

  @Test func aSecondHostLeavesTheNameAlone() async throws {
    let on = try await OnBus()
    let (place, errors) = (try Place(), try Output())
    let second = try await HostProgram(
      place, .signals, options: ["--bus", "session"],
      prefix: ["/usr/bin/env", "DBUS_SESSION_BUS_ADDRESS=\(on.bus.address)"], errors: errors)
    #expect(try await errors.line("requests come by").contains("another program is org.opportune.Host1"))
    #expect(try second.ask(.apps, nil).ok)
    second.end()
    on.host.end()
  }
}

/// A dbus-daemon for one test.
private final class PrivateBus {
  static let isPossible =
    ["/usr/bin/dbus-daemon", "/usr/bin/gdbus"].allSatisfy(SystemFile.exists) && HostBus.look() != .noLibrary

  static let why: Comment = "dbus-daemon, gdbus or libsystemd is not installed"

  let address: String
  private let process: Process

  /// - Parameter isSystem: with the rules of a system's bus, and our policy.
  init(in folder: URL, isSystem: Bool = false) async throws {
    let socket = folder.appending(path: "bus").path
    try? FileManager.default.removeItem(atPath: socket)
    address = "unix:path=" + socket
    let policy = URL(filePath: #filePath).deletingLastPathComponent().appending(
      path: "../../scripts/install.d/org.opportune.Host1.conf"
    ).standardizedFileURL.path
    let rules =
      isSystem
      ? """
      <policy context="default"><allow user="*"/><deny own="*"/><deny send_type="method_call"/>
      <allow send_type="signal"/><allow send_requested_reply="true" send_type="method_return"/>
      <allow send_requested_reply="true" send_type="error"/><allow receive_type="method_call"/>
      <allow receive_type="method_return"/><allow receive_type="error"/><allow receive_type="signal"/>
      <allow send_destination="org.freedesktop.DBus"/></policy><include>\(policy)</include>
      """
      : """
      <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
      <allow receive_sender="*"/></policy>
      """
    let file = folder.appending(path: "bus.conf")
    try Data(
      """
      <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
       "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
      <busconfig><type>\(isSystem ? "system" : "session")</type><listen>\(address)</listen>
      <auth>EXTERNAL</auth>\(rules)</busconfig>
      """.utf8
    ).write(to: file)
    let output = try Output()
    // Quiet: it complains of limits that it may not raise.
    process = try startProgram(
      ["/usr/bin/dbus-daemon", "--config-file=\(file.path)", "--nofork", "--nopidfile", "--print-address"],
      output, isQuiet: true)
    _ = try await output.line("unix:path=")
  }

  deinit { end() }

  func end() {
    guard process.isRunning else { return }
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }

  typealias Said = (status: Int32, output: String, errors: String)

  func call(_ method: String, _ arguments: String...) throws -> Said { try call(method, arguments[...]) }

  func call(_ method: String, _ arguments: ArraySlice<String>, prefix: [String] = []) throws -> Said {
    try Self.run(
      "/usr/bin/gdbus",
      ["call", "--address", address, "--dest", HostBus.name, "--object-path", HostBus.path, "--method"]
        + [HostBus.name + "." + method, "--"] + arguments, prefix: prefix)
  }

  static func run(_ program: String, _ arguments: [String], prefix: [String] = []) throws -> Said {
    try outcome(of: prefix + ["/usr/bin/timeout", "-k", "5", "60", program] + arguments)
  }
}

/// A program to adopt, which ends with this object.
private final class Sleeper {
  private let process: Process
  var pid: Int32 { process.processIdentifier }

  init(_ program: String = "/bin/sleep", _ arguments: [String] = ["600"], output: Output? = nil) throws {
    process = try startProgram([program] + arguments, output)
  }

  deinit {
    kill(pid, SIGKILL)
    process.waitUntilExit()
  }
}
