internal import Glibc
internal import OpportuneApps

extension HostCore {
  /// Starts a program; with control groups it is born in its own.
  func launch(
    _ command: [String], name: String, foreground: Bool, descriptors: [Int32], declared: HostManifest? = nil,
    reason: LaunchReason = .user
  ) throws(ProcessHostError) -> Int32 {
    guard let path = command.first, !command.contains(where: { $0.utf8.contains(0) }) else {
      throw ProcessHostError(.program(command.first ?? "", EINVAL))
    }
    let name = try freeName(name, isExact: true, startsAnew: declared != nil)
    let mark = maker.mark(of: name)
    if let standIn {
      let group = standIn.start(name)
      let pid = group.members().first ?? 0
      try begin(
        name, group: group, mark: mark, first: pid, memory: nil, foreground: foreground, declared: declared,
        reason: reason, notes: [])
      return pid
    }
    let group = try maker.tree?.group(name)
    let folder = group.map { open($0.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) } ?? -1
    let memory = makeMemory(name, group)
    let entrance = memory?.entrance.map { open($0, O_WRONLY | O_CLOEXEC) } ?? -1
    defer { for one in [folder, entrance] where one >= 0 { close(one) } }
    // It is born with the limits of background: what is open once stays so.
    let limits = limits(name, group?.path, declared)
    if !foreground { limits.set(background, members: { [] }) }
    let (pid, pidfd, lack) = ProgramFile.start(
      path, command, environment: environment(mark, declared), folder: declared?.folder, group: folder,
      entrance: entrance, descriptors: descriptors, by: configuration.starter)
    guard pid > 0 else {
      limits.lift([])
      group?.remove()
      memory?.remove()
      if let lack { throw ProcessHostError(.starter(path, lack)) }
      throw ProcessHostError(.program(path, -pid))
    }
    var made: any ProcessGroup = SignalledGroup(mark: mark, warden: maker.warden, marks: maker.marks)
    // It may have ended by now, and left others.
    if let group { made = group } else { try? made.adopt(pid) }
    try begin(
      name, group: made, mark: mark, first: pid, memory: memory, foreground: foreground,
      child: HostChild(pid: pid, descriptor: pidfd), declared: declared, limits: limits, reason: reason,
      notes: [])
    return pid
  }

  /// Starts an app by its manifest. Its standard input is empty, its output and errors are the host's. One
  /// that has saved its state is to take it.
  ///
  /// - Parameters:
  ///   - isAsked: whether somebody has asked for it.
  ///   - reason: what its program is told of why it was launched.
  func launch(
    _ manifest: HostManifest, foreground: Bool, isAsked: Bool = true, reason: LaunchReason = .user
  ) throws(ProcessHostError) -> Int32 {
    let program = manifest.command.first ?? ""
    if manifest.needsTerminal { throw ProcessHostError(.terminal(manifest.name, program)) }
    let (path, error) = ProgramFile.find(program)
    guard let path else { throw ProcessHostError(.program(program, error)) }
    let nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)
    defer { if nothing >= 0 { close(nothing) } }
    try states?.begin(manifest.name, isAsked: isAsked)
    return try launch(
      [path] + manifest.command.dropFirst(), name: manifest.name,
      // It has no other place.
      foreground: foreground || manifest.exitsOnSuspend, descriptors: [nothing, -1, -1], declared: manifest,
      reason: reason)
  }

  /// What background is without.
  private var background: Restrictions {
    Restrictions(
      .background, receivesInput: false, audio: nil, hasFullPower: false,
      policy: configuration.policy.restrictions)
  }

  private func environment(_ mark: String, _ declared: HostManifest?) -> [String] {
    // What a service manager has told the host is not for its apps.
    var ours = [SignalledGroup.variable, "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "INVOCATION_ID"]
    if configuration.socket != nil { ours.append(HostSocket.variable) }
    var result = (declared?.environment ?? ownEnvironment()).filter { text in
      !ours.contains { text.hasPrefix($0 + "=") }
    }
    if let socket = configuration.socket { result.append("\(HostSocket.variable)=\(socket)") }
    return result + ["\(SignalledGroup.variable)=\(mark)"]
  }
}
