internal import Glibc

/// A control group with the CPU controller, of version 1 or 2: moving an app between foreground and
/// background is one write there, however many threads it has, and needs no privilege for the way back.
final class CPUShare {
  private let path: String
  /// The processes are moved here; in version 2 they are in the group already.
  private let isOwn: Bool

  /// - Parameter group: the app's group of version 2, if it has one.
  init?(key: String, name: String, group: ControlGroup?) {
    if let group {
      // The tree above has to hand the controller down; where that is not allowed there is none.
      var above = group.path
      for _ in 0..<3 {
        guard let end = above.lastIndex(of: "/") else { break }
        above = String(above[..<end])
        _ = SystemFile.write("+cpu", to: above + "/cgroup.subtree_control")
      }
      if SystemFile.exists(group.path + "/cpu.idle") {
        (path, isOwn) = (group.path, false)
        return
      }
    }
    guard let root = Self.mounted() else { return nil }
    path = root + "/opportune/" + key + "/" + name
    isOwn = true
    for folder in [root + "/opportune", root + "/opportune/" + key, path]
    where mkdir(folder, 0o755) != 0 && errno != EEXIST { return nil }
    guard SystemFile.exists(path + "/cpu.idle") else {
      rmdir(path)
      return nil
    }
  }

  /// Where the hierarchy of version 1 with the CPU controller is mounted.
  private static func mounted() -> String? {
    guard let mounts = SystemFile.text("/proc/self/mountinfo") else { return nil }
    for mount in mounts.split(separator: "\n") {
      let words = mount.split(separator: " ")
      guard let dash = words.firstIndex(of: "-"), words.count > dash + 3, words[dash + 1] == "cgroup",
        words[dash + 3].split(separator: ",").contains("cpu"), words.count > 4
      else { continue }
      return String(words[4])
    }
    return nil
  }

  /// - Returns: 0, or the number of the error.
  func adopt(_ pid: pid_t) -> Int32 { isOwn ? SystemFile.write("\(pid)", to: path + "/cgroup.procs") : 0 }

  /// - Returns: 0, or the number of the error.
  func set(isBackground: Bool) -> Int32 {
    let error = SystemFile.write(isBackground ? "1" : "0", to: path + "/cpu.idle")
    guard error == 0, !isBackground, isOwn else { return error }
    // Beside it in the root are single threads, each with as much as a whole group has by default: an app in
    // front gets so much for each CPU.
    return SystemFile.write(
      "\(1024 * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))", to: path + "/cpu.shares")
  }

  /// Where they are without a host.
  func giveBack(_ members: [pid_t]) {
    guard isOwn, let root = Self.mounted() else { return }
    for pid in members { _ = SystemFile.write("\(pid)", to: root + "/cgroup.procs") }
    remove()
  }

  func remove() {
    guard isOwn else { return }
    var folder = path
    // A member that has left the list may still be on its way out.
    for _ in 0..<100 where rmdir(folder) != 0 && errno == EBUSY { usleep(200) }
    for _ in 0..<3 {
      rmdir(folder)  // stops at the first that is still of use
      guard let end = folder.lastIndex(of: "/") else { return }
      folder = String(folder[..<end])
    }
  }
}
