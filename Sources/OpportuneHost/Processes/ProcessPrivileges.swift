internal import Glibc

/// What a process and all that it starts may not get: a bound on what they can do. (proc_pid_status(5))
struct ProcessPrivileges: Sendable, Hashable {
  /// The capabilities that it may ever have; bit n is capability n. (capabilities(7))
  var bounding: UInt64
  /// Whether no program that it becomes gives it more, as of another user. (prctl(2), PR_SET_NO_NEW_PRIVS)
  var hasNoNew: Bool
  /// Whether system calls are refused to it. (seccomp(2))
  var isFiltered: Bool

  /// `nil` where there is no such process.
  init?(of pid: pid_t) {
    guard let text = SystemFile.text("/proc/\(pid)/status") else { return nil }
    self.init(status: text)
  }

  /// `nil` where it is no text of that file.
  init?(status: String) {
    func field(_ name: String) -> Substring? {
      status.split(separator: "\n").first { $0.hasPrefix(name + ":\t") }?.dropFirst(name.utf8.count + 2)
    }
    guard let bounding = field("CapBnd").flatMap({ UInt64($0, radix: 16) }) else { return nil }
    self.bounding = bounding
    // A kernel without filters tells of none.
    (hasNoNew, isFiltered) = (field("NoNewPrivs") == "1", (field("Seccomp") ?? "0") != "0")
  }

  /// What a process that one with these has made would not have, and another has; for people, as the end of
  /// `it …`; `nil`: nothing.
  func lacks(of other: ProcessPrivileges) -> String? {
    if other.bounding & ~bounding != 0 { return "may have capabilities that this host was started without" }
    if hasNoNew, !other.hasNoNew {
      return "may gain privileges, as by sudo, and this host was started with NoNewPrivileges"
    }
    return nil
  }
}
