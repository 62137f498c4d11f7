internal import Glibc
internal import OpportuneApps

/// Terminals: who is in front is the foreground process group of the one that was typed into last, as a shell
/// sets it for each job, and `fg`, `bg` and Ctrl-Z change it (tcsetpgrp(3)).
///
/// The kernel has no event for that change. But a shell reads and writes at its terminal around each, and
/// inotify(7) tells of that, with what was read by whom it was typed for. So nothing is polled while nobody
/// uses a terminal.
package struct TerminalFront: FrontSource {
  /// The device that is followed; `nil`: all pseudo-terminals of the users.
  let path: String?
  /// Whoever else types puts nothing in front.
  let users: Set<uid_t>

  init(path: String?, users: Set<uid_t> = [geteuid()]) { (self.path, self.users) = (path, users) }

  package var name: String { path.map { "the terminal \($0)" } ?? "the terminals of this user" }
  package func makeFollower() -> any FrontFollower { TerminalFollower(self) }

  static let pseudoTerminals = "/dev/pts"

  /// The folder in which it appears.
  var folder: String {
    path.flatMap { path in path.lastIndex(of: "/").map { String(path[..<$0]) } } ?? Self.pseudoTerminals
  }

  /// Whether it may be one: also what is not there yet.
  static func isTerminal(_ path: String) -> Bool {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    guard path.hasPrefix("/dev/"), parts.count > 2, !parts.dropFirst().contains(""), !parts.contains("..")
    else { return false }
    return !SystemFile.exists(path) || device(path) != nil
  }

  /// Its device as /proc/PID/stat tells it (proc_pid_stat(5)), and its owner; `nil` where it is none that a
  /// session has, as `/dev/tty`.
  static func device(_ path: String) -> (number: UInt32, owner: uid_t)? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFCHR else { return nil }
    let number = UInt32(truncatingIfNeeded: status.st_rdev)
    guard drivers.isEmpty || drivers.contains(where: { $0.holds(number) }) else { return nil }
    return (number, status.st_uid)
  }

  /// The devices of one driver of the kernel's.
  private struct Driver {
    let major: UInt32
    let minors: ClosedRange<UInt32>

    /// - Parameter line: as `pty_slave  /dev/pts  136 0-1048575 pty:slave` (proc_tty(5)).
    init?(_ line: Substring) {
      let words = line.split(whereSeparator: \.isWhitespace)
      guard words.count == 5, ["console", "serial", "pty:slave"].contains(words[4]),
        let major = UInt32(words[2])
      else { return nil }
      let ends = words[3].split(separator: "-").compactMap { UInt32($0) }
      guard let first = ends.first, let last = ends.last, first <= last else { return nil }
      (self.major, minors) = (major, first...last)
    }

    func holds(_ device: UInt32) -> Bool {
      let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00)
      return self.major == major && minors.contains(minor)
    }
  }

  private static let drivers = (SystemFile.text("/proc/tty/drivers") ?? "").split(separator: "\n")
    .compactMap(Driver.init)

  /// Whether that is one to follow.
  func follows(_ path: String) -> Bool {
    if let own = self.path { return path == own && Self.device(path) != nil }
    guard path.hasPrefix(folder + "/"), Int(path.dropFirst(folder.count + 1)) != nil else { return false }
    return Self.device(path).map { users.contains($0.owner) } ?? false
  }

  /// Those that are there.
  var paths: [String] {
    (path.map { [$0] } ?? SystemFile.names(in: folder).map { folder + "/" + $0 }).filter(follows)
  }

  var isThere: Bool { path == nil ? SystemFile.exists(folder) : !paths.isEmpty }
}
