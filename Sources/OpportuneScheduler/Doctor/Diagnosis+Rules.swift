import Glibc
internal import OpportuneBase

// The pure part: it derives findings from facts. The priorities of the pools come from `KernelPriority`,
// which the scheduler uses too, so the findings cannot differ from the scheduler's behaviour.

extension Diagnosis {
  init(_ facts: SystemFacts, configuration: SchedulerConfiguration = SchedulerConfiguration()) {
    let pools = PoolRules(facts: facts, configuration: configuration)
    self.init(
      findings: facts.systemFindings + facts.processorFindings + facts.priorityFindings + pools.findings
        + facts.accountingFindings + facts.ioFindings + facts.runtimeFindings)
  }
}

private typealias Finding = Diagnosis.Finding

private let howToPrivilege =
  "Give the program CAP_SYS_NICE (systemd: AmbientCapabilities=CAP_SYS_NICE), or raise its limits (systemd: "
  + "LimitNICE=-10 and LimitRTPRIO=64; login sessions: 'nice -10' and 'rtprio 64' in /etc/security/limits.conf)."

private let howToPrivilegeInNamespace =
  "CAP_SYS_NICE of a user namespace does not count for priorities; the limits do that it was entered with. Raise them outside "
  + "of it, before (systemd: LimitNICE=-10 and LimitRTPRIO=64; containers: --ulimit nice=30 --ulimit rtprio=64; login "
  + "sessions: 'nice -10' and 'rtprio 64' in /etc/security/limits.conf), or run the program outside with CAP_SYS_NICE."

/// The full explanation appears once, in the finding "User".
private let seeUser = "See User."

// MARK: System

extension SystemFacts {
  fileprivate var systemFindings: [Finding] {
    var findings = [kernelFinding, userFinding, descriptorFinding, threadFinding]
    if !hasProc {
      findings.append(
        Finding(
          .system, "/proc", .missing, found: "not mounted here",
          cost:
            "CPU limits, waiting and blocking cannot be read; what below says \"unknown\" is for this reason.",
          remedy: "Mount /proc: mount -t proc proc /proc"))
    }
    return findings
  }

  private var kernelFinding: Finding {
    let found = "Linux \(kernel), \(machine)"
    guard let version = kernelVersion, version < Version(major: 6, minor: 12) else {
      return Finding(.system, "Kernel", .ok, found: found)
    }
    return Finding(
      .system, "Kernel", .degraded, found: found,
      cost: "Before Linux 6.12 a thread cannot choose its slice: see Slices.", remedy: "Linux 6.12 or later.")
  }

  private var userFinding: Finding {
    let name =
      (userID == 0 ? "root" : "ordinary user (\(userID))")
      + (hasOwnUsers == true ? " of a user namespace" : "")
    let capability =
      switch hasSysNice {
      case true?: mayRaise ? "CAP_SYS_NICE" : "CAP_SYS_NICE only there"
      case false?: "no CAP_SYS_NICE"
      case nil: "CAP_SYS_NICE unknown"
      }
    let limits = [
      niceLimit > 19 ? nil : "nice down to \(niceLimit) by limit",
      realTimeLimit == 0 ? nil : "real-time priorities up to \(realTimeLimit) by limit",
    ].compactMap { $0 }
    let found = ([name, capability] + limits).joined(separator: ", ")
    guard !privileges.canRaise || !privileges.canUseRR else {
      return Finding(.system, "User", .ok, found: found)
    }
    // Whoever has the privilege lacks something else.
    let isPrivileged = mayRaise && privileges.canRaise
    return Finding(
      .system, "User", .degraded, found: found,
      cost: "\(whatIsRefused) See Pools for what takes the place.",
      remedy: isPrivileged
        ? "See Real-time class." : hasOwnUsers == true ? howToPrivilegeInNamespace : howToPrivilege)
  }

  /// Descriptors of the scheduler itself: the monitor's, and one for each worker of two pools.
  private var schedulerDescriptors: Int { 5 + 2 * (width + 1) }

  private var descriptorFinding: Finding {
    let limit = descriptorLimit.map { "\($0) by RLIMIT_NOFILE" } ?? "no limit"
    let found =
      "\(limit); a scheduler keeps \(schedulerDescriptors), and one for each job that blocks or is demoted"
    guard let descriptorLimit, descriptorLimit < schedulerDescriptors + 256 else {
      return Finding(.system, "Descriptors", .ok, found: found)
    }
    return Finding(
      .system, "Descriptors", .degraded, found: found,
      cost:
        "Some hundred jobs that block at once leave the program no descriptor: it can open no file then, and the "
        + "monitor does not see who is blocked.",
      remedy: "Raise the limit of open files (ulimit -n; systemd: LimitNOFILE=4096).")
  }

  private var whatIsRefused: String {
    switch (privileges.canRaise, privileges.canUseRR) {
    case (false, false): "Priorities can be lowered but not raised again, and there is no real-time class."
    case (false, true): "Priorities can be lowered but not raised again."
    default: "There is no real-time class."
    }
  }
}

// MARK: Processors

extension SystemFacts {
  fileprivate var processorFindings: [Finding] { [cpuFinding, quotaFinding, nodeFinding] }

  private var cpuFinding: Finding {
    let found =
      usableCPUs < onlineCPUs
      ? "\(usableCPUs) of the \(onlineCPUs) online; affinity or cpuset leaves out the rest"
      : "\(usableCPUs), all that are online"
    guard usableCPUs == 1 else { return Finding(.processors, "CPUs", .ok, found: found) }
    return Finding(
      .processors, "CPUs", .degraded, found: found,
      cost: "Foreground and background take turns on one CPU: whoever wakes waits for a switch each time.",
      remedy: onlineCPUs > 1 ? "Allow more CPUs: taskset, or the cgroup's cpuset." : nil)
  }

  private var quotaFinding: Finding {
    guard hasProc || quotaMilli > 0 else {
      return Finding(.processors, "CPU limit", .ok, found: "unknown; none assumed")
    }
    guard quotaMilli > 0 else { return Finding(.processors, "CPU limit", .ok, found: "none") }
    let quota = decimal(quotaMilli)
    guard quotaMilli < UInt64(usableCPUs) * 1000 else {
      return Finding(.processors, "CPU limit", .ok, found: "\(quota) CPUs, no less than there are")
    }
    return Finding(
      .processors, "CPU limit", .degraded,
      found:
        "\(quota) CPUs by the cgroup; \(width) \(width == 1 ? "worker runs" : "workers run") at once in a pool",
      cost:
        "Once a period's budget is used up, everything stands still until the next (usually up to 0.1 s), "
        + "foreground as well.",
      remedy: "Prefer cpu.weight to a limit; or raise cpu.max (cgroup v1: cpu.cfs_quota_us).")
  }

  private var nodeFinding: Finding {
    guard hasNUMA else {
      return Finding(
        .processors, "NUMA", .degraded, found: "cannot be read; one node assumed",
        cost: "On a machine of several nodes, workers take work from far CPUs as soon as from near ones.",
        remedy: "Mount /sys, and let the container's seccomp filter pass get_mempolicy.")
    }
    return Finding(.processors, "NUMA", .ok, found: nodes == 1 ? "one node" : "\(nodes) nodes")
  }
}

// MARK: Priorities

extension SystemFacts {
  fileprivate var priorityFindings: [Finding] { [autogroupFinding, sliceFinding, roundRobinFinding] }

  private var autogroupFinding: Finding {
    guard autogroup == true else {
      let found = autogroup == false ? "off" : hasProc ? "not in this kernel" : "unknown"
      return Finding(.priorities, "Autogroups", .ok, found: found)
    }
    return Finding(
      .priorities, "Autogroups", .degraded, found: "on",
      cost:
        "SCHED_IDLE and nice count only within one terminal session. Pools of one program are not concerned; but "
        + "background work here takes a full share from programs of other sessions, and theirs from this one: up to "
        + "5 ms at a time.",
      remedy:
        "echo 0 >/proc/sys/kernel/sched_autogroup_enabled; or per program: echo 19 >/proc/PID/autogroup; or put "
        + "the programs into one CPU cgroup.")
  }

  private var sliceFinding: Finding {
    guard privileges.canSetSlice else {
      return Finding(
        .priorities, "Slices", .missing, found: "a thread cannot choose its slice",
        cost: "Foreground work preempts others later when all CPUs are busy; "
          + (privileges.canRaise
            ? "demotion works by nice alone." : "the first step of demotion does nothing."),
        remedy: "Linux 6.12 or later.")
    }
    let own = defaultSlice == 0 ? "" : ", \(duration(defaultSlice)) by default"
    return Finding(.priorities, "Slices", .ok, found: "100 µs to 100 ms\(own); no privilege needed")
  }

  private var roundRobinFinding: Finding {
    if realTimeRuntime == 0 {
      return Finding(
        .priorities, "Real-time class", .missing, found: "SCHED_RR has no CPU time here",
        cost: "The real-time pool does without.", remedy: "echo 950000 >/proc/sys/kernel/sched_rt_runtime_us")
    }
    guard privileges.canUseRR else {
      return Finding(
        .priorities, "Real-time class", .missing, found: "SCHED_RR is refused",
        cost: "The real-time pool does without: see Pools.",
        remedy: mayRaise || realTimeLimit > 0
          ? "The CPU cgroup grants no real-time: give its cpu.rt_runtime_us a budget, or start in the root cgroup."
          : seeUser)
    }
    return throttlingFinding
  }

  private var throttlingFinding: Finding {
    guard let realTimeRuntime else {
      return Finding(.priorities, "Real-time class", .ok, found: "SCHED_RR; throttling unknown")
    }
    guard realTimeRuntime > 0 else {
      return Finding(
        .priorities, "Real-time class", .degraded, found: "SCHED_RR, not throttled",
        cost: "A real-time job that never ends takes its CPU from everything else, for good.",
        remedy: "echo 950000 >/proc/sys/kernel/sched_rt_runtime_us")
    }
    let run = duration(UInt64(realTimeRuntime) * 1000)
    let period = duration(UInt64(realTimePeriod) * 1000)
    return Finding(
      .priorities, "Real-time class", .ok,
      found: "SCHED_RR, throttled to \(run) of each \(period) on a CPU that others want too")
  }
}

// MARK: Pools

private struct PoolRules {
  let facts: SystemFacts
  let configuration: SchedulerConfiguration

  var findings: [Finding] { [foreground, realTimeForeground, background, realTime, demotion, raising] }

  private func priority(_ pool: WorkerPool, _ level: Level, depth: Int = 0) -> KernelPriority {
    KernelPriority(
      worker: pool, level: level, depth: depth, bands: configuration.bands,
      backgroundClass: configuration.backgroundClass, overlapClass: configuration.overlapClass,
      privileges: facts.privileges)
  }

  private var foregroundTop: Level { configuration.bands.foreground.upperBound }

  private var foreground: Finding {
    let chosen = priority(.foreground, foregroundTop)
    guard chosen.nice > 0 else { return Finding(.pools, "Foreground", .ok, found: describe(chosen)) }
    return Finding(
      .pools, "Foreground", .degraded, found: describe(chosen),
      cost:
        "The program was started at nice \(chosen.nice), and is not raised: what runs at nice 0 gets more CPU.",
      remedy: "Start it without nice.")
  }

  /// The class that a program may choose for its foreground.
  private var realTimeForeground: Finding {
    let isAsked = configuration.foregroundClass != .normal
    let ifAsked = isAsked ? "" : "; only in programs that ask for this class"
    let needed = KernelPriority.monitor(
      configuration.pools, KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true),
      aboveForeground: true
    ).realTimePriority
    if facts.privileges.canUseRR, facts.realTimePriorityMax >= needed, facts.realTimeRuntime != 0 {
      return Finding(.pools, "Real-time foreground", .ok, found: "SCHED_RR, within its bounds\(ifAsked)")
    }
    let remedy = "Raise the limit of real-time priorities to \(needed) or more (RLIMIT_RTPRIO)"
    guard let kit = facts.realtimeKit, kit.isGranted, facts.realTimeRuntime != 0 else {
      let why = facts.realtimeKit.map { ", and \($0.reason)" } ?? ""
      return Finding(
        .pools, "Real-time foreground", .missing,
        found: "SCHED_RR up to \(facts.realTimePriorityMax) of \(needed)\(why)\(ifAsked)",
        cost: "A program that asks for the class has the ordinary one, and waits for other threads' slices.",
        remedy: "\(remedy), or install RealtimeKit (Debian's rtkit).")
    }
    return Finding(
      .pools, "Real-time foreground", .degraded,
      found: "by leave of RealtimeKit, for the I/O broker's thread alone\(ifAsked)",
      cost: "Foreground jobs have the ordinary class; RLIMIT_RTTIME is lowered to 200 ms.",
      remedy: "\(remedy).")
  }

  private var background: Finding {
    let chosen = priority(.background, configuration.bands.background.lowerBound)
    return Finding(.pools, "Background", .ok, found: describe(chosen))
  }

  private var realTime: Finding {
    let lowest = priority(.realTime, configuration.bands.realTime.lowerBound)
    let highest = priority(.realTime, configuration.bands.realTime.upperBound)
    if lowest.policy == .roundRobin { return roundRobin(lowest.realTimePriority, highest.realTimePriority) }
    guard lowest.nice < facts.privileges.baseNice, lowest.nice >= facts.lowestNice else {
      return Finding(
        .pools, "Real-time", .degraded,
        found: "as the foreground: \(describe(priority(.foreground, foregroundTop)))\(onlyIfAsked)",
        cost: "Foreground work that saturates the CPUs delays work with deadlines, such as audio.",
        remedy: "See Real-time class.")
    }
    return Finding(
      .pools, "Real-time", .degraded, found: "\(describe(lowest)), in place of SCHED_RR\(onlyIfAsked)",
      cost: "It goes before the foreground, mostly: a deadline is missed now and then on a busy machine.",
      remedy: "See Real-time class.")
  }

  private var onlyIfAsked: String {
    configuration.pools.contains(.realTime) ? "" : "; only in programs that ask for this pool"
  }

  private func roundRobin(_ lowest: Int, _ highest: Int) -> Finding {
    let found = "SCHED_RR, priorities \(lowest) to \(highest)\(onlyIfAsked)"
    guard facts.realTimePriorityMax < highest else { return Finding(.pools, "Real-time", .ok, found: found) }
    return Finding(
      .pools, "Real-time", .degraded,
      found: "SCHED_RR, priorities \(lowest) to \(facts.realTimePriorityMax)\(onlyIfAsked)",
      cost: "Work of higher levels is refused its priority.",
      remedy: "Raise the limit of real-time priorities to \(highest) or more (RLIMIT_RTPRIO).")
  }

  private var demotion: Finding {
    let first = priority(.foreground, foregroundTop, depth: 1)
    let second = priority(.foreground, foregroundTop, depth: 2)
    guard second.nice > facts.privileges.baseNice else {
      return Finding(
        .pools, "Demotion", .degraded,
        found: "by the slice alone: at nice \(second.nice) there is no lower nice value",
        cost: "Work that uses up its quantum keeps its share of the CPU.",
        remedy: "Start the program without nice.")
    }
    guard second.retires else {
      return Finding(
        .pools, "Demotion", .ok,
        found:
          "work that uses up its quantum goes to nice \(first.nice), then \(second.nice) to 19\(slice(of: first)); "
          + "undone when it blocks")
    }
    let step =
      facts.privileges.canSetSlice
      ? "the slice goes from 100 µs to \(duration(first.sliceNanoseconds)) first, which can be undone;"
      : "nothing at first;"
    return Finding(
      .pools, "Demotion", .degraded, found: "\(step) then nice \(second.nice) to 19, which cannot",
      cost:
        "A worker that was lowered by nice ends with its job, and another is started: some 30 µs for each job "
        + "that uses up its quantum twice.",
      remedy: seeUser)
  }

  private var raising: Finding {
    let moved = priority(.background, foregroundTop)
    guard moved.policy == .normal, moved.nice == facts.privileges.baseNice else {
      return Finding(
        .pools, "Raising", .degraded,
        found: "an app that comes to the foreground is raised with its next job",
        cost:
          "A background job that is running then stays in its class to its end, however long that takes on busy "
          + "CPUs.",
        remedy: seeUser)
    }
    return Finding(
      .pools, "Raising", .ok,
      found: "an app that comes to the foreground is raised at once, its running jobs too")
  }

  private func describe(_ priority: KernelPriority) -> String {
    switch priority.policy {
    case .normal: "SCHED_OTHER, nice \(priority.nice)\(slice(of: priority))"
    case .idle: "SCHED_IDLE: runs when nothing else wants the CPU, and gives way at once"
    case .roundRobin: "SCHED_RR, priority \(priority.realTimePriority)"
    }
  }

  private func slice(of priority: KernelPriority) -> String {
    priority.sliceNanoseconds == 0 ? "" : ", slice \(duration(priority.sliceNanoseconds))"
  }
}

// MARK: Accounting, I/O, runtime

extension SystemFacts {
  fileprivate var accountingFindings: [Finding] { [blockingFinding, lockFinding] }

  private var blockingFinding: Finding {
    guard !hasSchedstat else {
      return Finding(.accounting, "Blocking", .ok, found: "told from waiting for a CPU, by schedstat")
    }
    return Finding(
      .accounting, "Blocking", .missing, found: "the kernel does not say how long a thread waits for a CPU",
      cost:
        "Waiting for a CPU cannot be told from blocking: a job that only waits may be spared its demotion, one "
        + "that blocks briefly may be demoted.",
      remedy: hasProc ? "A kernel with CONFIG_SCHED_INFO (distributions have it)." : "Mount /proc.")
  }

  /// What both sides lock is told in docs/sharing.md.
  private var lockFinding: Finding {
    guard canSeeLocks else {
      return Finding(
        .accounting, "Locks", .missing, found: "/proc/self/task/*/syscall cannot be read",
        cost:
          "Foreground work that waits for a lock which background work holds is not seen: beside hogs it waits for "
          + "some 0.4 s. docs/sharing.md says how to do without such locks.",
        remedy: hasProc
          ? "A kernel with CONFIG_HAVE_ARCH_TRACEHOOK, and a seccomp filter that passes process_vm_readv."
          : "Mount /proc.")
    }
    guard privileges.canRaise else {
      return Finding(
        .accounting, "Locks", .degraded,
        found: "who holds one is seen, by /proc/self/task/*/syscall, and cannot be raised",
        cost:
          "Where foreground work waits for a lock that background work holds, demoted work leaves the holder's CPU "
          + "meanwhile. docs/sharing.md says how to do without such locks.", remedy: seeUser)
    }
    return Finding(
      .accounting, "Locks", .ok,
      found:
        "background work that holds one is raised while foreground work waits for it; see docs/sharing.md")
  }

  fileprivate var ioFindings: [Finding] {
    guard ringError != 0 else {
      return [Finding(.io, "io_uring", .ok, found: "\(ringOperations) operations")]
    }
    let (who, remedy): (String?, String?) =
      switch ringError {
      case ENOSYS: whoHidesRings
      case EPERM, EACCES: whoRefusesRings
      case ENOMEM:
        (nil, "Raise the limit of locked memory (ulimit -l), which kernels before 5.12 count rings against.")
      case EMFILE, ENFILE: (nil, "Raise the limit of open files (ulimit -n).")
      default: (nil, nil)
      }
    return [
      Finding(
        .io, "io_uring", .missing,
        found: errorText(ringError) + (who.map { ": \($0)" } ?? ""),
        cost:
          "Files go over a few threads and sockets over poll instead: the same order of classes, more CPU time for "
          + "each request. The open of a FIFO that nobody has at the other end, cancelled or not, keeps one of the "
          + "threads until the kernel lets go. More than some thousand requests that wait for sockets are refused.",
        remedy: remedy)
    ]
  }

  /// For a system call that is forbidden: what forbids it, and how to allow it.
  private var whoRefusesRings: (String?, String?) {
    switch (ringsDisabled ?? 0, hasSeccompFilter) {
    case (2..., _): ("kernel.io_uring_disabled is 2", enableRings)
    case (1, _) where hasSysAdmin != true:
      (
        "kernel.io_uring_disabled is 1: only a group and CAP_SYS_ADMIN may",
        enableRings + ", or put a group of the program's into /proc/sys/kernel/io_uring_group."
      )
    case (_, true?): ("a seccomp filter refuses it", passRings)
    case (_, false?):
      (
        "neither a seccomp filter nor kernel.io_uring_disabled",
        "Let the security module (SELinux, BPF) permit it."
      )
    case (_, nil): (nil, "\(enableRings); or, of a container's seccomp filter: \(passRings)")
    }
  }

  /// For a system call that does not exist: what hides it, and how to get it. A kernel with the setting
  /// `kernel.io_uring_disabled` has the call.
  private var whoHidesRings: (String?, String?) {
    let other = "A kernel with CONFIG_IO_URING; some sandboxes (gVisor) have none."
    return switch (ringsDisabled, hasSeccompFilter) {
    case (_?, _): ("the kernel has it, but a seccomp filter hides it", passRings)
    case (nil, true?): ("the kernel has none, or a seccomp filter hides it", "\(other) Or: \(passRings)")
    case (nil, _): ("the kernel has none", other)
    }
  }

  private var enableRings: String { "echo 0 >/proc/sys/kernel/io_uring_disabled" }

  private var passRings: String {
    "Let the filter pass io_uring_setup, io_uring_enter and io_uring_register (containers: --security-opt seccomp=FILE; "
      + "systemd: SystemCallFilter=)."
  }

  fileprivate var runtimeFindings: [Finding] {
    let other = "A Swift runtime of the 6.3 series."
    return [
      hasTaskIDs && knowsJobLayout
        ? Finding(
          .runtime, "Task ids", .ok, found: "readable: demotion follows a task across its suspensions")
        : Finding(
          .runtime, "Task ids", .missing,
          found: hasTaskIDs ? "jobs are not laid out as expected" : "swift_task_getJobTaskId is not there",
          cost:
            "Demotion forgets a task when it suspends, and jobs of default actors are held back together with the app "
            + "that is suspended.", remedy: other),
      hasEnqueueHook
        ? Finding(.runtime, "Enqueue hook", .ok, found: "there; used only if the configuration asks for it")
        : Finding(
          .runtime, "Enqueue hook", .missing, found: "swift_task_enqueueGlobal_hook is not there",
          cost: "Tasks that leave an app for the global pool (Task { } inside its work) cannot be counted.",
          remedy: other),
    ]
  }
}

// MARK: Numbers

/// "100 µs", "2.8 ms", "1 s".
private func duration(_ nanoseconds: UInt64) -> String {
  switch nanoseconds {
  case 1_000_000_000...: decimal(nanoseconds / 1_000_000) + " s"
  case 1_000_000...: decimal(nanoseconds / 1000) + " ms"
  default: decimal(nanoseconds) + " µs"
  }
}

/// A number of thousandths as a decimal, without trailing zeros.
private func decimal(_ value: UInt64) -> String {
  var rest = String(value % 1000 + 1000).dropFirst()
  while rest.last == "0" { rest.removeLast() }
  return rest.isEmpty ? "\(value / 1000)" : "\(value / 1000).\(rest)"
}
