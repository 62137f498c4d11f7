import Glibc

/// What the kernel lets some processes do; numbers of `linux/capability.h`.
package enum Capability: UInt64 {
  case ipcLock = 14
  case sysAdmin = 21
  case sysNice = 23
  case sysResource = 24

  /// Whether this process has it, and it counts for what a whole machine shares, such as priorities and
  /// locked memory: what a user namespace gives does not. `nil` where /proc does not say.
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

/// The user namespace that this process is in.
enum UserNamespace {
  /// Whether it is another than the machine's; `nil` where /proc does not say.
  static var isOwn: Bool? {
    var status = stat()
    return stat("/proc/self/ns/user", &status) == 0 ? status.st_ino != first : nil
  }

  /// `PROC_USER_INIT_INO` of the kernel, which never changes.
  private static let first: ino_t = 0xEFFF_FFFD
}

/// What the kernel says of the calling thread, whose capabilities and filters may be others than the
/// process's.
enum StatusFile {
  static let path = "/proc/thread-self/status"

  static func field(_ name: String, of text: String) -> Substring? {
    for line in text.split(separator: "\n") where line.hasPrefix(name + ":") {
      return line.dropFirst(name.count + 1).drop { $0 == "\t" || $0 == " " }
    }
    return nil
  }
}
