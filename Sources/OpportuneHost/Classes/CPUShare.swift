internal import Glibc

/// A control group with the CPU controller, of version 1 or 2: moving an app between foreground and
/// background is one write there, however many threads it has, and needs no privilege for the way back.
final class CPUShare {
  private let group: ControllerGroup

  /// - Parameter group: the app's group of version 2, if it has one.
  init?(key: String, name: String, group: ControlGroup?) {
    let made = ControllerGroup.make(
      "cpu", files: ("cpu.idle", "cpu.idle"), key: key, name: name, group: group, root: Self.mounted)
    guard let made else { return nil }
    self.group = made
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
  func adopt(_ pid: pid_t) -> Int32 { group.adopt(pid) }

  /// - Returns: 0, or the number of the error.
  func set(isBackground: Bool) -> Int32 {
    let error = SystemFile.write(isBackground ? "1" : "0", to: group.path + "/cpu.idle")
    guard error == 0, !isBackground, group.root != nil else { return error }
    // Beside it in the root are single threads, each with as much as a whole group has by default: an app in
    // front gets so much for each CPU.
    return SystemFile.write(
      "\(1024 * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))", to: group.path + "/cpu.shares")
  }

  /// Where they are without a host.
  func giveBack(_ members: [pid_t]) { group.giveBack(members) }

  func remove() { group.remove() }
}
