internal import Glibc
internal import OpportuneBase

/// The processes of one app in a control group of version 2. No controllers are needed: freezing, killing and
/// the list of members are part of every group.
final class ControlGroup: ProcessGroup {
  let path: String
  /// Those of the app that somebody has moved elsewhere, as systemd does with what begins a scope: they are
  /// stopped and ended by signals. `nil`: nobody looks for them.
  private var strays: SignalledGroup?

  init(path: String) { self.path = path }

  /// Has those followed who leave it.
  func follow(_ mark: String, by maker: GroupMaker) {
    // Who had left under a host before is known already.
    if strays?.mark == mark { return }
    let path = path
    strays = SignalledGroup(mark: mark, warden: maker.warden, marks: maker.marks) {
      Self.strays(among: $0, of: path)
    }
    insertStrays()
  }

  var cgroup: String? { path }

  var notes: [String] {
    guard let count = strays?.foundMembers.count, count > 0 else { return [] }
    return [
      "\(count) of its processes are in a control group that is not the host's: "
        + "they are stopped and ended by signals, and have no limits"
    ]
  }

  /// The group itself tells of all others.
  var unmarked: [ProcessID] { strays?.found ?? [] }

  func adopt(_ pid: pid_t) throws(ProcessHostError) {
    try write("\(pid)", to: "cgroup.procs", "process \(pid) could not be moved to '\(path)'")
  }

  func adopt(tree root: ProcessStat) throws(ProcessHostError) {
    let before = ControlGroupTree.group(of: root.pid)
    let all = ProcessTable.all()
    let began = all.map(\.id.started).max() ?? 0
    var tree = ProcessTree([root.id])
    var moved: [pid_t] = []
    var isChased = false
    do throws(ProcessHostError) {
      try adopt(root.pid)
      moved = [root.pid]
      // A pass costs milliseconds; a bound all the same, for a tree that grows faster than it is taken.
      var cleanPasses = 0
      for pass in 0..<200 {
        let found = tree.look(at: ProcessTable.all(), orphansSince: began)
        // Who was born here needs no move.
        let members = Set(members())
        let new = found.filter { !members.contains($0.pid) && !$0.hasEnded }
        cleanPasses = new.isEmpty ? cleanPasses + 1 : 0
        // More than one: whoever is listed, and has made another and ended before it is looked at, hides that
        // one.
        if cleanPasses >= (isChased ? 3 : 2) { break }
        if pass > 0, !new.isEmpty, !isChased {
          // It forks. In a frozen group whoever is moved stops, so that its children stay to be found; nobody
          // sees a stop by a signal, and the warden thaws all groups.
          isChased = true
          try write("1", to: "cgroup.freeze", "'\(path)' could not be frozen")
        }
        for one in new {
          let error = SystemFile.write("\(one.pid)", to: path + "/cgroup.procs")
          if error == 0 {
            moved.append(one.pid)
          } else if error != ESRCH {
            throw ProcessHostError(.system("process \(one.pid) could not be moved to '\(path)'", error))
          }
        }
      }
      if isChased { try thaw() }
    } catch {
      if let before {
        for pid in moved + members() { _ = SystemFile.write("\(pid)", to: before + "/cgroup.procs") }
      }
      try? thaw()
      throw error
    }
  }

  /// Those who have left are those of the latest look, unless nobody else is there.
  func members() -> [pid_t] {
    let own = Self.members(of: path)
    guard let strays else { return own }
    guard !own.isEmpty else { return strays.members() }
    return own + strays.foundMembers.filter { !own.contains($0) }
  }

  func members(by look: ProcessLook) -> [pid_t] {
    insertStrays()
    _ = strays?.members(by: look)
    return members()
  }

  /// Those of the groups below included, which a member may have made.
  private static func members(of path: String) -> [pid_t] {
    processes(in: path) + groups(in: path).flatMap(members)
  }

  /// Those that are in no group below it.
  static func processes(in path: String) -> [pid_t] {
    // Of another namespace is what shows as 0.
    SystemFile.text(path + "/cgroup.procs")?.split(separator: "\n").compactMap { pid_t($0) }
      .filter { $0 > 0 } ?? []
  }

  /// Those right below it.
  private static func groups(in path: String) -> [String] {
    // A folder has a link of each below it, and two of its own.
    var status = stat()
    guard stat(path, &status) == 0, status.st_nlink > 2 else { return [] }
    return SystemFile.names(in: path).map { path + "/" + $0 }
      .filter { stat($0, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR }
  }

  /// - Parameter pids: that carry the app's mark, or were members.
  /// - Returns: those that are in no group of the host, nor in that of a service, which has its environment
  ///   from whoever has told the manager of services of it.
  private static func strays(among pids: [pid_t], of path: String) -> [pid_t] {
    let own = Set(members(of: path))
    let left = pids.filter { !own.contains($0) }
    let tree = path[...(path.lastIndex(of: "/") ?? path.startIndex)]
    return left.filter {
      guard let group = ControlGroupTree.group(of: $0) else { return false }
      return !group.hasPrefix(tree) && !group.hasSuffix(".service")
    }
  }

  /// Takes in those that had left under a host before, which may have stopped them.
  func takeBack(_ ids: [ProcessID]) {
    strays?.insert(ids)
    for id in strays?.foundAnew() ?? [] where ProcessStat(of: id.pid)?.isStopped == true {
      id.signal(SIGCONT)
    }
  }

  /// Who is a member now is known when it has left. Adopted programs carry no mark.
  private func insertStrays() {
    strays?.insert(Self.members(of: path).compactMap { ProcessStat(of: $0)?.id })
  }

  /// - Returns: those that have left; `nil`: nobody has.
  private func lookForStrays() -> SignalledGroup? {
    insertStrays()
    return strays?.members().isEmpty == false ? strays : nil
  }

  func freeze(within limit: Duration) throws(ProcessHostError) {
    let end = ContinuousClock.now + limit
    var late: ProcessHostError?
    do throws(ProcessHostError) { try freezeOwn(until: end, limit) } catch { late = error }
    try lookForStrays()?.freeze(within: max(.zero, ContinuousClock.now.duration(to: end)))
    if let late { throw late }
  }

  private func freezeOwn(until end: ContinuousClock.Instant, _ limit: Duration) throws(ProcessHostError) {
    try write("1", to: "cgroup.freeze", "'\(path)' could not be frozen")
    let file = open(path + "/cgroup.events", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw ProcessHostError(.system("'\(path)/cgroup.events'", errno)) }
    defer { close(file) }
    while true {
      // The kernel tells of a change since the last reading, so that none is missed between the two calls.
      var bytes = [UInt8](repeating: 0, count: 256)
      let count = pread(file, &bytes, bytes.count, 0)
      if count > 0, String(decoding: bytes[..<count], as: UTF8.self).contains("frozen 1") { return }
      let left = ContinuousClock.now.duration(to: end)
      guard left > .zero else { throw ProcessHostError(.notStopped(running(), after: limit)) }
      var polled = pollfd(fd: file, events: Int16(POLLPRI), revents: 0)
      poll(&polled, 1, Int32(clamping: Int64(left / .milliseconds(1)) + 1))
    }
  }

  /// Those that have not stopped, as far as can be seen from outside: whoever waits uninterruptibly.
  private func running() -> [pid_t] {
    let all = members()
    let busy = all.filter { ProcessStat(of: $0)?.state == UInt8(ascii: "D") }
    return busy.isEmpty ? all : busy
  }

  func thaw() throws(ProcessHostError) {
    strays?.thaw()
    try write("0", to: "cgroup.freeze", "'\(path)' could not be thawed")
  }

  func signal(_ number: Int32) {
    _ = lookForStrays()
    for pid in members() { ProcessStat(of: pid)?.id.signal(number) }
  }

  func kill() throws(ProcessHostError) {
    let left = lookForStrays()
    try killOwn()
    try left?.kill()
  }

  private func killOwn() throws(ProcessHostError) {
    let error = SystemFile.write("1", to: path + "/cgroup.kill")
    guard error != 0 else { return }
    // Before Linux 5.14: one by one, frozen, so that none of them can start another meanwhile.
    guard error == ENOENT, SystemFile.exists(path) else {
      throw ProcessHostError(.system("'\(path)' could not be killed", error))
    }
    _ = SystemFile.write("1", to: path + "/cgroup.freeze")
    for _ in 0..<100 where !members().isEmpty { signal(SIGKILL) }
    try thaw()
  }

  func cpuTime(by look: ProcessLook) -> Duration {
    .microseconds(Int64(clamping: SystemFile.value(of: "usage_usec", in: path + "/cpu.stat") ?? 0))
  }

  func remove() {
    // What stays, the next start takes away.
    for below in Self.groups(in: path) { ControlGroup(path: below).remove() }
    ControllerGroup.delete(path)
  }

  /// Thaws what a host before has left in it; `nil` where that is nothing, and it is deleted.
  func sweep(named name: String) -> Leftover? {
    try? thaw()
    guard members().isEmpty else { return Leftover(name: name, group: self) }
    remove()
    return nil
  }

  private func write(_ text: String, to file: String, _ what: String) throws(ProcessHostError) {
    let error = SystemFile.write(text, to: path + "/" + file)
    if error != 0 { throw ProcessHostError(.system(what, error)) }
  }
}

/// The folder of all groups of one host: `opportune/KEY` below the host's own group.
struct ControlGroupTree {
  let path: String
  /// The host's own, above.
  let own: String

  /// - Parameter key: of the host; another one's groups are left alone.
  /// - Throws: ``ProcessHostError``: `backend`.
  init(key: String) throws(ProcessHostError) {
    guard let own = Self.ownGroup() else {
      throw ProcessHostError(.backend(Backend.cgroup.rawValue, "no control groups of version 2 are mounted"))
    }
    // Where systemd has delegated a group the apps are below it, beside the leaf that the host may go to.
    self.own = own
    path = own + (own.hasSuffix("/") ? "" : "/") + "opportune/" + key
    for folder in [own + "/opportune", path] where mkdir(folder, 0o755) != 0 && errno != EEXIST {
      throw ProcessHostError(
        .backend(Backend.cgroup.rawValue, "the folder '\(folder)' could not be made: \(errorText(errno))"))
    }
    guard SystemFile.exists(path + "/cgroup.freeze") else {
      rmdir(path)
      throw ProcessHostError(.backend(Backend.cgroup.rawValue, "groups cannot be frozen before Linux 5.2"))
    }
  }

  /// The host's own group of version 2, where it is mounted.
  static func ownGroup() -> String? { group(of: getpid()).map(ofService) }

  /// What systemd runs beside a service, as when it has ended, is in a group `.control` below the service's
  /// own, where its subtree is delegated; a host may be in its leaf.
  static func ofService(_ group: String) -> String {
    for end in ["/.control", "/" + HostLeaf.name] where group.hasSuffix(end) {
      return group.utf8.count > end.utf8.count ? String(group.dropLast(end.count)) : group
    }
    return group
  }

  /// Those of version 2; read once.
  private static let mounts = GroupMount.all().filter { $0.controllers == nil }

  /// The group of version 2 of a process, where it is mounted.
  static func group(of pid: pid_t) -> String? {
    guard !mounts.isEmpty, let groups = SystemFile.text("/proc/\(pid)/cgroup"),
      let line = groups.split(separator: "\n").first(where: { $0.hasPrefix("0::") })
    else { return nil }
    let own = String(line.dropFirst(3))
    // Another part of the hierarchy than the one that holds the host is of no use.
    guard !own.hasPrefix("/..") else { return nil }
    for mount in mounts {
      if mount.root == "/" { return mount.place + (own == "/" ? "" : own) }
      if own == mount.root || own.hasPrefix(mount.root + "/") {
        return mount.place + own.dropFirst(mount.root.count)
      }
    }
    return nil
  }

  func group(_ name: String) throws(ProcessHostError) -> ControlGroup {
    let folder = path + "/" + name
    guard mkdir(folder, 0o755) == 0 || errno == EEXIST else {
      throw ProcessHostError(.system("the group '\(folder)' could not be made", errno))
    }
    let group = ControlGroup(path: folder)
    // One that could not be deleted may be frozen still.
    try group.thaw()
    return group
  }

  /// Thaws everything that a host of this key has left, and deletes what is empty.
  func sweep() -> [Leftover] {
    var result: [Leftover] = []
    for name in SystemFile.names(in: path) where SystemFile.exists(path + "/" + name + "/cgroup.procs") {
      if let left = ControlGroup(path: path + "/" + name).sweep(named: name) { result.append(left) }
    }
    return result
  }

  /// Deletes the folder, unless groups are left in it.
  func remove() {
    rmdir(path)
    if let end = path.lastIndex(of: "/") { rmdir(String(path[..<end])) }
  }
}
