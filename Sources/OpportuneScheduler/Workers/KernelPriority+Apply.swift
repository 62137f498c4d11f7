internal import COpportune
import Glibc

extension KernelPriority {
  /// Gives this priority to thread `tid` (0: the caller). Returns whether the kernel accepted it.
  func apply(to tid: Int32) -> Bool {
    var parameters = opp_sched_params()
    parameters.nice = Int8(clamping: nice)
    parameters.rt_priority = UInt8(clamping: realTimePriority)
    parameters.slice_ns = sliceNanoseconds
    switch policy {
    case .normal: parameters.policy = OPP_CLASS_NORMAL
    case .idle: parameters.policy = OPP_CLASS_IDLE
    case .roundRobin: parameters.policy = OPP_CLASS_RR
    }
    return opp_thread_set_sched(tid, &parameters) == 0
  }

  /// Gives this priority to the calling thread, which has inherited that of its creator. If the kernel
  /// refuses the nice value, at least the slice is set, which is always allowed. A refusal means that the
  /// nice value of the process, or of the creating thread, was raised by other code. Returns whether the
  /// kernel accepted all.
  @discardableResult func applyToNewThread() -> Bool {
    if apply(to: 0) { return true }
    guard policy == .normal else { return false }
    var own = opp_sched_params()
    guard opp_thread_get_sched(0, &own) == 0, own.policy == OPP_CLASS_NORMAL else { return false }
    own.slice_ns = sliceNanoseconds
    _ = opp_thread_set_sched(0, &own)
    return false
  }
}

extension KernelPrivileges {
  /// Probes what the kernel allows, on a temporary thread.
  static func probe() -> KernelPrivileges {
    var probe = opp_system_probe()
    guard opp_system_probe_run(&probe) == 0 else {
      return KernelPrivileges(canRaise: false, canUseRR: false, canSetSlice: false)
    }
    return KernelPrivileges(probe)
  }

  /// The main thread's nice value. The calling thread may be a worker with a lowered priority.
  private static var processNice: Int {
    var main = opp_sched_params()
    return opp_thread_get_sched(getpid(), &main) == 0 ? Int(main.nice) : 0
  }

  /// Makes a value from a probe's result.
  init(_ probe: opp_system_probe) {
    self.init(
      canRaise: probe.can_raise_nice != 0 && probe.can_leave_idle != 0, canUseRR: probe.can_use_rr != 0,
      canSetSlice: probe.can_set_slice != 0, baseNice: Self.processNice)
  }
}
