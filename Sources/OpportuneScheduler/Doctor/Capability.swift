import Glibc

/// Linux capabilities that matter to the library, by their numbers in `linux/capability.h`.
package enum Capability: UInt64 {
  case ipcLock = 14
  case sysAdmin = 21
  case sysNice = 23
  case sysResource = 24

  /// Whether the calling thread has this capability in the initial user namespace. One held only in another
  /// user namespace gives no right over what a whole machine shares, such as priorities and locked memory.
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
  /// Whether it is not the initial user namespace. `nil` if /proc does not tell.
  static var isOwn: Bool? {
    var status = stat()
    return stat("/proc/self/ns/user", &status) == 0 ? status.st_ino != first : nil
  }

  /// `PROC_USER_INIT_INO` of the kernel, which never changes.
  private static let first: ino_t = 0xEFFF_FFFD
}

/// /proc/thread-self/status. Of the calling thread, because capabilities and seccomp filters are per thread.
enum StatusFile {
  static let path = "/proc/thread-self/status"

  static func field(_ name: String, of text: String) -> Substring? {
    for line in text.split(separator: "\n") where line.hasPrefix(name + ":") {
      return line.dropFirst(name.count + 1).drop { $0 == "\t" || $0 == " " }
    }
    return nil
  }
}
