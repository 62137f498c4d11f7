import ArgumentParser
import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneHost
import Synchronization

extension Backend: ExpressibleByArgument {}
extension LockPolicy.Answer: ExpressibleByArgument {}
extension HeldDevices.Answer: ExpressibleByArgument {}
extension HostBus.Choice: ExpressibleByArgument {}
extension ShortagePolicy.Answer: ExpressibleByArgument {}

/// Where the host of processes listens.
struct HostSocketOption: ParsableArguments {
  @Option(
    help:
      """
      The host's socket. Default: $OPPORTUNE_SOCKET, else $XDG_RUNTIME_DIR/opportune/host.sock, as root \
      /run/opportune/host.sock.
      """,
    completion: .file())
  var socket: String?

  func path() throws -> String {
    if let socket { return socket }
    // As programs that join find it.
    if let named = getenv(HostSocket.variable), named.pointee != 0 { return String(cString: named) }
    guard let path = HostSocket.standardPath() else {
      throw ValidationError("XDG_RUNTIME_DIR is not set to a folder: expected --socket")
    }
    return path
  }

  /// For the environment of programs, which may be in another folder.
  func absolutePath() throws -> String { SystemFile.absolute(try path()) }

  /// Sends a request to the host.
  func ask(_ request: HostRequest, within limit: Duration?) throws -> HostAnswer {
    let path = try path()
    do {
      return try request.send(to: path, within: limit)
    } catch {
      switch error.code {
      case .system:
        // The standard place needs no option.
        let option = socket.map { " --socket " + shellWord($0) } ?? ""
        throw Failure("no host runs: \(error.message). Start one with: opportune host\(option)")
      case .path, .taken, .timedOut, .refused: throw Failure(error.message)
      }
    }
  }

  /// Asks for something that is done to an app, and tells what could not be.
  func change(_ request: HostRequest, _ patience: HostTimeout) throws {
    for note in try ask(request, within: patience.limit).notes ?? [] { printToStandardError("Note: \(note)") }
  }
}

struct HostCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "host",
    abstract: "Hosts programs as apps: opportune run, adopt, apps, front, suspend, keep and others.",
    discussion: """
      Runs until Ctrl-C or SIGTERM; what is suspended then goes on, and no program is ended. Needs no privilege; with \
      control groups it stops programs without their noticing, with CAP_SYS_NICE it can raise again what it lowered. It \
      serves processes of its own user alone.

      Apps that have a manifest are started by opportune run NAME and opportune front NAME. Manifests are files .plist, \
      .json and .desktop in the folders of --manifests; .desktop files that programs have installed are found by their \
      names as well.

      Shells ask it on D-Bus as well, by org.opportune.Host1: root's on the system bus, another's on that of the session.

      Apps in background may not open cameras and input devices, and what else --deny-devices names, where the host may \
      attach BPF programs to control groups (root may); what they have open stays of use, and --held-devices says what becomes
      of them then. With --background-network, or by \
      their manifest, they receive and send no faster than that there, or nothing; with --background-storage they read and \
      write no faster, where control groups can hold them to it.

      The host gives up what it does not need: new privileges, capabilities, and by a filter system calls, as those that \
      start programs. A small process beside it, opportune-start, starts apps by their manifests, with all that it was \
      started with.

      On a display the app whose window has the focus is in front; a display that comes later is followed as well. With \
      --front terminal it is the app that is the foreground job of the terminal that was typed into last.

      Example: opportune host &
      """)

  @OptionGroup var socket: HostSocketOption
  @Option(help: "How programs are stopped: auto, cgroup or signals.") var backend = Backend.auto
  @Option(help: "Seconds from SIGTERM to the kill, 0.1 to 3600.") var grace = 5.0
  @Option(help: "Seconds that a program which cooperates has for each answer, 0.1 to 3600.")
  var answerGrace = 5.0
  @Option(help: "Seconds that its background tasks may go on when it is to be suspended, 0 to 3600.")
  var taskLimit = 30.0
  @Option(help: "The shortest time between two heartbeats of one that is suspended, in seconds, 1 to 86400.")
  var leastHeartbeat = 600.0
  @Option(help: "Apps that hold locks of files are to be suspended: refuse, terminate or ignore.")
  var locks = LockPolicy.Answer.refuse
  @Option(
    help: ArgumentHelp(
      "When memory is short: warn those that cooperate; pageout: take what is suspended out of main memory as well; "
        + "terminate: then end suspended apps, one at a time.", valueName: "warn|pageout|terminate"))
  var memoryShort = ShortagePolicy.Answer.pageout
  @Option(
    help: ArgumentHelp(
      "Hibernate suspended apps that were in front, or began, so long ago, as 90s, 15m, 1.5h or 2d. Default: those that "
        + "opportune hibernate names.", valueName: "time"))
  var hibernateAfter: String?
  @Option(
    help: ArgumentHelp(
      "The command of CRIU 4.2.1 or newer: as root, and where there is no swap, apps are hibernated by a checkpoint that "
        + "it makes, where it can. scripts/install-criu fetches it.", valueName: "file"), completion: .file())
  var criu: String?
  @Option(
    help: ArgumentHelp(
      "A folder of manifests; may be repeated, the first counts. Default: $XDG_CONFIG_HOME/opportune/apps and "
        + "/etc/opportune/apps.", valueName: "folder"), completion: .directory)
  var manifests: [String] = []
  @Option(
    help: ArgumentHelp(
      "What tells who is in front: auto (SWAYSOCK, else DISPLAY), x11, x11=:0, sway, sway=PATH, terminal, "
        + "terminal=/dev/tty1, none.",
      valueName: "source"))
  var front = "auto"
  @Option(
    help: "The bus of D-Bus where shells find it: auto (system as root, else session), system, session, none."
  )
  var bus = HostBus.Choice.auto
  @Option(
    help: ArgumentHelp(
      "What apps in background may not open: gpu, camera, microphone, input, or NAME=c:MAJOR or NAME=c:MAJOR:MINOR, "
        + "with commas between; none.", valueName: "devices"))
  var denyDevices = DeviceList.ordinary.names.joined(separator: ",")
  @Option(
    help: ArgumentHelp(
      "An app comes to background that has one of these open, which nobody can take from it: tell: lists name it; "
        + "suspend; terminate. Unless its manifest says otherwise.", valueName: "tell|suspend|terminate"))
  var heldDevices = HeldDevices.Answer.tell
  @Option(
    help: ArgumentHelp(
      "Bytes a second that apps in background receive, and send, past the machine itself, unless their manifest says "
        + "otherwise: as 500K, 64K to 1024G; deny: none; allow: as many as they like.", valueName: "rate"))
  var backgroundNetwork = NetworkLimit.none.description
  @Option(
    help: ArgumentHelp(
      "Bytes a second that apps in background read from, and write to, each block device, unless their manifest says "
        + "otherwise: as 20M, 64K to 1024G; allow: as many as they like.", valueName: "rate"))
  var backgroundStorage = StorageLimit.none.description
  @Flag(help: "Let go on what a host that was killed has left suspended, and end at once.") var sweep = false
  @Option(help: "Seconds that they go on first, to let go, 0 to 3600.") var lockGrace = 1.0

  func validate() throws {
    try checkRange(grace, "--grace", 0.1...3600)
    try checkRange(answerGrace, "--answer-grace", 0.1...3600)
    try checkRange(taskLimit, "--task-limit", 0...3600)
    try checkRange(leastHeartbeat, "--least-heartbeat", 1...86_400)
    try checkRange(lockGrace, "--lock-grace", 0...3600)
    _ = try hibernatesAfter()
    do throws(ProcessHostError) { _ = try DeviceList(denyDevices) } catch {
      throw ValidationError("--deny-devices: \(error.message)")
    }
    _ = try storageLimit()
    _ = try networkLimit()
  }

  private func storageLimit() throws -> StorageLimit {
    try limit("--background-storage", backgroundStorage, StorageLimit.expected, StorageLimit.init)
  }

  private func networkLimit() throws -> NetworkLimit {
    try limit("--background-network", backgroundNetwork, NetworkLimit.expected, NetworkLimit.init)
  }

  private func limit<Limit>(
    _ option: String, _ text: String, _ expected: String, _ read: (String) -> Limit?
  ) throws -> Limit {
    guard let limit = read(text) else {
      throw ValidationError("\(option) is '\(text)': expected \(expected)")
    }
    return limit
  }

  private func hibernatesAfter() throws -> Duration? {
    try hibernateAfter.map { .seconds(try parseSeconds($0, "--hibernate-after")) }
  }

  func run() throws {
    let service = ServiceNotice()
    let path = try socket.path()
    if let end = path.lastIndex(of: "/"), socket.socket == nil { mkdir(String(path[..<end]), 0o700) }
    // Before the first thread, which takes over what is blocked.
    var ends = sigset_t()
    sigemptyset(&ends)
    for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&ends, signal) }
    pthread_sigmask(SIG_BLOCK, &ends, nil)

    let running = Running()
    do {
      // What it starts keeps what the host gives up. Both before the first thread.
      let starter = sweep ? nil : try ProgramStarter()
      do throws(ProcessHostError) { try Confinement.confine() } catch {
        printToStandardError("Note: \(error.message)")
      }
      // First: it says whether another host lives, whose apps are not to be touched.
      let listener = try HostSocket.open(
        at: path, say: printToStandardError, log: { printToStandardError("Note: \($0)") },
        host: { running.host })
      var configuration = HostConfiguration()
      (configuration.backend, configuration.starter) = (backend, starter)
      (configuration.record, configuration.socket) = (path + ".apps", try socket.absolutePath())
      // Who is ended with its state saved is none that was left.
      if !sweep { configuration.states = HostSocket.stateFolder(of: path) }
      if let criu, !sweep { configuration.checkpoints = try CheckpointTool(criu, starter: starter) }
      configuration.grace = .milliseconds(Int64(grace * 1000))
      configuration.answerGrace = .milliseconds(Int64(answerGrace * 1000))
      configuration.taskLimit = .milliseconds(Int64(taskLimit * 1000))
      configuration.leastHeartbeat = .milliseconds(Int64(leastHeartbeat * 1000))
      configuration.locks = LockPolicy(grace: .milliseconds(Int64(lockGrace * 1000)), answer: locks)
      configuration.shortage = ShortagePolicy(answer: memoryShort)
      configuration.hibernatesAfter = try hibernatesAfter()
      configuration.deniedDevices = try DeviceList(denyDevices)
      configuration.heldDevices = heldDevices
      configuration.network = try networkLimit()
      configuration.storage = try storageLimit()
      configuration.catalog = catalog()
      let choice = try FrontChoice(front, environment: ProcessInfo.processInfo.environment)
      if !sweep {
        (configuration.front, configuration.display, configuration.sway) =
          (choice.source, choice.display, choice.sway)
      }
      configuration.log = { printToStandardError("Note: \($0.printable)") }
      if !sweep {
        do throws(ProcessHostError) { configuration.pressure = try MemoryPressure() } catch {
          printToStandardError("Note: \(error.message)")
        }
        configuration.groupPressures = GroupPressure.all { printToStandardError("Note: \($0)") }
      }
      let bus =
        sweep
        ? nil
        : try HostBus(bus, log: { printToStandardError("Note: \($0.printable)") }, host: { running.host })
      if let bus {
        configuration.changed = { bus.tell($0) }
        configuration.notified = { bus.tell($0) }
      }
      if sweep, let states = HostSocket.stateFolder(of: path) {
        CheckpointTool.waitForEnds(in: states, limit: .seconds(60))
      }
      let host = try ProcessHost(key: HostSocket.key(of: path), configuration: configuration)
      if sweep {
        let left = host.apps().map(\.id.printable)
        host.stop()
        return try StandardOutput.write(
          left.isEmpty ? "no app was left\n" : "left, and running now: \(left.joined(separator: ", "))\n")
      }
      running.host = host
      for folder in manifests where !isFolder(folder) {
        printToStandardError("Note: there is no folder '\(folder.printable)' of manifests yet")
      }
      if let note = choice.note { printToStandardError("Note: \(note.printable)") }
      for note in host.notes { printToStandardError("Note: \(note)") }
      try StandardOutput.write("The host listens at '\(path)'.\n")
      if let problem = service?.send("READY=1", "STATUS=The host listens at '\(path)'.") {
        printToStandardError("Note: \(problem)")
      }
      bus?.start()
      StartPages.giveBack()
      var signal: Int32 = 0
      while sigwait(&ends, &signal) != 0 {}
      _ = service?.send("STOPPING=1")
      running.host = nil
      bus?.stop()
      host.stop()
      starter?.end()
      withExtendedLifetime(listener) {}
    } catch let error as PushError {
      throw Failure(error.message)
    } catch let error as ProcessHostError {
      throw Failure(error.message)
    }
  }

  private func isFolder(_ path: String) -> Bool {
    var isFolder = ObjCBool(false)
    return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
  }

  private func catalog() -> ManifestCatalog {
    let environment = ProcessInfo.processInfo.environment
    return ManifestCatalog(
      folders: manifests.isEmpty ? ManifestCatalog.standardFolders(environment: environment) : manifests,
      applications: ManifestCatalog.applicationFolders(environment: environment),
      log: { printToStandardError("Note: \($0)") })
  }

  /// The host, for the socket's thread.
  private final class Running: Sendable {
    private let held = Mutex<ProcessHost?>(nil)
    var host: ProcessHost? {
      get { held.withLock { $0 } }
      set { held.withLock { $0 = newValue } }
    }
  }
}
