import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A host with a key of its own; what it has started ends with it.
final class Hosted {
  let host: ProcessHost
  let key: String

  init(
    _ backend: Backend, grace: Duration = .seconds(5), locks: LockPolicy = LockPolicy(),
    key: String = Hosted.newKey(), catalog: ManifestCatalog = ManifestCatalog(),
    front: FrontChoice? = nil, answerGrace: Duration = .seconds(60), taskLimit: Duration = .seconds(60),
    joinLimit: Duration = .seconds(60), pressure: MemoryPressure? = nil, record: String? = nil,
    memoryGroups: Bool = true,
    shortage: ShortagePolicy = ShortagePolicy(), groupPressures: [GroupPressure] = [],
    devices: DeviceList? = nil, heldDevices: HeldDevices.Answer = .tell, network: NetworkLimit = .none,
    storage: StorageLimit = .none, hibernatesAfter: Duration? = nil, states: String? = nil,
    hasSwap: Bool? = nil, checkpoints: CheckpointTool? = nil,
    checkpointLimits: (start: Duration, end: Duration) = (.seconds(60), .seconds(60)), socket: String? = nil,
    controllers: Set<String> = HostLeaf.controllers, starter: ProgramStarter? = nil,
    flush: @escaping @Sendable ([String]) -> (path: String, error: Int32)? = SavedStates.flush,
    log: @escaping @Sendable (String) -> Void = { _ in }, changed: (@Sendable ([AppChange]) -> Void)? = nil,
    notified: (@Sendable (FiredNotification) -> Void)? = nil, wallClock: (@Sendable () -> Double)? = nil
  ) throws {
    self.key = key
    var configuration = HostConfiguration()
    (configuration.backend, configuration.starter) = (backend, starter)
    configuration.grace = grace
    configuration.locks = locks
    configuration.catalog = catalog
    (configuration.answerGrace, configuration.taskLimit) = (answerGrace, taskLimit)
    (configuration.pressure, configuration.joinLimit) = (pressure, joinLimit)
    configuration.record = record
    (configuration.shortage, configuration.groupPressures) = (shortage, groupPressures)
    configuration.usesMemoryGroups = memoryGroups
    (configuration.network, configuration.storage) = (network, storage)
    configuration.hibernatesAfter = hibernatesAfter
    (configuration.states, configuration.hasSwap, configuration.socket) = (states, hasSwap, socket)
    (configuration.checkpoints, configuration.checkpointLimits) = (checkpoints, checkpointLimits)
    (configuration.log, configuration.changed) = (log, changed)
    (configuration.controllers, configuration.flush) = (controllers, flush)
    configuration.notified = notified
    if let wallClock { configuration.wallClock = wallClock }
    if let devices { configuration.deniedDevices = devices }
    configuration.heldDevices = heldDevices
    configuration.freezeLimit = .seconds(10)
    (configuration.front, configuration.display) = (front?.source, front?.display)
    configuration.sway = front?.sway
    configuration.displayLimit = .seconds(1)
    host = try ProcessHost(key: key, configuration: configuration)
  }

  /// Where a test has failed before its end.
  deinit {
    for app in host.apps() {
      _ = try? host.suspend(app.id, locks: .ignore)
      try? host.terminate(app.id)
    }
    for _ in 0..<1000 where !host.apps().isEmpty { usleep(1000) }
    host.stop()
  }

  static func newKey() -> String { "test-" + String(UInt64.random(in: 0 ... .max), radix: 36) }

  func shell(
    _ script: String, name: String = "app", foreground: Bool = false, output: Output? = nil
  ) throws -> Int32 {
    try host.launch(
      ["/bin/sh", "-c", script], name: name, foreground: foreground,
      descriptors: [-1, output?.written ?? -1, -1])
  }

  func entry(_ name: String = "app") -> AppEntry? { host.apps().first { $0.id == name } }

  /// Ends all apps, whatever they do, and deletes their groups.
  func end() async throws {
    for app in host.apps() {
      try? host.endKeeping(app.id)
      _ = try? host.suspend(app.id, locks: .ignore)
      try? host.terminate(app.id)
    }
    try await eventually("the end of all apps") { host.apps().isEmpty }
    host.stop()
  }
}

enum Backends {
  static let hasControlGroups: Bool = {
    guard let tree = try? ControlGroupTree(key: Hosted.newKey()) else { return false }
    tree.remove()
    return true
  }()
  static let why: Comment = "control groups of version 2 cannot be written here"
  static let python = ["/usr/bin/python3", "/usr/local/bin/python3"].first(where: SystemFile.exists)
  /// Whether the kernel takes devices and network from a group here.
  static let hasLimits: Bool = {
    let key = Hosted.newKey()
    guard python != nil, let tree = try? ControlGroupTree(key: key), let group = try? tree.group("probe")
    else { return false }
    defer {
      group.remove()
      tree.remove()
    }
    return (try? BackgroundLimits(devices: .standard).attach(.devices(.standard), to: group.path)) != nil
  }()
  static let whyNoLimits: Comment =
    "there is no Python, or BPF programs cannot be attached to control groups here, which needs root"
  /// Those that work here.
  static let usable: [Backend] = hasControlGroups ? [.cgroup, .signals] : [.signals]
}

/// A pipe, from a program to the test.
final class Output {
  let read: Int32
  let written: Int32
  /// Lines that have come and were not taken; and what has come of one that has no end yet. A program may
  /// write a line in pieces, as Python does where PYTHONUNBUFFERED is set.
  private var seen: [String] = []
  private var begun = ""

  init() throws {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
    (read, written) = (ends[0], ends[1])
  }

  deinit { for end in [read, written] { close(end) } }

  /// Whether something comes within a time.
  func comes(within milliseconds: Int32) -> Bool {
    var polled = pollfd(fd: read, events: Int16(POLLIN), revents: 0)
    return poll(&polled, 1, milliseconds) > 0 && polled.revents & Int16(POLLIN) != 0
  }

  /// Drops what has come.
  func forget() {
    while comes(within: 0), !take().isEmpty {}
    (seen, begun) = ([], "")
  }

  /// What is there.
  @discardableResult func take() -> String {
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = Glibc.read(read, &bytes, bytes.count)
    return String(decoding: bytes[..<max(0, count)], as: UTF8.self)
  }

  /// Waits until so many lines have come since the last call, and takes them.
  func lines(_ count: Int) async throws -> [String] {
    try await eventually("\(count) lines") {
      let pieces = (begun + take()).split(separator: "\n", omittingEmptySubsequences: false)
      begun = String(pieces.last ?? "")
      seen += pieces.dropLast().map { $0.trimmingCharacters(in: .whitespaces) }
      return seen.count >= count
    }
    defer { seen.removeFirst(count) }
    return Array(seen.prefix(count))
  }

  /// The next lines, with what else is there.
  func line(_ start: String) async throws -> String {
    var all = ""
    try await eventually("a line that begins with '\(start)'") {
      all += take()
      return all.contains { $0 == "\n" } && all.contains(start)
    }
    return all
  }
}

func isStopped(_ pid: Int32) -> Bool { ProcessStat(of: pid)?.isStopped == true }

/// The command that was built beside the tests.
func command() throws -> URL { URL(filePath: try builtProgram()) }

/// Runs the command to its end.
///
/// - Returns: its status, and what it has said, on its standard error last.
func told(by arguments: [String]) throws -> (status: Int32, said: String) {
  let (status, output, errors) = try outcome(of: [command().path] + arguments)
  return (status, output + errors)
}

/// Notes but for the one that an ordinary user's threads are not raised again.
func withoutClasses(_ notes: [String]?) -> [String] {
  notes?.filter { !$0.contains("of its threads could not be raised again") } ?? []
}

extension HibernationWay.Name {
  /// Whether its processes are there; how much of them left main memory is the kernel's to say.
  var keepsProcesses: Bool { self == .pagedOut || self == .frozen }
}

/// Starts a program of no host's.
///
/// - Parameters:
///   - input: without one it reads nothing.
///   - isQuiet: what it prints goes nowhere but to `output`.
func startProgram(
  _ words: [String], _ output: Output? = nil, input: Output? = nil, environment: [String: String]? = nil,
  isQuiet: Bool = false
) throws -> Process {
  let path = try #require(ProgramFile.find(words[0]).path)
  let program = Process([path] + words.dropFirst(), environment: environment)
  if isQuiet {
    (program.standardOutput, program.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
  }
  if let input { program.standardInput = FileHandle(fileDescriptor: input.read, closeOnDealloc: false) }
  if let output {
    program.standardOutput = FileHandle(fileDescriptor: output.written, closeOnDealloc: false)
  }
  try runUnblocked(program)
  return program
}

/// Writes the manifest of an app into a folder, in JSON.
func writeManifest(
  _ command: [String], name: String = "app", _ keys: [String: Any] = [:], in folder: String
) throws {
  let all = keys.merging(["CFBundleIdentifier": name, "OpportuneCommand": command]) { $1 }
  try JSONSerialization.data(withJSONObject: all).write(to: URL(filePath: "\(folder)/\(name).json"))
}

/// A program in Python that speaks the protocol of the host's socket itself.
///
/// - Parameter script: has `words`, its arguments; `value(KEY)`, that of a word `KEY=VALUE`; `join(SOCKET)`,
///   which says what came of it; `say(WHAT, …)`, with descriptors; `events()`, until the stream ends.
func protocolProgram(_ script: String, _ words: [String]) throws -> [String] {
  let beginning = """
    import array, json, os, signal, socket, sys
    words = sys.argv[1:]
    s = socket.socket(socket.AF_UNIX)
    def value(key): return next((w[len(key) + 1:] for w in words if w.startswith(key + "=")), None)
    def say(what, *passed):
        line = (what if isinstance(what, str) else json.dumps(what)).encode() + b"\\n"
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))]
        s.sendmsg([line], control) if passed else s.sendall(line)
    def join(place, **more):
        global stream
        s.connect(place)
        say({"request": "join", **more})
        stream = s.makefile("r")
        answer = json.loads(stream.readline())
        return "joined" if answer["ok"] else "refused: " + answer["error"]
    def events():
        try:
            for line in stream: yield json.loads(line)
        except OSError: pass

    """
  return [try #require(Backends.python), "-c", beginning + script] + words
}

/// A connection to a port of this machine.
func connectHere(_ port: UInt16) throws -> Int32 {
  let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = port.bigEndian
  address.sin_addr.s_addr = inet_addr("127.0.0.1")
  let result = withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
  guard result == 0 else { throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO) }
  return client
}

/// A socket's path in a folder of its own, which goes with it.
final class Place {
  let folder: URL
  var path: String { folder.appending(path: "host.sock").path }

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: Hosted.newKey())
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: folder) }
}

/// Files as the kernel has them.
class FakeTree {
  let path = FileManager.default.temporaryDirectory.appending(path: Hosted.newKey()).path

  init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func write(_ name: String, _ text: String) throws {
    let file = URL(filePath: path + "/" + name)
    try FileManager.default.createDirectory(
      at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file)
  }

  func read(_ name: String) throws -> String {
    try String(contentsOfFile: path + "/" + name, encoding: .utf8)
  }
}

/// A host with its socket, and what a program that is to join it reads and prints.
class JoinedHost {
  let place: Place
  let hosted: Hosted
  let socket: LineSocket
  let output: Output
  let input: Output

  init(_ hosted: Hosted) throws {
    place = try Place()
    self.hosted = hosted
    let host = hosted.host
    socket = try HostSocket.open(at: place.path) { host }
    (output, input) = (try Output(), try Output())
    _ = fcntl(input.read, F_SETFL, 0)
  }

  /// What the program prints.
  func lines(_ count: Int) async throws -> [String] { try await output.lines(count) }

  /// Suspends the program, which hears of nothing else before.
  func suspend() async throws {
    _ = try hosted.host.suspend("app")
    #expect(try await lines(1) == ["willSuspend"])
    try await isSuspended()
  }

  func isSuspended() async throws {
    try await eventually("suspension") { hosted.entry()?.state == "suspended" }
  }

  /// A line for the program to read.
  func go() { _ = write(input.written, "\n", 1) }
}
