internal import Glibc

/// What holds a process and all that it starts, and does not come back with a checkpoint: bounds on what they
/// may do, and where. (proc_pid_status(5), cgroups(7))
struct ProcessPrivileges: Sendable, Hashable {
  /// The capabilities that it may ever have; bit n is capability n. (capabilities(7))
  var bounding: UInt64
  /// Whether no program that it becomes gives it more, as of another user. (prctl(2), PR_SET_NO_NEW_PRIVS)
  var hasNoNew: Bool
  /// Whether system calls are refused to it. (seccomp(2))
  var isFiltered: Bool
  /// The CPUs on which it may run, as the kernel writes them.
  var cpus: String
  /// Its groups of version 1, as lines of /proc/PID/cgroup without the number; those of hosts are left out,
  /// since they are entered again.
  var groups: Set<String> = []

  /// `nil` where there is no such process.
  init?(of pid: pid_t) {
    guard let text = SystemFile.text("/proc/\(pid)/status") else { return nil }
    self.init(status: text)
    for line in (SystemFile.text("/proc/\(pid)/cgroup") ?? "").split(separator: "\n") {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let group = line[line.index(after: colon)...]
      // That of version 2 is the app's own.
      if !group.hasPrefix(":"), !group.contains("/opportune/") { groups.insert(String(group)) }
    }
  }

  /// `nil` where it is no text of that file.
  init?(status: String) {
    func field(_ name: String) -> Substring? {
      status.split(separator: "\n").first { $0.hasPrefix(name + ":\t") }?.dropFirst(name.utf8.count + 2)
    }
    guard let bounding = field("CapBnd").flatMap({ UInt64($0, radix: 16) }) else { return nil }
    self.bounding = bounding
    // A kernel without filters tells of none.
    cpus = field("Cpus_allowed_list").map(String.init) ?? ""
    (hasNoNew, isFiltered) = (field("NoNewPrivs") == "1", (field("Seccomp") ?? "0") != "0")
  }

  /// What would not be as another process has it where one with these makes that again; for people, as the
  /// end of `it …`; `nil`: nothing.
  func lacks(of other: ProcessPrivileges) -> String? {
    if other.bounding & ~bounding != 0 { return "may have capabilities that this host was started without" }
    if hasNoNew, !other.hasNoNew {
      return "may gain privileges, as by sudo, and this host was started with NoNewPrivileges"
    }
    if other.cpus != cpus { return "has its own choice of CPUs (\(other.cpus)), which CRIU does not keep" }
    if let group = other.groups.subtracting(groups).sorted().first {
      return "is in the control group '\(group)', which it would leave"
    }
    return nil
  }
}
