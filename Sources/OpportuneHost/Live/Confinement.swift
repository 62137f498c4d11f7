internal import COpportuneHost
internal import Glibc
internal import OpportuneBase

/// Starts programs for a host that has given up what it would start them with: a process apart, with what
/// this one had when it was made. Programs are this process's children all the same. It ends with this
/// object, and with this process, however that happens. Any thread.
package final class ProgramStarter: Sendable {
  package let pid: Int32
  private let channel: Int32
  /// One order at a time.
  private let lock = Lock()

  /// To be made before this process has a second thread, whose locks the copy would find taken for good.
  ///
  /// - Throws: ``ProcessHostError``: `system`.
  package init() throws(ProcessHostError) {
    var pid: pid_t = 0
    channel = opp_host_starter_open(&pid)
    if channel < 0 { throw ProcessHostError(.system("no process that starts programs", -channel)) }
    self.pid = pid
  }

  deinit {
    guard channel >= 0 else { return }
    close(channel)
    while waitpid(pid, nil, 0) < 0, errno == EINTR {}
  }

  /// - Returns: as of `opp_host_start`.
  func start(_ program: inout opp_host_program, _ pidfd: inout Int32) -> pid_t {
    lock.withLock { opp_host_starter_start(channel, &program, &pidfd) }
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
