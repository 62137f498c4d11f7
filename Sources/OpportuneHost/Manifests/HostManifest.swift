import Foundation
internal import Glibc
package import OpportuneApps
internal import OpportuneBase

/// A program that the host may start as an app, and how it is treated then.
package struct HostManifest: Sendable, Hashable {
  /// The app's name.
  package var name: String
  /// The program, by its path or as PATH has it, and its arguments.
  package var command: [String]
  /// Where it starts; `nil`: where the host did.
  package var folder: String?
  /// With what it starts, as `NAME=value`, where `opportune run` has declared it; `nil`: as the host has it.
  var environment: [String]?
  /// Modes that keep it from being suspended.
  package var modes: [Manifest.Mode] = []
  /// Whether it may be suspended at all.
  package var isSuspendable = true
  /// Whether leaving the foreground terminates it.
  package var exitsOnSuspend = false
  /// How long it runs in background until it is suspended; `nil`: without a limit.
  package var backgroundTime: Duration?
  /// From SIGTERM to the kill; `nil`: the host's.
  package var grace: Duration?
  /// What becomes of it when it holds locks of files and is to be suspended; `nil`: as the host's policy
  /// says.
  package var locks: LockPolicy.Answer?
  /// Whether it may open in background what the host takes from others there.
  package var keepsDevices = false
  /// What becomes of it when it comes to background with one of these open; `nil`: as the host says.
  package var heldDevices: HeldDevices.Answer?
  /// What it has of the network in background; `nil`: as the host says.
  package var network: NetworkLimit?
  /// How fast it reads and writes in background; `nil`: as the host says.
  package var storage: StorageLimit?
  /// Whether lists show it while it does not run.
  package var isShown = true
  /// Whether it needs a terminal, which the host has none of.
  package var needsTerminal = false
  /// Where this was read.
  package let file: String
  /// What was passed over there, for people.
  package var notes: [String] = []

  /// Why it is not suspended, for people; `nil`: it may be.
  ///
  /// - Parameter keepsSocketsAlive: whether it is told of data while it is suspended, so that the mode `voip`
  ///   does not keep it running.
  func keptBy(keepsSocketsAlive: Bool) -> String? {
    if let mode = modes.first(where: { !keepsSocketsAlive || $0 != .voip }) { return "mode \(mode.rawValue)" }
    return isSuspendable ? nil : "its manifest"
  }

  /// Whether it lasts no longer than its app is known.
  var isOfRun: Bool { environment != nil }

  /// Whether data for its sockets may reanimate it. (R-VOIP-03)
  var mayKeepAlive: Bool { isOfRun || modes.contains(.voip) }

  /// What of `hardware` it keeps in background. (R-HW-03)
  func kept(of hardware: Set<Hardware>) -> Set<Hardware> {
    if keepsDevices { return hardware }
    return modes.contains(.audio) || modes.contains(.voip) ? hardware.intersection([.microphone]) : []
  }
}

extension HostManifest {
  /// Reads one file.
  ///
  /// - Returns: `nil` where the file says that there is no such app: `Hidden`.
  /// - Throws: ``HostManifestError``.
  package init?(file: String, bytes: [UInt8]) throws(HostManifestError) {
    if file.hasSuffix(".desktop") {
      try self.init(desktop: file, bytes)
    } else {
      try self.init(document: file, bytes)
    }
    do throws(ProcessHostError) { try AppName.check(name) } catch {
      throw HostManifestError(file, .syntax(line: nil, "the app's name: \(error.message)"))
    }
  }

  // MARK: Property lists and JSON

  private init(document file: String, _ bytes: [UInt8]) throws(HostManifestError) {
    let result: ManifestReader.Result
    let keys: [String: DocumentValue]
    do throws(ManifestError) {
      let data = Data(bytes)
      result = try ManifestReader.read(data)
      keys = try ManifestReader.document(data)
    } catch {
      switch error.code {
      case .syntax(let why):
        throw HostManifestError(file, .syntax(line: nil, "neither a property list nor JSON: \(why)"))
      case .value(let path, let expected, let found):
        throw HostManifestError(file, .value(key: path, found: found, expected: expected))
      case .missing(let path): throw HostManifestError(file, .missing(key: path))
      }
    }
    func wrong(_ key: String, _ value: DocumentValue, _ expected: String) -> HostManifestError {
      HostManifestError(file, .value(key: key, found: value.found, expected: expected))
    }
    func string(_ key: String) throws(HostManifestError) -> String? {
      guard let value = keys[key] else { return nil }
      guard case .string(let text) = value else { throw wrong(key, value, "a string") }
      return text
    }
    guard let value = keys["OpportuneCommand"] else {
      throw HostManifestError(file, .missing(key: "OpportuneCommand"))
    }
    guard case .array(let words) = value, !words.isEmpty else {
      throw wrong("OpportuneCommand", value, "an array of the program and its arguments")
    }
    var command: [String] = []
    for (index, word) in words.enumerated() {
      guard case .string(let text) = word, !text.utf8.contains(0), index > 0 || !text.isEmpty else {
        throw wrong("OpportuneCommand[\(index)]", word, index == 0 ? "a program" : "a string")
      }
      command.append(text)
    }
    var settings: [String: String] = [:]
    for name in ["Folder", "Locks", "Suspend", "Devices", "HeldDevices", "Network", "Storage"] {
      settings["Opportune" + name] = try string("Opportune" + name)
    }
    var grace: Double?
    if let value = keys["OpportuneGraceSeconds"] {
      guard case .number(let seconds) = value else { throw wrong("OpportuneGraceSeconds", value, "a number") }
      grace = seconds
    }
    self.init(name: result.manifest.identifier, command: command, file: file)
    exitsOnSuspend = result.manifest.exitsOnSuspend
    backgroundTime = result.manifest.taskTime
    try take(
      prefix: "Opportune", folder: ("OpportuneFolder", settings["OpportuneFolder"]),
      locks: settings["OpportuneLocks"], suspend: settings["OpportuneSuspend"],
      devices: settings["OpportuneDevices"], heldDevices: settings["OpportuneHeldDevices"],
      network: settings["OpportuneNetwork"],
      storage: settings["OpportuneStorage"], grace: grace)
    take(result.manifest.backgroundModes, unknown: result.unknownModes)
    let own: Set = [
      "OpportuneCommand", "OpportuneFolder", "OpportuneLocks", "OpportuneSuspend", "OpportuneGraceSeconds",
      "OpportuneDevices", "OpportuneHeldDevices", "OpportuneNetwork", "OpportuneStorage",
    ]
    // An Info.plist has many keys that say nothing to a host; ours may be misspelt.
    for key in result.unknownKeys where key.hasPrefix("Opportune") && !own.contains(key) {
      notes.append("'\(file)': the key '\(key)' is not known and has no effect")
    }
  }

  init(name: String, run: RunDeclaration) {
    self.init(name: name, command: run.command, file: "opportune run")
    (folder, environment) = (run.folder, run.environment)
  }

  private init(name: String, command: [String], file: String) {
    self.name = name
    self.command = command
    self.file = file
  }

  private mutating func take(_ declared: Set<Manifest.Mode>, unknown: [String]) {
    modes = declared.filter { $0 != .fetch }.sorted { $0.rawValue < $1.rawValue }
    if declared.contains(.fetch) {
      notes.append("'\(file)': the background mode 'fetch' has no effect on programs")
    }
    for mode in unknown {
      notes.append("'\(file)': the background mode '\(mode)' is not known and has no effect")
    }
  }

  private mutating func take(
    prefix: String, folder: (key: String, value: String?), locks: String?, suspend: String?,
    devices: String?, heldDevices: String?, network: String?, storage: String?, grace: Double?
  ) throws(HostManifestError) {
    if let path = folder.value {
      guard path.hasPrefix("/"), !path.utf8.contains(0) else {
        throw ValueError(path, "an absolute path").at(folder.key, in: file)
      }
      self.folder = path
    }
    self.locks = try read(
      locks, prefix + "Locks", "refuse, terminate or ignore", LockPolicy.Answer.init(rawValue:))
    isSuspendable = try allows(suspend, prefix + "Suspend", otherwise: "refuse") ?? true
    keepsDevices = try allows(devices, prefix + "Devices") ?? false
    self.heldDevices = try read(
      heldDevices, prefix + "HeldDevices", "tell, suspend or terminate", HeldDevices.Answer.init(rawValue:))
    self.network = try read(network, prefix + "Network", NetworkLimit.expected, NetworkLimit.init)
    self.storage = try read(storage, prefix + "Storage", StorageLimit.expected, StorageLimit.init)
    if let grace {
      guard (0.1...3600).contains(grace) else {
        throw ValueError("\(grace)", "0.1 to 3600 seconds").at(prefix + "GraceSeconds", in: file)
      }
      self.grace = .milliseconds(Int64((grace * 1000).rounded()))
    }
  }

  /// - Returns: `nil` where there is no value.
  private func allows(
    _ value: String?, _ key: String, otherwise: String = "deny"
  ) throws(HostManifestError) -> Bool? {
    try read(value, key, "allow or \(otherwise)") { $0 == "allow" ? true : $0 == otherwise ? false : nil }
  }

  /// - Returns: `nil` where there is no text.
  private func read<Value>(
    _ text: String?, _ key: String, _ expected: String, _ make: (String) -> Value?
  ) throws(HostManifestError) -> Value? {
    guard let text else { return nil }
    guard let value = make(text) else { throw ValueError(text, expected).at(key, in: file) }
    return value
  }

  // MARK: Desktop entries

  private static let prefix = "X-Opportune-"

  private init?(desktop file: String, _ bytes: [UInt8]) throws(HostManifestError) {
    let entry: DesktopEntry
    do throws(DesktopEntry.SyntaxError) { entry = try DesktopEntry(bytes) } catch {
      throw HostManifestError(file, .syntax(line: error.line, error.reason))
    }
    /// Puts the key into what a value's reader throws.
    func read<Value>(
      _ key: String, _ body: (String) throws(ValueError) -> Value?
    ) throws(HostManifestError) -> Value? {
      do throws(ValueError) { return try body(key) } catch { throw error.at(key, in: file) }
    }
    // As if the file were not there, whatever else it says.
    if try read("Hidden", entry.boolean) == true { return nil }
    let type = try read("Type", entry.string)
    guard let type else { throw HostManifestError(file, .missing(key: "Type")) }
    guard type == "Application" else { throw ValueError(type, "'Application'").at("Type", in: file) }
    guard let title = try read("Name", entry.string) else {
      throw HostManifestError(file, .missing(key: "Name"))
    }
    guard let exec = try read("Exec", entry.string) else {
      throw HostManifestError(file, .missing(key: "Exec"))
    }
    let fields = ExecLine.Fields(name: title, icon: try read("Icon", entry.string), file: file)
    let command: [String]
    do throws(ValueError) { command = try ExecLine.command(exec, fields) } catch {
      throw error.at("Exec", in: file)
    }
    if let needed = try read("TryExec", entry.string), ProgramFile.find(needed).path == nil {
      throw ValueError(needed, "a program that is installed").at("TryExec", in: file)
    }
    let stem = String((file.split(separator: "/").last ?? "").dropLast(".desktop".count))
    self.init(name: try read(Self.prefix + "Name", entry.string) ?? stem, command: command, file: file)
    isShown = try read("NoDisplay", entry.boolean) != true
    needsTerminal = try read("Terminal", entry.boolean) == true
    exitsOnSuspend = try read(Self.prefix + "ExitsOnSuspend", entry.boolean) == true
    if let seconds = try read(Self.prefix + "TaskSeconds", entry.number) {
      guard seconds > 0, seconds <= 86_400 else {
        throw ValueError("\(seconds)", "more than 0 and at most 86400 seconds").at(
          Self.prefix + "TaskSeconds", in: file)
      }
      backgroundTime = .milliseconds(Int64((seconds * 1000).rounded()))
    }
    let names = try read(Self.prefix + "BackgroundModes", entry.strings) ?? []
    take(
      Set(names.compactMap(Manifest.Mode.init)), unknown: names.filter { Manifest.Mode(rawValue: $0) == nil })
    try take(
      prefix: Self.prefix, folder: ("Path", try read("Path", entry.string).flatMap { $0.isEmpty ? nil : $0 }),
      locks: try read(Self.prefix + "Locks", entry.string),
      suspend: try read(Self.prefix + "Suspend", entry.string),
      devices: try read(Self.prefix + "Devices", entry.string),
      heldDevices: try read(Self.prefix + "HeldDevices", entry.string),
      network: try read(Self.prefix + "Network", entry.string),
      storage: try read(Self.prefix + "Storage", entry.string),
      grace: try read(Self.prefix + "GraceSeconds", entry.number))
    let known: Set = [
      "Name", "ExitsOnSuspend", "TaskSeconds", "BackgroundModes", "Locks", "Suspend", "GraceSeconds",
      "Devices", "HeldDevices", "Network", "Storage",
    ]
    for key in entry.values.keys.sorted() where key.hasPrefix(Self.prefix) {
      guard !known.contains(String(key.dropFirst(Self.prefix.count))) else { continue }
      notes.append("'\(file)': the key '\(key)' is not known and has no effect")
    }
  }
}
