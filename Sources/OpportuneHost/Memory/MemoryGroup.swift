internal import Glibc
internal import OpportuneMemory

/// A control group of version 1 or 2 that counts what one app has in main memory.
///
/// The kernel charges a page to the group of whoever touches it first, and leaves it there when a process is
/// moved. So a group counts only those that have begun in it: see ``MemoryUse``. Any thread.
final class MemoryGroup: Sendable {
  private let group: ControllerGroup

  private init(_ group: ControllerGroup) { self.group = group }

  var path: String { group.path }

  /// For an app that begins.
  ///
  /// - Parameter group: the app's group of version 2, if it has one.
  /// - Returns: `nil` where no group can be made.
  static func make(key: String, name: String, group: ControlGroup?) -> MemoryGroup? {
    ControllerGroup.make(
      "memory", files: ("memory.current", "memory.usage_in_bytes"), key: key, name: name, group: group,
      root: folder
    ).map(MemoryGroup.init)
  }

  /// That of an app which a host before has left, of version 1: it was made only for one that began in it.
  /// Of a group of version 2 nobody knows any more.
  static func left(key: String, name: String, member: pid_t) -> MemoryGroup? {
    guard let root = folder() else { return nil }
    let tree = ControllerGroup.tree(key: key, in: root)
    let group = MemoryGroup(ControllerGroup(path: tree + "/" + name, root: root))
    let members = SystemFile.text(group.path + "/cgroup.procs")?.split(separator: "\n") ?? []
    return members.contains("\(member)") ? group : nil
  }

  /// Deletes the groups of version 1 that a host of this key has left, and that are empty.
  static func sweep(key: String) {
    if let tree = tree(key: key) { ControllerGroup.sweep(tree) }
  }

  /// The folder of all groups of version 1 of one host; `nil` where there is no such hierarchy.
  static func tree(key: String) -> String? { folder().map { ControllerGroup.tree(key: key, in: $0) } }

  /// The host's own group of version 1, so that limits which hold for the host hold for its apps.
  private static func folder() -> String? {
    MachineMemory.system.cgroups().first { $0.version == .one }.map { $0.point + $0.path }
  }

  /// What is written a pid to, by whoever enters; `nil` where that is no move.
  var entrance: String? { group.entrance }

  /// - Returns: 0, or the number of the error.
  func adopt(_ pid: pid_t) -> Int32 { group.adopt(pid) }

  /// What is written a number of bytes to, to have them taken out of main memory; `nil` where the kernel has
  /// no such file, as in version 1.
  var reclaims: String? {
    let file = path + "/memory.reclaim"
    return SystemFile.exists(file) ? file : nil
  }

  /// The bytes that are charged to it: what its processes have touched, and pages of files that they were
  /// the first to read. `nil` where it is gone.
  func usage() -> UInt64? {
    let file = group.root == nil ? "/memory.current" : "/memory.usage_in_bytes"
    return SystemFile.text(path + file).flatMap { UInt64($0.prefix { $0.isNumber }) }
  }

  /// Where they are without a host; what they have by now goes to the group above.
  func giveBack(_ members: [pid_t]) { group.giveBack(members) }

  func remove() { group.remove() }
}
