internal import Glibc
internal import Synchronization

/// A control group in which one controller, as that of the CPU or of memory, works for one app: the app's own
/// where that is of version 2 and may have the controller, else one of version 1, beside the app's.
///
/// Any thread.
struct ControllerGroup: Sendable {
  let path: String
  /// Of version 1: the folder below which the groups of all hosts are, and where processes are without one.
  /// The processes are moved in and out; in version 2 they are in the group already.
  let root: String?
  /// Of version 1: where its first process was found.
  private let origin = Origin()

  private final class Origin: Sendable {
    let folder = Mutex<String?>(nil)
  }

  init(path: String, root: String?) { (self.path, self.root) = (path, root) }

  /// For an app that begins.
  ///
  /// - Parameters:
  ///   - files: that tell that the controller works in a group, in version 2 and in version 1.
  ///   - group: the app's group of version 2, if it has one.
  ///   - root: of version 1; `nil`: there is no such hierarchy.
  /// - Returns: `nil` where no group can be made.
  static func make(
    _ controller: String, files: (String, String), key: String, name: String, group: ControlGroup?,
    root: () -> String?
  ) -> ControllerGroup? {
    if let group {
      // The tree above has to hand the controller down, the first before those below it, which have it from
      // there; where that is not allowed there is none.
      var folders = [group.path]
      for _ in 0..<3 {
        guard let end = folders[0].lastIndex(of: "/") else { break }
        folders.insert(String(folders[0][..<end]), at: 0)
      }
      for above in folders.dropLast() {
        _ = SystemFile.write("+\(controller)", to: above + "/cgroup.subtree_control")
      }
      if SystemFile.exists(group.path + "/" + files.0) {
        return ControllerGroup(path: group.path, root: nil)
      }
    }
    guard let root = root() else { return nil }
    let tree = tree(key: key, in: root)
    let path = "\(tree)/\(name)"
    for folder in ["\(root)/opportune", tree, path]
    where mkdir(folder, 0o755) != 0 && errno != EEXIST { return nil }
    guard SystemFile.exists(path + "/" + files.1) else {
      rmdir(path)
      return nil
    }
    return ControllerGroup(path: path, root: root)
  }

  /// Where the hierarchy of version 1 with a controller is mounted; `nil`: nowhere.
  static func mount(of controller: String) -> String? {
    GroupMount.all().first { $0.controllers?.contains(controller) == true }?.place
  }

  /// The folder of all groups of version 1 of one host.
  static func tree(key: String, in root: String) -> String { "\(root)/opportune/\(key)" }

  /// What is written a pid to, by whoever enters; `nil` where that is no move.
  var entrance: String? { root == nil ? nil : path + "/cgroup.procs" }

  /// - Returns: 0, or the number of the error.
  func adopt(_ pid: pid_t) -> Int32 {
    guard let root, let entrance else { return 0 }
    origin.folder.withLock { if $0 == nil { $0 = Self.folder(of: pid, below: root) } }
    return SystemFile.write("\(pid)", to: entrance)
  }

  /// Where a process is in the hierarchy of version 1 that is mounted there; `nil`: not below it.
  private static func folder(of pid: pid_t, below root: String) -> String? {
    let lines = SystemFile.text("/proc/\(pid)/cgroup")?.split(separator: "\n") ?? []
    // As `4:cpu,cpuacct:/path`; hierarchies are mounted by the names of their controllers.
    for line in lines {
      let words = line.split(separator: ":", maxSplits: 2)
      guard words.count == 3, let controller = words[1].split(separator: ",").first,
        let mount = mount(of: String(controller)), root == mount || root.hasPrefix(mount + "/")
      else { continue }
      let folder = mount + (words[2] == "/" ? "" : words[2])
      // Where a host has put it.
      if folder.hasPrefix(root + "/opportune/") { return nil }
      return SystemFile.exists(folder + "/cgroup.procs") ? folder : nil
    }
    return nil
  }

  /// Takes in all of an app.
  ///
  /// - Parameter members: its processes; asked until there are none that were not moved.
  func adopt(all members: () -> [pid_t]) {
    guard root != nil else { return }
    var moved: Set<pid_t> = []
    for _ in 0..<50 {
      let new = members().filter { !moved.contains($0) }
      if new.isEmpty { return }
      for one in new { _ = adopt(one) }
      moved.formUnion(new)
    }
  }

  /// Where the first of them was found, if that is there still; what a host before has left, and whose place
  /// nobody knows, where they are without one.
  func giveBack(_ members: [pid_t]) {
    guard let root else { return }
    let found = origin.folder.withLock(\.self)
    for pid in members where SystemFile.write("\(pid)", to: (found ?? root) + "/cgroup.procs") != 0 {
      _ = SystemFile.write("\(pid)", to: root + "/cgroup.procs")
    }
    remove()
  }

  func remove() {
    guard root != nil else { return }
    Self.delete(path)
    if let end = path.lastIndex(of: "/") { Self.clear(upwards: String(path[..<end])) }
  }

  /// Deletes a group whose members have ended. One that has left the list may still be on its way out.
  static func delete(_ path: String) {
    for _ in 0..<100 {
      guard rmdir(path) != 0, errno == EBUSY else { return }
      usleep(200)
    }
  }

  /// Deletes the groups of version 1 that a host of this key has left, and that are empty.
  ///
  /// - Parameter tree: the folder of all its groups.
  static func sweep(_ tree: String) {
    for name in SystemFile.names(in: tree) { rmdir(tree + "/" + name) }
    clear(upwards: tree)
  }

  /// Deletes the folder of a host and the one of all hosts; stops at the first that is still of use.
  static func clear(upwards tree: String) {
    guard rmdir(tree) == 0, let end = tree.lastIndex(of: "/") else { return }
    rmdir(String(tree[..<end]))
  }
}
