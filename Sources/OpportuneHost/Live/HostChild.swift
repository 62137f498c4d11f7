internal import COpportuneHost
internal import Glibc
internal import Synchronization

/// A process that a host of this process has started, which nobody else reaps.
struct HostChild {
  let pid: pid_t
  /// Its pidfd; closed by ``reap()``.
  let descriptor: Int32

  /// Takes it away if it has ended, and returns whether it has.
  func reap() -> Bool {
    var status: Int32 = 0
    guard opp_host_reap(descriptor, &status) != 0 else { return false }
    close(descriptor)
    return true
  }
}

/// Children of this process that belong to no host's app: theirs has stopped while they ran, or they were
/// still ending when their app had ended. The next host that takes one in reaps it, and any host does that of
/// those that have ended. Otherwise they stay in the table of processes for as long as this process runs, and
/// whoever waits there for any child, as some do in a loop, finds the same one over and over.
enum LeftChildren {
  private static let all = Mutex<[HostChild]>([])

  static func leave(_ child: HostChild) { all.withLock { $0.append(child) } }

  /// Takes away all that have ended.
  static func reap() { all.withLock { $0.removeAll { $0.reap() } } }

  /// The one that has one of these pids is no longer left.
  static func take(among members: [pid_t]) -> HostChild? {
    all.withLock { children in
      children.firstIndex { members.contains($0.pid) }.map { children.remove(at: $0) }
    }
  }
}
