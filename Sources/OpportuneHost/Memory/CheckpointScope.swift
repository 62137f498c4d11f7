internal import Glibc

/// What a checkpoint of an app would be of, as far as CRIU does not find out itself that it cannot come back.
enum CheckpointScope {
  case possible(Checkpoints.Kept)
  /// Why not, for people.
  case refused(String)

  /// - Parameters:
  ///   - members: all processes of an app.
  ///   - maker: what CRIU would have, which makes them again; `nil`: it is not known.
  static func look(at members: [pid_t], maker: ProcessPrivileges?) -> CheckpointScope {
    let ours = Set(members)
    let all = ProcessTable.all()
    let roots = all.filter { ours.contains($0.pid) && !ours.contains($0.parent) && !$0.hasEnded }
    guard roots.count == 1, let root = roots.first else {
      return .refused("its processes do not descend from one of them")
    }
    // Who waits for it would be told that it was killed, and know nothing of the one that comes back.
    guard root.parent == getpid() || root.parent == 1 else {
      return .refused("process \(root.parent), which has started it, would take it for ended")
    }
    if let other = all.first(where: { ours.contains($0.parent) && !ours.contains($0.pid) && !$0.hasEnded }) {
      return .refused("process \(other.pid) descends from it, and is not of the app")
    }
    for pid in members {
      guard let own = ProcessPrivileges(of: pid), let lack = maker?.lacks(of: own) else { continue }
      return .refused("process \(pid) of it \(lack)")
    }
    let (inherited, obstacle) = outside(members)
    if let obstacle { return .refused(obstacle) }
    return .possible(
      Checkpoints.Kept(
        boot: Checkpoints.boot ?? "", root: root.pid,
        ids: members.flatMap(ProcessTable.threads(of:)).sorted(),
        inherited: inherited))
  }

  /// What it has open that others have as well. A terminal would be another one, and the other end of a pipe
  /// gone; but where it prints as this host does, that is handed on.
  private static func outside(_ members: [pid_t]) -> (inherited: [String], obstacle: String?) {
    struct Pipe {
      var pid: pid_t
      var isRead = false
      var isWritten = false
    }
    let outputs = ownOutputs()
    var pipes: [String: Pipe] = [:]
    var inherited: Set<String> = []
    for pid in members {
      for number in SystemFile.names(in: "/proc/\(pid)/fd") {
        guard let target = SystemFile.target(of: "/proc/\(pid)/fd/\(number)") else { continue }
        if ["/dev/pts/", "/dev/tty", "/dev/console"].contains(where: target.hasPrefix) {
          return ([], "process \(pid) of it is on the terminal '\(target)'")
        }
        if target == "anon_inode:[io_uring]" {
          return ([], "process \(pid) of it uses io_uring, which CRIU does not write")
        }
        if let output = outputs[target] {
          inherited.insert(output)
          continue
        }
        guard target.hasPrefix("pipe:[") else { continue }
        let access = flags(of: number, in: pid) & O_ACCMODE
        var pipe = pipes[target] ?? Pipe(pid: pid)
        pipe.isRead = pipe.isRead || access != O_WRONLY
        pipe.isWritten = pipe.isWritten || access != O_RDONLY
        pipes[target] = pipe
      }
    }
    if let pipe = pipes.values.first(where: { !($0.isRead && $0.isWritten) }) {
      return ([], "process \(pipe.pid) of it has a pipe to a process that is not of the app")
    }
    return (inherited.sorted(), nil)
  }

  /// Where this host prints, by what the kernel calls it, as CRIU wants to have it named: a pipe, a socket as
  /// that of a journal, or a file, of which CRIU asks that it has not grown.
  private static func ownOutputs() -> [String: String] {
    var result: [String: String] = [:]
    for number: Int32 in [2, 1] {
      var status = stat()
      guard let target = SystemFile.target(of: "/proc/self/fd/\(number)"), fstat(number, &status) == 0 else {
        continue
      }
      switch status.st_mode & S_IFMT {
      case S_IFIFO where target.hasPrefix("pipe:["): result[target] = "fd[\(number)]:\(target)"
      case S_IFSOCK where isLocal(number): result[target] = "fd[\(number)]:\(target)"
      case S_IFREG where !target.hasSuffix(" (deleted)"):
        result[target] = "fd[\(number)]:\(target.dropFirst())"
      default: break
      }
    }
    return result
  }

  private static func isLocal(_ socket: Int32) -> Bool {
    var domain: Int32 = 0
    var size = socklen_t(MemoryLayout.size(ofValue: domain))
    return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX
  }

  private static func flags(of descriptor: String, in pid: pid_t) -> Int32 {
    let line = SystemFile.text("/proc/\(pid)/fdinfo/\(descriptor)")?.split(separator: "\n").first {
      $0.hasPrefix("flags:")
    }
    return line.flatMap { Int32($0.dropFirst(6).drop { $0 == "\t" || $0 == " " }, radix: 8) } ?? O_RDWR
  }
}
