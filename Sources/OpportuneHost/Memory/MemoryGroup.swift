internal import Glibc
internal import OpportuneMemory

/// A control group of version 1 or 2 that counts what one app has in main memory.
///
/// The kernel charges a page to the group of whoever touches it first, and leaves it there when a process is
/// moved. So a group counts only those that have begun in it: see ``MemoryUse``. Any thread.
final class MemoryGroup: Sendable {
  let path: String
  /// The processes are moved here; in version 2 they are in the group already.
  private let isOwn: Bool

  private init(path: String, isOwn: Bool) { (self.path, self.isOwn) = (path, isOwn) }

  /// For an app that begins.
  ///
  /// - Parameter group: the app's group of version 2, if it has one.
  /// - Returns: `nil` where no group can be made.
  static func make(key: String, name: String, group: ControlGroup?) -> MemoryGroup? {
    if let group {
      // The tree above has to hand the controller down; where that is not allowed there is none.
      var above = group.path
      for _ in 0..<3 {
        guard let end = above.lastIndex(of: "/") else { break }
        above = String(above[..<end])
        _ = SystemFile.write("+memory", to: above + "/cgroup.subtree_control")
      }
      if SystemFile.exists(group.path + "/memory.current") {
        return MemoryGroup(path: group.path, isOwn: false)
      }
    }
    guard let root = folder() else { return nil }
    let path = "\(root)/opportune/\(key)/\(name)"
    for folder in ["\(root)/opportune", "\(root)/opportune/\(key)", path]
    where mkdir(folder, 0o755) != 0 && errno != EEXIST { return nil }
    guard SystemFile.exists(path + "/memory.usage_in_bytes") else {
      rmdir(path)
      return nil
    }
    return MemoryGroup(path: path, isOwn: true)
  }

  /// That of an app which a host before has left, of version 1: it was made only for one that began in it.
  /// Of a group of version 2 nobody knows any more.
  static func left(key: String, name: String, member: pid_t) -> MemoryGroup? {
    guard let root = folder() else { return nil }
    let group = MemoryGroup(path: "\(root)/opportune/\(key)/\(name)", isOwn: true)
    let members = SystemFile.text(group.path + "/cgroup.procs")?.split(separator: "\n") ?? []
    return members.contains("\(member)") ? group : nil
  }

  /// Deletes the groups of version 1 that a host of this key has left, and that are empty.
  static func sweep(key: String) {
    guard let tree = tree(key: key) else { return }
    for name in SystemFile.names(in: tree) { rmdir(tree + "/" + name) }
    clear(upwards: tree)
  }

  /// The folder of all groups of version 1 of one host; `nil` where there is no such hierarchy.
  static func tree(key: String) -> String? { folder().map { "\($0)/opportune/\(key)" } }

  /// The host's own group of version 1, so that limits which hold for the host hold for its apps.
  private static func folder() -> String? {
    MachineMemory.system.cgroups().first { $0.version == .one }.map { $0.point + $0.path }
  }

  /// What is written a pid to, by whoever enters; `nil` where that is no move.
  var entrance: String? { isOwn ? path + "/cgroup.procs" : nil }

  /// - Returns: 0, or the number of the error.
  func adopt(_ pid: pid_t) -> Int32 { entrance.map { SystemFile.write("\(pid)", to: $0) } ?? 0 }

  /// What is written a number of bytes to, to have them taken out of main memory; `nil` where the kernel has
  /// no such file, as in version 1.
  var reclaims: String? {
    let file = path + "/memory.reclaim"
    return SystemFile.exists(file) ? file : nil
  }

  /// The bytes that are charged to it: what its processes have touched, and pages of files that they were
  /// the first to read. `nil` where it is gone.
  func usage() -> UInt64? {
    let file = isOwn ? "/memory.usage_in_bytes" : "/memory.current"
    return SystemFile.text(path + file).flatMap { UInt64($0.prefix { $0.isNumber }) }
  }

  /// Where they are without a host; what they have by now goes to the group above.
  func giveBack(_ members: [pid_t]) {
    guard isOwn, let root = Self.folder() else { return }
    for pid in members { _ = SystemFile.write("\(pid)", to: root + "/cgroup.procs") }
    remove()
  }

  func remove() {
    guard isOwn else { return }
    // A member that has left the list may still be on its way out.
    for _ in 0..<100 where rmdir(path) != 0 && errno == EBUSY { usleep(200) }
    if let end = path.lastIndex(of: "/") { Self.clear(upwards: String(path[..<end])) }
  }

  /// Deletes the folder of a host and the one of all hosts; stops at the first that is still of use.
  private static func clear(upwards tree: String) {
    guard rmdir(tree) == 0, let end = tree.lastIndex(of: "/") else { return }
    rmdir(String(tree[..<end]))
  }
}
