import COpportune
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Counts the threads.
enum ThreadCounter: String, CaseIterable, Sendable {
  case user, group

  /// Whether a process can be limited by it here.
  var isThere: Bool { isRoot && (self == .user || TaskGroup.isPossible) }
}

/// A cgroup that limits how many threads there are, v1 or v2. The test makes it, and the process that it
/// starts enters it.
private struct TaskGroup {
  private static let above =
    access("/sys/fs/cgroup/pids", F_OK) == 0 ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup"
  let folder: String

  init(of process: pid_t) { folder = "\(Self.above)/opportune-test-\(process)" }

  func make() -> Bool {
    guard mkdir(folder, 0o755) == 0 else { return false }
    if access(folder + "/pids.max", W_OK) == 0 { return true }
    remove()
    return false
  }

  func remove() { rmdir(folder) }

  func enter(allowing count: Int) -> Bool {
    write("\(count)", to: "pids.max") && write("\(getpid())", to: "cgroup.procs")
  }

  private func write(_ text: String, to file: String) -> Bool {
    guard let stream = fopen("\(folder)/\(file)", "w") else { return false }
    let isWritten = fputs(text, stream) >= 0
    return fclose(stream) == 0 && isWritten
  }

  static let isPossible: Bool = {
    let group = TaskGroup(of: getpid())
    defer { group.remove() }
    return isRoot && group.make()
  }()
}

/// From here on this process has so many threads at most: as a user whom nobody else is, or in the group of
/// the process that started it.
private func allowThreads(_ count: Int, by counter: ThreadCounter) {
  switch counter {
  case .group:
    require(TaskGroup(of: getppid()).enter(allowing: count), "the group can be entered")
  case .user:
    let user = uid_t(200_000 + getpid() % 100_000)
    require(setgroups(0, nil) == 0 && setgid(user) == 0 && setuid(user) == 0, "it can become another user")
    var limit = rlimit(rlim_cur: rlim_t(count), rlim_max: rlim_t(count))
    require(
      setrlimit(__rlimit_resource_t(__RLIMIT_NPROC.rawValue), &limit) == 0, "its threads can be limited")
  }
  let limits = ThreadLimits.read(everybody: true)
  let limit = counter == .user ? limits.user : limits.group
  require(limit?.most == count && (1...count).contains(limit?.used ?? 0), "the limit is read: \(limits)")
}

/// In a process of its own: hogs in both bands, and short jobs one after the other. Ends it.
private func shortJobsPassHogs(by counter: ThreadCounter) async throws {
  allowThreads(18, by: counter)
  let said = LogLines()
  let scheduler = try Scheduler(logger: said.logger)
  let ui = try scheduler.makeApp(named: "ui")
  let indexer = try scheduler.makeApp(named: "indexer", band: .background)
  let (stop, ended) = (Flag(), Tally())
  // Each link is a hog, and what it submits is known for one.
  @Sendable func chain(_ app: App, _ ended: Tally) {
    do {
      try app.submit {
        // In pieces: where something else fills the machine, the background's 25 ms take minutes.
        for _ in 0..<25 where !stop.isUp { spinCPU(milliseconds: 1) }
        ended.increment()
        if !stop.isUp { chain(app, ended) }
      }
    } catch {
      // One that asked before the end was said finds the scheduler shut down.
      require(stop.isUp, "\(error)")
    }
  }
  for _ in 0..<12 {
    chain(ui, ended)
    chain(indexer, Tally())
  }
  require(spin { ended.count >= 24 }, "the hogs have shown what they are")
  let passed = Tally()
  await onThread {
    for _ in 0..<200 {
      let (begun, before) = (Flag(), ended.count)
      do {
        try ui.submit {
          passed.add(ended.count - before)
          begun.raise()
        }
      } catch { require(false, "\(error)") }
      require(begun.spin(), "a short job begins")
    }
  }
  stop.raise()
  require(passed.count < 200, "200 short jobs were passed by \(passed.count) hogs")
  let warning = said.lines.first { $0.message.hasPrefix("few threads are allowed") }
  let name = counter == .user ? "18 by RLIMIT_NPROC" : "18 by the cgroup's pids.max"
  require(warning?.level == .warning && warning?.metadata["limits"]?.hasPrefix(name) == true, "\(said.lines)")
  try await scheduler.shutdown(within: .seconds(60))
}

@Suite(.bounded, .timeLimit(.minutes(3)), .serialized) struct FewThreadsTests {
  // R-CPU-02 R-SYS-03
  @Test(.enabled(if: ThreadCounter.user.isThere, "only root can become another user"))
  func shortJobsPassHogsWhereAUserHasFewThreads() async {
    await #expect(processExitsWith: .exitCode(7)) {
      try await shortJobsPassHogs(by: .user)
      exit(7)
    }
  }

  // R-CPU-02 R-SYS-03
  @Test(.enabled(if: ThreadCounter.group.isThere, "needs a cgroup that limits threads, which root may make"))
  func shortJobsPassHogsWhereACgroupHasFewThreads() async {
    let group = TaskGroup(of: getpid())
    #expect(group.make())
    defer { group.remove() }
    await #expect(processExitsWith: .exitCode(7)) {
      try await shortJobsPassHogs(by: .group)
      exit(7)
    }
  }

  // R-CPU-02
  /// What is blocked in the background has taken threads by the time that they become few; they come back as
  /// it ends.
  @Test func theBackgroundGivesThreadsBack() async throws {
    let room = Atomic<Int>(1000)
    let given = Tally()
    let (ended, begun, gate) = (Record<Bool>(), Record<Int>(), DispatchSemaphore(value: 0))
    let engine = try Engine(
      SchedulerConfiguration(workers: 1) { $0.backgroundClass = .nice19 }, .silent,
      startThread: { name, stack, body, context in
        guard name.contains("-bg") else { return opp_thread_start(name, stack, body, context) }
        given.increment()
        return CountedThread.start(name, stack, body, context) { ended.add(true) }
      },
      readThreadLimits: {
        ThreadLimits(user: ThreadLimits.Limit(most: room.load(ordering: .relaxed), used: 0))
      })
    let back = try engine.makeApp(named: "back", band: .background)
    let front = try engine.makeApp(named: "front", band: .foreground)
    for number in 0..<10 {
      try back.submit {
        begun.add(number)
        gate.wait()
      }
    }
    _ = await begun.reaching(10)
    #expect(given.count >= 10)
    room.store(0, ordering: .relaxed)
    for _ in 0..<10 { gate.signal() }
    // The monitor looks once a second, while a worker is inside a job. A share of 16 threads or fewer is 5 at
    // most.
    let haveEnded = await front.task { spin { ended.count >= given.count - 5 } }.value
    #expect(haveEnded, "\(ended.count) of \(given.count) workers of the background ended")
    for number in 0..<10 { #expect(await back.task { number }.value == number) }
    await engine.end()
  }

  // R-CPU-02
  @Test(arguments: [1, 2, 16, 64], [0, 1]) func sharesLeaveTheForegroundMost(width: Int, more: Int) {
    let pools: Set<WorkerPool> = more == 0 ? [.foreground, .background] : Set(WorkerPool.allCases)
    var before: [WorkerPool: Int] = [:]
    for total in pools.count...2000 {
      let shares = ThreadShares(of: total, among: pools, width: width).workers
      #expect(
        shares.values.reduce(0, +) == total && shares.values.allSatisfy { $0 >= 1 }, "\(total): \(shares)")
      for pool in pools { #expect(shares[pool, default: 0] <= shares[.foreground, default: 0]) }
      #expect(shares[.background, default: 0] >= before[.background, default: 0], "more threads are no fewer")
      before = shares
    }
    let few = ThreadShares(of: 9, among: [.foreground, .background], width: 2).workers
    #expect(few == [.foreground: 6, .background: 3])
    let none = ThreadShares(of: 0, among: [.foreground, .background], width: 2).workers
    #expect(none == [.foreground: 1, .background: 1], "each pool has one, or the scheduler does not start")
  }

  // R-CPU-02 R-CPU-06
  @Test(arguments: [1, 2, 16, 64]) func knownHogsLeaveAWorkerForTheOthers(width: Int) {
    let configured = 4 * width
    for workers in 2...2000 {
      let limit = ThreadShares.demotedLimit(workers: workers, width: width, configured: configured)
      let tokens = ThreadShares.tokens(workers: workers, width: width)
      #expect((1...configured).contains(limit) && limit <= workers / 2, "\(limit) of \(workers)")
      #expect((1...width).contains(tokens) && tokens < workers, "\(tokens) of \(workers)")
    }
    #expect(ThreadShares.demotedLimit(workers: 1, width: width, configured: configured) == 1)
    #expect(ThreadShares.demotedLimit(workers: .max, width: width, configured: configured) == configured)
    #expect(ThreadShares.tokens(workers: .max, width: width) == width)
  }

  @Test func theProgramHasItsPart() {
    #expect(ThreadShares.total(room: 12, live: 0) == 9)
    #expect(ThreadShares.total(room: 6, live: 6) == 9, "the same once half of them run")
    #expect(ThreadShares.total(room: 4, live: 0) == 2)
    #expect(ThreadShares.total(room: 0, live: 1) == 0)
  }

  @Test func theTighterLimitIsTheRoom() {
    var limits = ThreadLimits()
    #expect(limits.room == nil && limits.description == "none")
    limits.user = .init(most: 18, used: 5)
    #expect(limits.room == 13 && limits.description == "18 by RLIMIT_NPROC, 5 of them used")
    limits.group = .init(most: 100, used: 120)
    #expect(limits.room == 0)
  }
}
