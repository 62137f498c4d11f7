internal import Glibc

/// A control group with the CPU controller, of version 1 or 2: moving an app between foreground and
/// background is one write there, however many threads it has, and needs no privilege for the way back.
final class CPUShare {
  private let group: ControllerGroup

  /// - Parameter group: the app's group of version 2, if it has one.
  init?(key: String, name: String, group: ControlGroup?) {
    let made = ControllerGroup.make(
      "cpu", files: ("cpu.idle", "cpu.idle"), key: key, name: name, group: group,
      root: { ControllerGroup.mount(of: "cpu") })
    guard let made else { return nil }
    self.group = made
  }

  /// - Returns: 0, or the number of the error.
  func adopt(_ pid: pid_t) -> Int32 { group.adopt(pid) }

  /// - Parameter members: all processes of the app; asked until there are none that were not moved.
  func adopt(all members: () -> [pid_t]) { group.adopt(all: members) }

  /// - Returns: 0, or the number of the error.
  func set(isBackground: Bool) -> Int32 {
    let error = SystemFile.write(isBackground ? "1" : "0", to: group.path + "/cpu.idle")
    guard error == 0, !isBackground, group.root != nil else { return error }
    // Beside it in the root are single threads, each with as much as a whole group has by default: an app in
    // front gets so much for each CPU.
    return SystemFile.write(
      "\(1024 * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))", to: group.path + "/cpu.shares")
  }

  /// Deletes the groups of version 1 that a host of this key has left, and that are empty.
  static func sweep(key: String) {
    if let root = ControllerGroup.mount(of: "cpu") {
      ControllerGroup.sweep(ControllerGroup.tree(key: key, in: root))
    }
  }

  /// Where they are without a host.
  func giveBack(_ members: [pid_t]) { group.giveBack(members) }

  func remove() { group.remove() }
}
