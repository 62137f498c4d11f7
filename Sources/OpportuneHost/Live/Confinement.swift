internal import COpportuneHost
internal import Glibc
internal import OpportuneBase

/// Starts programs for a host that has given up what it would start them with: a process apart, with what
/// this one had when it was made. Programs are this process's children all the same. It ends with this
/// object, and with this process, however that happens, unless it is stopped then. Any thread.
package final class ProgramStarter: @unchecked Sendable {
  // Sendable: what changes is touched under the lock alone.
  package let pid: Int32
  /// How long it may take for a program: the host waits meanwhile.
  private let limit: Duration
  /// One order at a time.
  private let lock = Lock()
  private var starter: opp_host_starter
  private var hasEnded = false

  /// What keeps it from starting a program.
  package enum Lack: Sendable, Hashable {
    case ended
    /// By a signal.
    case stopped(Int32)
    /// It has not answered in time.
    case silent(Int32, after: Duration)
  }

  /// To be made before this process has a second thread, whose locks the copy would find taken for good.
  ///
  /// - Throws: ``ProcessHostError``: `system`.
  package init(limit: Duration = .seconds(5)) throws(ProcessHostError) {
    var starter = opp_host_starter()
    let error = opp_host_starter_open(&starter)
    if error != 0 { throw ProcessHostError(.system("no process that starts programs", -error)) }
    (self.starter, self.limit, pid) = (starter, limit, starter.pid)
  }

  deinit { end() }

  /// Ends the process, which may be stopped. It starts nothing from then on.
  package func end() {
    lock.withLock {
      if hasEnded { return }
      hasEnded = true
      opp_host_starter_close(&starter)
    }
  }

  /// - Returns: as of `opp_host_start`, and what keeps it from starting anything.
  func start(_ program: inout opp_host_program, _ pidfd: inout Int32) -> (pid: pid_t, lack: Lack?) {
    lock.withLock {
      if hasEnded { return (-EPIPE, .ended) }
      let started = opp_host_starter_start(
        &starter, &program, Int32(clamping: Int64(limit / .milliseconds(1))), &pidfd)
      return switch starter.lack {
      case opp_host_starter_ended: (started, .ended)
      case opp_host_starter_stopped: (started, .stopped(pid))
      case opp_host_starter_silent: (started, .silent(pid, after: limit))
      default: (started, nil)
      }
    }
  }
}

/// What a host gives up: new privileges, capabilities, and system calls that it does not make.
package enum Confinement {
  /// Cannot be undone. To be called before this process has a second thread, and after a ``ProgramStarter``
  /// is made: no program can be started otherwise.
  ///
  /// - Throws: ``ProcessHostError``: `system`, where something could not be given up; the rest was.
  package static func confine() throws(ProcessHostError) {
    let error = opp_host_confine()
    if error != 0 {
      throw ProcessHostError(.system("the host keeps privileges that it does not need", -error))
    }
  }

  /// Whether this thread, and all that it starts, have given them up.
  package static var isOn: Bool { opp_host_is_confined() != 0 }

  /// Why a process may not give up system calls here; `nil`: it may.
  package static var lack: String? {
    let error = opp_host_filter_lack()
    return error == 0 ? nil : "the kernel takes no filter of system calls: \(errorText(-error))"
  }
}
