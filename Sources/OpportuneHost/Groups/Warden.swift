internal import COpportuneHost
internal import Glibc

/// A process that thaws what this one has frozen when it ends, however that happens.
///
/// Where it cannot be started, or is killed, what is left is the sweep of the next start.
final class Warden {
  private let channel: Int32
  let pid: pid_t

  /// - Parameter folder: the folder of groups of version 2; `nil`: none.
  init?(thawing folder: String?) {
    var pid: pid_t = 0
    channel = opp_host_warden_start(folder, &pid)
    guard channel >= 0 else { return nil }
    self.pid = pid
  }

  /// Before the signal: a host that ends between the two leaves nothing stopped.
  func willStop(_ pid: pid_t) { _ = opp_host_warden_tell(channel, pid, 1) }
  func hasContinued(_ pid: pid_t) { _ = opp_host_warden_tell(channel, pid, 0) }

  deinit {
    guard channel >= 0 else { return }
    close(channel)  // it thaws what is left, and ends
    while waitpid(pid, nil, 0) < 0, errno == EINTR {}
  }
}
