internal import COpportune
internal import COpportuneRuntime
import Glibc

/// The facts of a diagnosis: read from the machine, or given by a test.
struct SystemFacts: Sendable, Equatable {
  struct Version: Sendable, Equatable, Comparable {
    var major: Int
    var minor: Int

    static func < (lhs: Version, rhs: Version) -> Bool { (lhs.major, lhs.minor) < (rhs.major, rhs.minor) }
  }

  /// The release, as printed by `uname -r`.
  var kernel = ""
  var machine = ""
  var userID: UInt32 = 0
  /// Whether the process has `CAP_SYS_NICE` in its user namespace; nil where unknown.
  var hasSysNice: Bool?
  /// Whether the process is in a user namespace other than the initial one, whose capabilities do not count
  /// for priorities; nil where unknown.
  var hasOwnUsers: Bool?
  /// The lowest nice value that `RLIMIT_NICE` allows, -20 to 20; 20 allows none.
  var niceLimit = 20
  /// `RLIMIT_RTPRIO`, 0 to 99.
  var realTimeLimit = 0
  var hasProc = true
  /// The soft limit of open files; nil is no limit.
  var descriptorLimit: Int?
  var threadLimits = ThreadLimits()

  var usableCPUs = 1
  var onlineCPUs = 1
  var nodes = 1
  var hasNUMA = true
  /// The CPU quota in thousandths of a CPU; 0 is none.
  var quotaMilli: UInt64 = 0
  /// How many workers may run at once.
  var width = 1

  /// Whether autogroups are enabled; nil where the kernel has none, or /proc is missing.
  var autogroup: Bool?
  /// Microseconds in each `realTimePeriod`; -1 is no limit, nil is unknown.
  var realTimeRuntime: Int?
  var realTimePeriod = 1_000_000
  /// The highest permitted `SCHED_RR` priority.
  var realTimePriorityMax = 0
  /// RealtimeKit's answer, where `SCHED_RR` is refused; nil where it was not asked.
  var realtimeKit: RealtimeKit.Answer?
  var privileges = KernelPrivileges(canRaise: false, canUseRR: false, canSetSlice: false)
  var defaultSlice: UInt64 = 0
  var hasSchedstat = true
  /// Whether the kernel tells for whose lock a thread of this process waits.
  var canSeeLocks = true

  /// 0, or the `errno` of `io_uring_setup`.
  var ringError: Int32 = 0
  /// `kernel.io_uring_disabled`; nil where the kernel has none, or /proc is missing.
  var ringsDisabled: Int?
  /// Whether the process has an effective `CAP_SYS_ADMIN`.
  var hasSysAdmin: Bool?
  /// nil where unknown.
  var hasSeccompFilter: Bool?
  var ringOperations = 0

  var hasTaskIDs = true
  var knowsJobLayout = true
  var hasEnqueueHook = true

  /// nil where the release does not begin with a number.
  var kernelVersion: Version? {
    let parts = kernel.split(separator: ".", maxSplits: 2).map { $0.prefix { $0.isNumber } }
    guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1]) else { return nil }
    return Version(major: major, minor: minor)
  }

  /// The lowest nice value that this process may take.
  var lowestNice: Int { mayRaise ? -20 : niceLimit }

  /// Whether `CAP_SYS_NICE` is effective.
  var mayRaise: Bool { hasSysNice == true && hasOwnUsers != true }
}

extension SystemFacts {
  /// Reads the facts of this machine, as this process sees it.
  static func read() -> SystemFacts {
    var facts = SystemFacts()
    facts.readIdentity()
    facts.readProcessors()
    facts.readProbe()
    facts.threadLimits = .read(everybody: true)
    facts.knowsJobLayout = RuntimeProbe.knowsJobLayout
    facts.hasTaskIDs = opp_runtime_has_task_ids()
    facts.hasEnqueueHook = opp_runtime_has_global_hook()
    return facts
  }

  private mutating func readIdentity() {
    var names = utsname()
    if uname(&names) == 0 {
      kernel = text(of: &names.release)
      machine = text(of: &names.machine)
    }
    userID = geteuid()
    let status = SmallFile.read(StatusFile.path)
    hasProc = status != nil
    hasSysNice = status.flatMap(Capability.sysNice.isEffective(inStatus:))
    hasSysAdmin = Capability.sysAdmin.counts
    hasOwnUsers = UserNamespace.isOwn
    let filtered = 2  // SECCOMP_MODE_FILTER
    hasSeccompFilter = status.flatMap { StatusFile.field("Seccomp", of: $0) }.map { Int($0) == filtered }
    var limit = rlimit()
    if getrlimit(Int32(__RLIMIT_NICE.rawValue), &limit) == 0 { niceLimit = 20 - Int(min(limit.rlim_cur, 40)) }
    if getrlimit(Int32(__RLIMIT_RTPRIO.rawValue), &limit) == 0 {
      realTimeLimit = Int(min(limit.rlim_cur, 99))
    }
    if getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0 {
      descriptorLimit = limit.rlim_cur == rlim_t.max ? nil : Int(clamping: limit.rlim_cur)
    }
  }

  private func text(of field: inout some Any) -> String {
    withUnsafeBytes(of: &field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }

  private mutating func readProcessors() {
    let topology = Topology()
    usableCPUs = topology.cpuCount
    nodes = topology.nodeCount
    quotaMilli = topology.quotaMilli
    width = topology.width
    onlineCPUs = max(usableCPUs, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
  }

  private mutating func readProbe() {
    var probe = opp_system_probe()
    _ = opp_system_probe_run(&probe)
    hasNUMA = probe.numa != 0
    autogroup = probe.autogroup < 0 ? nil : probe.autogroup != 0
    realTimeRuntime = probe.rt_runtime_us == .min ? nil : Int(probe.rt_runtime_us)
    realTimePeriod =
      SmallFile.read("/proc/sys/kernel/sched_rt_period_us").flatMap { Int($0.prefix { $0.isNumber }) }
      ?? realTimePeriod
    realTimePriorityMax = Int(probe.rr_priority_max)
    privileges = KernelPrivileges(probe)
    if !privileges.canUseRR { realtimeKit = RealtimeKit.look() }
    defaultSlice = probe.default_slice_ns
    hasSchedstat = probe.has_schedstat != 0
    canSeeLocks = probe.can_see_locks != 0
    ringError = -probe.io_uring
    ringOperations = Int(probe.io_uring_ops)
    ringsDisabled = SmallFile.read("/proc/sys/kernel/io_uring_disabled").flatMap {
      Int($0.prefix { $0.isNumber })
    }
  }
}

/// Files of /proc: they report no size, and are read with one call.
enum SmallFile {
  /// The first 16 KiB of the file; nil where it cannot be read.
  static func read(_ path: String) -> String? {
    let descriptor = retrying { open(path, O_RDONLY | O_CLOEXEC) }
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 16384)
    let count = retrying { Glibc.read(descriptor, &bytes, bytes.count) }
    return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
  }

  private static func retrying<Result: SignedInteger>(_ call: () -> Result) -> Result {
    while true {
      let result = call()
      if result >= 0 || errno != EINTR { return result }
    }
  }
}
