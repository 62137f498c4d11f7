internal import COpportuneHost
internal import Glibc

/// A process that thaws what this one has frozen when it ends, however that happens.
///
/// Where it cannot be started, or is killed, what is left is the sweep of the next start.
final class Warden {
  private let channel: Int32
  let pid: pid_t
  /// Whether the warden of a host before was not gone in time; it may thaw what this host freezes.
  let isBesideAnother: Bool
  /// It does not take what it is told: it was killed or stopped. Nobody waits for it again.
  private var isLost = false

  /// - Parameters:
  ///   - folder: the folder of groups of version 2; `nil`: none.
  ///   - key: of the host. A warden of the same key is waited for, which thaws after a host that was killed.
  ///   - patience: for how long.
  init?(thawing folder: String?, key: String, patience: Duration = .seconds(5)) {
    let end = ContinuousClock.now + patience
    var turn = opp_host_warden_turn(key)
    while turn == -EADDRINUSE, ContinuousClock.now < end {
      usleep(500)
      turn = opp_host_warden_turn(key)
    }
    isBesideAnother = turn == -EADDRINUSE
    // It is the warden's alone.
    defer { if turn >= 0 { close(turn) } }
    var pid: pid_t = 0
    channel = opp_host_warden_start(folder, turn, &pid)
    guard channel >= 0 else { return nil }
    self.pid = pid
  }

  /// Before the signal: a host that ends between the two leaves nothing stopped.
  func willStop(_ pid: pid_t) { tell(pid, isStopped: true) }
  func hasContinued(_ pid: pid_t) { tell(pid, isStopped: false) }

  private func tell(_ pid: pid_t, isStopped: Bool) {
    if !isLost { isLost = opp_host_warden_tell(channel, pid, isStopped ? 1 : 0) != 0 }
  }

  deinit {
    guard channel >= 0 else { return }
    close(channel)  // it thaws what is left, and ends
    while waitpid(pid, nil, 0) < 0, errno == EINTR {}
  }
}
