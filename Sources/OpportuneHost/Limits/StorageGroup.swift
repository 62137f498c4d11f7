internal import Glibc
internal import OpportuneBase

/// A control group in which the kernel holds what is read from and written to block devices to a rate: by
/// `io.max` in the app's own group of version 2, or by `blkio.throttle` in a group of version 1 beside it.
///
/// The rate stays when the host is killed; the next start with its key takes it away.
///
/// Used by one thread at a time.
final class StorageGroup {
  private let group: ControllerGroup

  init(_ group: ControllerGroup) { self.group = group }

  /// - Parameters:
  ///   - group: the app's group of version 2, if it has one.
  ///   - root: where the hierarchy of version 1 is mounted; `nil`: nowhere.
  /// - Returns: `nil` where no group can be made.
  static func make(key: String, name: String, group: ControlGroup?, root: String?) -> StorageGroup? {
    ControllerGroup.make(
      "io", files: ("io.max", "blkio.throttle.read_bps_device"), key: key, name: name, group: group,
      root: { root }
    ).map(StorageGroup.init)
  }

  /// What is written of a device, and into which files.
  ///
  /// - Parameter rate: `nil`: without a limit.
  private func lines(_ device: String, _ rate: ByteRate?) -> [(file: String, line: String)] {
    if group.root == nil {
      let text = rate.map { "\($0.bytesPerSecond)" } ?? "max"
      return [("io.max", "\(device) rbps=\(text) wbps=\(text)")]
    }
    return ["read", "write"].map {
      ("blkio.throttle.\($0)_bps_device", "\(device) \(rate?.bytesPerSecond ?? 0)")
    }
  }

  /// - Parameters:
  ///   - rate: of reads and of writes, of each device.
  ///   - members: the processes; moved here where they are not.
  /// - Returns: what could not be written, for people; `nil`: all was.
  func limit(to rate: ByteRate, _ devices: [String], members: () -> [pid_t]) -> String? {
    for (file, line) in devices.flatMap({ lines($0, rate) }) {
      let error = SystemFile.write(line, to: group.path + "/" + file)
      // A device may have gone meanwhile.
      if error != 0, error != ENODEV {
        return "'\(line)' could not be written to '\(group.path)/\(file)': \(errorText(error))"
      }
    }
    group.adopt(all: members)
    return nil
  }

  /// Takes the limits of all devices away, also of those that another has set.
  func unlimit() {
    let files = Set(lines("", nil).map(\.file))
    for file in files {
      let path = group.path + "/" + file
      for line in SystemFile.text(path)?.split(separator: "\n") ?? [] {
        guard let device = line.split(separator: " ").first else { continue }
        for (other, reset) in lines(String(device), nil) where other == file {
          _ = SystemFile.write(reset, to: path)
        }
      }
    }
  }

  /// As without a host.
  func giveBack(_ members: [pid_t]) {
    unlimit()
    group.giveBack(members)
  }

  /// Takes away what a host of this key has left.
  ///
  /// - Parameters:
  ///   - groups: of version 2, of its apps.
  ///   - root: as for ``make(key:name:group:root:)``.
  static func sweep(key: String, groups: [String], root: String?) {
    for path in groups { StorageGroup(ControllerGroup(path: path, root: nil)).unlimit() }
    guard let root else { return }
    let tree = ControllerGroup.tree(key: key, in: root)
    for name in SystemFile.names(in: tree) where SystemFile.exists("\(tree)/\(name)/cgroup.procs") {
      let members = SystemFile.text("\(tree)/\(name)/cgroup.procs")?.split(separator: "\n") ?? []
      StorageGroup(ControllerGroup(path: "\(tree)/\(name)", root: root)).giveBack(
        members.compactMap { pid_t($0) })
    }
  }
}
