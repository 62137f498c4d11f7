/// The kernel scheduling class of the background pool.
public enum BackgroundClass: Sendable, Hashable, CaseIterable, Codable {
  /// `SCHED_IDLE`: a weight below that of nice 19; any other waking thread preempts it.
  case idle
  /// `SCHED_OTHER` at nice 19.
  case nice19
  /// `SCHED_OTHER` at nice 19 with the longest slice that the kernel accepts, so that context switches are
  /// rarer. The same as ``nice19`` where the slice cannot be set.
  case nice19LongSlice
}

/// The kernel scheduling class of foreground work that was demoted into the overlap of the bands. It decides
/// who gets more of a CPU that demoted and background work share.
public enum OverlapClass: Sendable, Hashable, CaseIterable, Codable {
  /// The background's class: a demoted thread and a background thread get equal shares.
  case background
  /// `SCHED_OTHER` at nice 19. A demoted thread weighs 15 where a `SCHED_IDLE` thread weighs 3, so one sixth
  /// of the CPU is left to the background thread. The same weight as ``background`` where the background has
  /// nice 19 itself.
  case nice19
}

/// What the kernel allows this process to do to its threads' priorities; probed once at the start.
package struct KernelPrivileges: Sendable, Hashable {
  /// The nice value of a thread may be lowered again after it was raised, and `SCHED_IDLE` may be left
  /// (`CAP_SYS_NICE`, or `RLIMIT_NICE` high enough).
  package var canRaise: Bool
  /// `SCHED_RR` may be entered (`CAP_SYS_NICE` or `RLIMIT_RTPRIO`).
  package var canUseRR: Bool
  /// The kernel accepts a slice for `SCHED_OTHER` (Linux 6.12 or later). This needs no privilege in either
  /// direction.
  package var canSetSlice: Bool
  /// The process's own nice value, -20 to 19. Foreground work keeps it, and demotion adds to it.
  package var baseNice: Int

  /// Makes a value from a probe's result, or for a test.
  ///
  /// - Parameter baseNice: clamped to -20 to 19.
  package init(canRaise: Bool, canUseRR: Bool, canSetSlice: Bool, baseNice: Int = 0) {
    self.canRaise = canRaise
    self.canUseRR = canUseRR
    self.canSetSlice = canSetSlice
    self.baseNice = max(-20, min(19, baseNice))
  }
}

/// How the kernel schedules one worker: class, nice value, slice.
///
/// ``init(worker:level:depth:bands:backgroundClass:overlapClass:privileges:)`` is the whole policy. A value:
/// safe to use from any thread.
package struct KernelPriority: Sendable, Hashable {
  /// The kernel's scheduling classes in use.
  package enum Policy: Sendable, Hashable, CaseIterable {
    /// `SCHED_OTHER`; nice and slice apply.
    case normal
    /// `SCHED_IDLE`.
    case idle
    /// `SCHED_RR`, with reset on fork.
    case roundRobin
  }

  /// The scheduling class.
  package let policy: Policy

  /// -20 (first) to 19 (last); 0 unless the class is normal.
  package let nice: Int

  /// The slice in nanoseconds, 100,000 to 100,000,000, or 0 for the kernel's default. Normal class only.
  package let sliceNanoseconds: UInt64

  /// 1 (lowest) to 67 in the round-robin class, else 0.
  package let realTimePriority: Int

  /// The worker cannot return from this priority to its pool's own. So it must end after its current job, and
  /// another worker replaces it.
  package let retires: Bool

  /// The slice of foreground work, 100 µs: the shortest that the kernel accepts, and the soonest to preempt.
  package static let foregroundSliceNanoseconds: UInt64 = 100_000
  /// The slice of demoted foreground work, 20 ms: its virtual deadline lies so late that any waking thread
  /// runs first.
  package static let demotedSliceNanoseconds: UInt64 = 20_000_000
  /// The slice of ``BackgroundClass/nice19LongSlice``, 100 ms: the longest that the kernel accepts.
  package static let backgroundSliceNanoseconds: UInt64 = 100_000_000

  private init(_ policy: Policy, nice: Int = 0, slice: UInt64 = 0, realTime: Int = 0, retires: Bool = false) {
    self.policy = policy
    self.nice = nice
    sliceNanoseconds = slice
    realTimePriority = realTime
    self.retires = retires
  }

  /// Makes a value from its stored parts.
  init(policy: Policy, nice: Int, sliceNanoseconds: UInt64, realTimePriority: Int, retires: Bool) {
    self.init(policy, nice: nice, slice: sliceNanoseconds, realTime: realTimePriority, retires: retires)
  }

  /// The priority of a worker of pool `worker` while it runs work of `level`, lowered by `depth`.
  ///
  /// | level is | with privilege | without |
  /// |---|---|---|
  /// | foreground, depth 0 | nice 0, slice 100 µs | the same |
  /// | foreground, depth 1 | nice 5, slice 20 ms | nice 0, slice 20 ms |
  /// | foreground, depth 2 or more | nice 7, 9 ... 19, slice 20 ms | the same, and the worker retires |
  /// | foreground, in the overlap | the overlap's class, slice 20 ms | the same, and the worker retires |
  /// | background | the background class | the same; a worker of another pool retires |
  /// | real-time, worker too | round-robin by level, or nice -10 + depth, at most -1 | as foreground |
  /// | real-time, another worker | as foreground | as foreground |
  ///
  /// If the process was started with a nice value other than 0, that value is added, within -20 to 19, except
  /// for the background. Slices are omitted where they cannot be set. A background worker that may not be
  /// raised stays in the background class, also for the overlap, and even if its job's app has come to the
  /// foreground: its next job is a background job again. (R-CPU-01, R-CPU-05, R-CPU-06, R-CPU-10)
  ///
  /// - Parameters:
  ///   - worker: the pool of the worker.
  ///   - level: the level of the work, demotion included.
  ///   - depth: the part of the level that is demotion, ``DemotionAccount/depth``; negative counts as 0.
  ///   - bands: the levels of each band.
  ///   - backgroundClass: the class of background work.
  ///   - overlapClass: the class of foreground work in the overlap.
  ///   - privileges: what the kernel allows.
  package init(
    worker: WorkerPool, level: Level, depth: Int, bands: Bands, backgroundClass: BackgroundClass,
    overlapClass: OverlapClass, privileges: KernelPrivileges
  ) {
    let cannotRise = worker == .background && !privileges.canRaise
    switch cannotRise ? .background : bands.pool(of: level) {
    case .background:
      let retires = worker != .background && !privileges.canRaise
      self =
        overlapClass == .nice19 && !cannotRise && bands.isOverlap(level, depth: depth)
        ? KernelPriority(
          .normal, nice: 19, slice: privileges.canSetSlice ? Self.demotedSliceNanoseconds : 0,
          retires: retires)
        : .background(backgroundClass, retires: retires, privileges)
    case .foreground:
      self = .foreground(depth: depth, privileges)
    case .realTime:
      let step = Int(level.rawValue) - Int(bands.realTime.lowerBound.rawValue)
      self =
        worker == .realTime
        ? .realTime(step: step, depth: depth, privileges) : .foreground(depth: depth, privileges)
    }
  }

  /// The priority of the monitor's thread: above the real-time workers. Otherwise those would preempt it, and
  /// it could end their slices only after they have yielded the CPU. Without a real-time pool or foreground,
  /// or without the privilege, it is that of a foreground worker.
  ///
  /// - Parameter aboveForeground: the foreground has a real-time class. Without a real-time pool the monitor
  ///   then stands just above it, since a limit of real-time priorities may be low.
  static func monitor(
    _ pools: Set<WorkerPool>, _ privileges: KernelPrivileges, aboveForeground: Bool = false
  ) -> KernelPriority {
    let steps = aboveForeground ? RealTimeForeground.steps : 0
    guard privileges.canUseRR, aboveForeground || pools.contains(.realTime) else {
      return .foreground(depth: 0, privileges)
    }
    return KernelPriority(.roundRobin, realTime: (pools.contains(.realTime) ? Level.count : 0) + 1 + steps)
  }

  /// Of undemoted foreground work that is known to be long: its slice is that of demoted work, so any waking
  /// thread runs first. It keeps its weight.
  static func longForeground(_ privileges: KernelPrivileges) -> KernelPriority {
    KernelPriority(
      .normal, nice: privileges.baseNice, slice: privileges.canSetSlice ? demotedSliceNanoseconds : 0)
  }

  /// The same with the slice of fresh work, which needs no privilege: no more of the CPU, but sooner. At nice
  /// 19 and with the slice of demoted work a thread may wait for 0.2 s where others keep the CPUs busy.
  /// (docs/decisions/0035)
  func prompt(_ privileges: KernelPrivileges) -> KernelPriority {
    KernelPriority(
      policy, nice: nice, slice: privileges.canSetSlice ? Self.foregroundSliceNanoseconds : 0,
      realTime: realTimePriority, retires: retires)
  }

  /// Of the real-time foreground; `priority` is 1 to 99.
  static func realTimeForeground(_ priority: Int) -> KernelPriority {
    KernelPriority(.roundRobin, realTime: priority)
  }

  /// Raised above the real-time foreground, if it is in the round-robin class.
  var aboveRealTimeForeground: KernelPriority {
    policy == .roundRobin
      ? KernelPriority(.roundRobin, realTime: realTimePriority + RealTimeForeground.steps) : self
  }

  private static func background(
    _ backgroundClass: BackgroundClass, retires: Bool, _ privileges: KernelPrivileges
  ) -> KernelPriority {
    switch backgroundClass {
    case .idle:
      KernelPriority(.idle, retires: retires)
    case .nice19:
      KernelPriority(.normal, nice: 19, retires: retires)
    case .nice19LongSlice:
      KernelPriority(
        .normal, nice: 19, slice: privileges.canSetSlice ? backgroundSliceNanoseconds : 0, retires: retires)
    }
  }

  private static func foreground(depth: Int, _ privileges: KernelPrivileges) -> KernelPriority {
    let slice = depth > 0 ? demotedSliceNanoseconds : foregroundSliceNanoseconds
    // Without privilege the first step must be one that can be undone. Most jobs that exceed a quantum exceed
    // it by little, and retiring a worker for each of them would cost more than they do.
    let usesNice = depth > (privileges.canRaise ? 0 : 1)
    // Nice 1 would still leave a hog 80 % of its weight; nice 5 takes two thirds of it at once.
    let base = privileges.baseNice
    let nice = usesNice ? min(19, base + 3 + 2 * min(depth, 8)) : base
    return KernelPriority(
      .normal, nice: nice, slice: privileges.canSetSlice ? slice : 0,
      retires: nice > base && !privileges.canRaise)
  }

  private static func realTime(step: Int, depth: Int, _ privileges: KernelPrivileges) -> KernelPriority {
    if privileges.canUseRR { return KernelPriority(.roundRobin, realTime: step + 1) }
    guard privileges.canRaise else { return .foreground(depth: depth, privileges) }
    // Demoted or not, real-time work stays ahead of the foreground, unless the foreground itself is at -20.
    let nice = max(-20, privileges.baseNice - 10 + min(max(0, depth), 9))
    return KernelPriority(.normal, nice: nice, slice: privileges.canSetSlice ? foregroundSliceNanoseconds : 0)
  }
}
