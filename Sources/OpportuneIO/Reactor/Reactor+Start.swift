internal import COpportune
import Glibc

/// What the reactor thread begins with.
extension Reactor {
  /// The thread begins in the class of whoever made the broker, which may be a background job. Before the ring starts, whose
  /// threads inherit it.
  func takeOrdinaryClass() {
    var ordinary = opp_sched_params()
    ordinary.policy = OPP_CLASS_NORMAL
    // The program's own nice value is that of its first thread, which has the process's number.
    var first = opp_sched_params()
    if opp_thread_get_sched(getpid(), &first) == 0 { ordinary.nice = first.nice }
    let error = opp_thread_set_sched(0, &ordinary)
    guard error != 0 else { return }
    logger.warning(
      "the broker's thread stays in the class of the thread that made it; foreground I/O may wait for background CPU time",
      metadata: [
        "reason": "\(String(cString: strerror(-error)))",
        "remedy": "make the broker on an ordinary thread, or give CAP_SYS_NICE",
      ])
  }

  func registerBuffers() {
    guard let registered else { return }
    let error = registered.register(with: ring)
    guard error != 0 else { return }
    logger.warning(
      "the kernel registers no buffers; they are used as others are",
      metadata: [
        "reason": "\(String(cString: strerror(-error)))", "bytes": "\(registered.count * registered.size)",
        "remedy": "a higher RLIMIT_MEMLOCK, or CAP_IPC_LOCK",
      ])
  }
}
