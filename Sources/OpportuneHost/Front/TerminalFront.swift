internal import Glibc
internal import OpportuneApps

/// Terminals: who is in front is the foreground process group of the one that was typed into last, as a shell
/// sets it for each job, and `fg`, `bg` and Ctrl-Z change it (tcsetpgrp(3)).
///
/// The kernel has no event for that change. But a shell reads and writes at its terminal around each, and
/// inotify(7) tells of that, with what was read by whom it was typed for. So nothing is polled while nobody
/// uses a terminal.
package struct TerminalFront: FrontSource {
  /// The device that is followed; `nil`: all pseudo-terminals of this user, root's: of everybody.
  let path: String?

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
    else {
      return false
    }
    return !SystemFile.exists(path) || device(path) != nil
  }

  /// Its device as /proc/PID/stat tells it (proc_pid_stat(5)), and its owner; `nil` where it is none.
  static func device(_ path: String) -> (number: UInt32, owner: uid_t)? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFCHR else { return nil }
    return (UInt32(truncatingIfNeeded: status.st_rdev), status.st_uid)
  }

  /// Whether that is one to follow.
  func follows(_ path: String) -> Bool {
    if let own = self.path { return path == own && Self.device(path) != nil }
    guard path.hasPrefix(folder + "/"), Int(path.dropFirst(folder.count + 1)) != nil else { return false }
    return Self.device(path).map { $0.owner == geteuid() || geteuid() == 0 } ?? false
  }

  /// Those that are there.
  var paths: [String] {
    (path.map { [$0] } ?? SystemFile.names(in: folder).map { folder + "/" + $0 }).filter(follows)
  }

  var isThere: Bool { path == nil ? SystemFile.exists(folder) : !paths.isEmpty }
}
