import Glibc

/// The Linux capabilities that the library uses, by their numbers in `linux/capability.h`.
package enum Capability: UInt64 {
  case ipcLock = 14
  case sysAdmin = 21
  case sysNice = 23
  case sysResource = 24

  /// Whether the calling thread has this capability in the initial user namespace. In another user namespace
  /// it gives no right to resources that the whole machine shares, such as priorities and locked memory.
  /// `nil` if /proc does not show the capabilities. A namespace that cannot be read counts as the initial
  /// one.
  package var counts: Bool? {
    guard let status = SmallFile.read(StatusFile.path), let isEffective = isEffective(inStatus: status) else {
      return nil
    }
    return isEffective && UserNamespace.isOwn != true
  }

  func isEffective(inStatus status: String) -> Bool? {
    let effective = StatusFile.field("CapEff", of: status).flatMap { UInt64($0, radix: 16) }
    return effective.map { $0 & 1 << rawValue != 0 }
  }
}

/// The user namespace of this process.
enum UserNamespace {
  /// Whether it is not the initial user namespace. `nil` if /proc does not show it.
  static var isOwn: Bool? {
    var status = stat()
    return stat("/proc/self/ns/user", &status) == 0 ? status.st_ino != first : nil
  }

  /// The inode number of the initial user namespace, the kernel's constant `PROC_USER_INIT_INO`.
  private static let first: ino_t = 0xEFFF_FFFD
}

/// /proc/thread-self/status of the calling thread: capabilities and seccomp filters belong to a thread.
enum StatusFile {
  static let path = "/proc/thread-self/status"

  static func field(_ name: String, of text: String) -> Substring? {
    for line in text.split(separator: "\n") where line.hasPrefix(name + ":") {
      return line.dropFirst(name.count + 1).drop { $0 == "\t" || $0 == " " }
    }
    return nil
  }
}
