import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Changes all threads of the process to an ordinary user, irrevocably.
private func dropPrivileges() {
  require(setgroups(0, nil) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "privileges can be dropped")
  var none = rlimit(rlim_cur: 0, rlim_max: 0)
  for limit in [__RLIMIT_NICE, __RLIMIT_RTPRIO] { _ = setrlimit(__rlimit_resource_t(limit.rawValue), &none) }
  require(!KernelPrivileges.probe().canRaise, "an ordinary user may not raise")
}

/// Policy and nice value of the calling thread.
private func ownClass() -> [Int32] {
  [sched_getscheduler(0), getpriority(__priority_which_t(PRIO_PROCESS.rawValue), UInt32(opp_thread_id()))]
}

// The C library's module leaves these out.
private typealias AffinityCall = @convention(c) (Int32, Int, UnsafeMutableRawPointer) -> Int32
private func call(_ name: String) -> AffinityCall? {
  dlsym(nil, name).map { unsafeBitCast($0, to: AffinityCall.self) }
}

/// The CPUs of the calling thread, a bit each.
private func affinity() -> [UInt64] {
  var mask = [UInt64](repeating: 0, count: 128)
  let isRead = mask.withUnsafeMutableBytes { bytes in
    bytes.baseAddress.flatMap { call("sched_getaffinity")?(0, bytes.count, $0) } == 0
  }
  return isRead ? mask : []
}

/// A thread that has ended meanwhile is left out.
private func setAffinity(of thread: Int32, to mask: [UInt64]) {
  var mask = mask
  mask.withUnsafeMutableBytes { bytes in
    _ = bytes.baseAddress.flatMap { call("sched_setaffinity")?(thread, bytes.count, $0) }
  }
}

/// To nice 19, which is open to all.
private func lowerCallingThread() -> Bool {
  var lowest = opp_sched_params()
  (lowest.policy, lowest.nice) = (OPP_CLASS_NORMAL, 19)
  return opp_thread_set_sched(0, &lowest) == 0
}

/// A cgroup that can limit the CPU time of the calling process, v1 or v2; nil where it must not be made.
private final class LimitedGroup {
  private let folder: String
  private let isUnified: Bool

  init?() {
    isUnified = access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK) != 0
    folder = "/sys/fs/cgroup/\(isUnified ? "" : "cpu/")opportune-test-\(getpid())"
    guard mkdir(folder, 0o755) == 0 else { return nil }
    guard access("\(folder)/\(isUnified ? "cpu.max" : "cpu.cfs_quota_us")", W_OK) == 0 else {
      rmdir(folder)
      return nil
    }
  }

  func write(_ text: String, to file: String) -> Bool {
    guard let stream = fopen(file, "w") else { return false }
    let isWritten = fputs(text, stream) >= 0
    return fclose(stream) == 0 && isWritten
  }

  /// nil is no limit. The period is a tenth of a second in either.
  func limit(cpus: Int?) -> Bool {
    let quota = cpus.map { "\($0 * 100_000)" }
    return isUnified
      ? write("\(quota ?? "max") 100000", to: folder + "/cpu.max")
      : write(quota ?? "-1", to: folder + "/cpu.cfs_quota_us")
  }

  func enter() -> Bool { write("\(getpid())", to: folder + "/cgroup.procs") }

  /// Back to the one above, which is the top.
  func leave() {
    _ = write("\(getpid())", to: (folder as NSString).deletingLastPathComponent + "/cgroup.procs")
    rmdir(folder)
  }

  /// Whether the tests' own process could be limited; leaves nothing behind.
  static let isPossible: Bool = {
    guard isRoot, Topology().cpuCount > 1, Topology().quotaMilli == 0, let group = LimitedGroup() else {
      return false
    }
    group.leave()
    return true
  }()
}

/// What changes a whole process, each in one of its own.
@Suite(.bounded, .timeLimit(.minutes(3)), .serialized) struct ProcessTests {
  // R-SYS-03
  @Test(
    .enabled(
      if: LimitedGroup.isPossible, "two CPUs, and a cgroup with a limit of CPU time that root may make"))
  func aLimitOfTheCgroupIsFollowed() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let all = Topology().width
      guard let group = LimitedGroup() else { return }
      let isInside = group.enter()
      let scheduler = try Scheduler()
      let app = try scheduler.makeApp(named: "app", band: .background)
      var widths = [scheduler.width]
      for cpus in [1, nil] {
        guard group.limit(cpus: cpus) else { continue }
        // The monitor looks once a second, while a worker is inside a job.
        let before = widths.last
        widths.append(
          await app.task {
            let end = opp_now_ns() + 60_000_000_000
            while scheduler.width == before, opp_now_ns() < end { opp_pause() }
            return scheduler.width
          }.value)
      }
      group.leave()
      require(isInside, "the process is inside the group")
      require(widths == [all, 1, all], "the width follows from \(all) to 1 and back, not \(widths)")
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CPU-10 R-CPU-01
  @Test(.enabled(if: isRoot, "only root can become an ordinary user"))
  func anOrdinaryUserIsRaisedWithTheNextJob() async {
    await #expect(processExitsWith: .exitCode(7)) {
      dropPrivileges()
      let (scheduler, app) = try makeApp(named: "app", band: .background, workers: 1)
      let classes = Record<[Int32]>()
      let release = Flag()
      try app.submit {
        classes.add(ownClass())
        release.spin()
        classes.add(ownClass())
      }
      _ = await classes.reaching(1)
      try app.setBand(.foreground)
      // The job that runs goes on as it is; the next is a foreground job, and does not wait for it.
      let next = await app.task { ownClass() }.value
      require(next == [0, processNice], "the next job runs in the foreground's class, not in \(next)")
      release.raise()
      let seen = await classes.reaching(2)
      require(
        seen.map { $0[0] } == [schedIdle, schedIdle], "the running job stays in the background's, not \(seen)"
      )
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CPU-10 R-CPU-01
  @Test(.enabled(if: isRoot, "only root can become an ordinary user"))
  func anOrdinaryUserIsLoweredAtOnceAndReplaced() async {
    await #expect(processExitsWith: .exitCode(7)) {
      dropPrivileges()
      let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(500)))
      let other = try scheduler.makeApp(named: "other")
      for _ in 0..<20 {
        let app = try scheduler.makeApp(named: "app")
        let lowered = Record<Bool>()
        let release = Flag()
        try app.submit {
          lowered.add(false)
          require(spin { sched_getscheduler(0) == schedIdle }, "the running job is lowered")
          lowered.add(true)
          release.spin()
        }
        _ = await lowered.reaching(1)
        try app.setBand(.background)
        _ = await lowered.reaching(2)
        let substitute = await other.task { ownClass() }.value
        require(
          substitute == [0, processNice], "the substitute runs in the pool's class, not in \(substitute)")
        release.raise()
        // The lowered thread cannot come back, so it must not take foreground work any more.
        for _ in 0..<50 {
          let seen = await other.task { ownClass() }.value
          require(seen == [0, processNice], "a foreground job ran in \(seen)")
        }
      }
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CPU-06 R-CPU-02
  @Test(.enabled(if: isRoot, "only root can become an ordinary user"))
  func anOrdinaryUsersHogsLeaveFreshWorkAlone()
    async
  {
    await #expect(processExitsWith: .exitCode(7)) {
      dropPrivileges()
      let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(5)))
      let app = try scheduler.makeApp(named: "app")
      let other = try scheduler.makeApp(named: "other")
      let ended = Atomic<Int>(0)
      await onThread {
        for _ in 0..<100 {
          do {
            try app.submit {
              spinCPU(milliseconds: 20)
              ended.add(1, ordering: .relaxed)
            }
          } catch { require(false, "\(error)") }
        }
      }
      // A job that took a quantum or longer, by the clock, may have been lowered, and its thread's next
      // answers for it: the sanitizer or the machine's host may have had the CPU meanwhile, which counts as
      // the job's.
      var answering: Set<UInt64> = []
      while ended.load(ordering: .relaxed) < 100 {
        let (thread, start) = (opp_thread_number(), ContinuousClock.now)
        let seen = await other.task { ownClass() }.value
        let took = ContinuousClock.now - start
        let isSlow = took >= .milliseconds(5)
        require(
          seen == [0, processNice] || isSlow || answering.contains(thread),
          "a fresh job of \(took) ran in \(seen)")
        if isSlow { answering.insert(thread) } else { answering.remove(thread) }
      }
      require(app.statistics.demotions >= 100, "hogs are demoted")
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CPU-01
  @Test(
    .enabled(if: isRoot, "only root can become an ordinary user"),
    .enabled(if: KernelPrivileges.probe().canSetSlice, "the kernel takes no slices"))
  func aProgramUnderNiceHasItsForegroundSlice() async {
    await #expect(processExitsWith: .exitCode(7)) {
      dropPrivileges()
      // The thread that makes the scheduler, whose nice value the workers have and may not leave.
      require(lowerCallingThread(), "nice 19 is open to all")
      let (scheduler, app) = try makeApp(named: "app", workers: 1)
      let seen = await app.task {
        var own = opp_sched_params()
        require(opp_thread_get_sched(0, &own) == 0, "the own class can be read")
        return [UInt64(own.nice), own.slice_ns]
      }.value
      require(seen == [19, 100_000], "a foreground job's nice value and slice are \(seen)")
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-SYS-03
  @Test(.enabled(if: Topology().cpuCount > 1, "needs two CPUs")) func widthFollowsTheAffinity() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let before = Topology().width
      let all = affinity()
      guard let first = all.firstIndex(where: { $0 != 0 }) else {
        return require(false, "affinity can be read")
      }
      var one = [UInt64](repeating: 0, count: all.count)
      one[first] = all[first] & ~(all[first] &- 1)
      let scheduler = try Scheduler()
      let app = try scheduler.makeApp(named: "app")
      require(scheduler.width == before, "it begins with all")
      let release = Flag()
      try app.submit { release.spin() }
      for (set, width) in [(one, 1), (all, before)] {
        // As `taskset -a -p` does: every thread.
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
          setAffinity(of: Int32(thread) ?? 0, to: set)
        }
        // While something runs the monitor looks once a second.
        require(spin { scheduler.width == width }, "the width follows to \(width)")
        for number in 0..<20 { require(await app.task { number }.value == number, "work goes on") }
      }
      release.raise()
      try await scheduler.shutdown()
      exit(7)
    }
  }
}
