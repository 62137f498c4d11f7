import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

private let quantum: UInt64 = 10_000_000
private let delay: UInt64 = 500_000

/// A pool of workers that answer as told, all alike, and note what they are asked. Time is virtual.
private final class Scripted: PolicedPool {
  typealias Failure = Never

  struct Answering: WorkerSight {
    let pool: Scripted
    let seen: PoolPolicy.Seen
    var isSuspected: Bool { pool.note("suspected", pool.isSuspectedNow) }
    var cpuTime: UInt64? { pool.note("clock", pool.cpu) }
    var usage: (cpu: UInt64, wait: UInt64)? { pool.note("usage", pool.cpu.map { ($0, pool.wait) }) }
    var switches: Int64 { pool.note("switches", pool.switchesNow) }
    var bandOfApp: Band? { pool.bandOfApp }
    func canStand(in band: Band) -> Bool { pool.canRaise || band == .background }
    var kind: LockWatch.Kinds { seen.job.map { .init($0.band, depth: seen.depth) } ?? [] }
    func isOfAnotherPool(in band: Band) -> Bool {
      band == .background ? pool.poolOfBackground != pool.rules.pool : pool.rules.pool == .background
    }
    func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int { max(first, pool.depthDue) }
    var blocking: PoolPolicy.Blocking { pool.note("blocking", pool.blockingNow) }
    var replacedOnMap: Int {
      pool.note("map", pool.notes.count { $0.key != seen.slot && $0.value.isReplacedOnMap(job: 1) })
    }
  }

  var policy = PoolPolicy()
  var rules = PoolPolicy.Rules(
    pool: .foreground, width: 2, quantum: quantum, spareDelay: delay, offCPUShare: 0.05)
  var now: UInt64 = 1_000_000_000
  var seen: [PoolPolicy.Seen] = []
  private var notes: [Int: PoolPolicy.Notes] = [:]
  /// Steps that are refused; and all that were asked for.
  var refuses: (PoolPolicy.Step) -> Bool = { _ in false }
  private var steps: [PoolPolicy.Step] = []

  var isSuspectedNow = false
  var cpu: UInt64? = 0
  var blockingNow = PoolPolicy.Blocking.unknown
  var demotedCount = 0
  var canRaise = true
  var progress: UInt64 = 0
  var ordinaryJobs: (count: UInt64, time: UInt64) = (0, 0)
  var hasRoomForKnown = true
  var hasRoomForLoweredOnce = true
  var cpuOfWorkers: UInt64 = 0
  var somethingWaits = false
  var freshWaits = true
  var demotedWaits = false
  var loweredOnceWaits = false
  var wait: UInt64 = 0
  var switchesNow: Int64 = 0
  var depthDue = 0
  var bandOfApp: Band? = .foreground
  var poolOfBackground = WorkerPool.background
  private(set) var asked: [String] = []

  var workerCount: Int { max(2, seen.count) }
  var slots: Range<Int> { seen.indices }
  func worker(_ slot: Int) -> Answering? {
    Answering(pool: self, seen: notes(of: slot).asOfNow(seen[slot]))
  }
  func notes(of slot: Int) -> PoolPolicy.Notes { notes[slot] ?? PoolPolicy.Notes() }
  func setNotes(of slot: Int, to notes: PoolPolicy.Notes) { self.notes[slot] = notes }

  func carryOut(_ step: PoolPolicy.Step, _ worker: Answering?) -> Bool {
    #expect(step.slot == worker?.seen.slot)
    steps.append(step)
    return !refuses(step)
  }

  private func note<Answer>(_ question: String, _ answer: Answer) -> Answer {
    asked.append(question)
    return answer
  }

  func forgetQuestions() { asked = [] }

  /// A worker; `age`: how long its job has run.
  func member(
    _ slot: Int = 0, _ stance: PoolPolicy.Stance = .running, depth: Int = 0, for age: UInt64? = 2_000_000,
    band: Band = .foreground, isInClass: Bool = false
  ) -> PoolPolicy.Seen {
    PoolPolicy.Seen(
      slot: slot, stance: stance, depth: depth,
      job: age.map {
        PoolPolicy.Job(sequence: 1, band: band, start: now - $0, cpuBefore: 0, isInClass: isInClass)
      })
  }

  private func steps(_ look: (inout Scripted) -> Void) -> [PoolPolicy.Step] {
    steps = []
    var pool = self
    look(&pool)
    return steps
  }

  /// One look at a stall. Returns the steps about workers, and those at the end.
  func look(_ workers: PoolPolicy.Seen...) -> (steps: [PoolPolicy.Step], end: [PoolPolicy.Step]) {
    seen = workers
    let all = steps { $0.lookAtStall(now: now) }
    let end = all.firstIndex { $0.slot == nil } ?? all.endIndex
    // The spare worker that sinks is the last of those about workers.
    let isSinking = end > 0 && all[end - 1].slot.map { workers[$0].stance == .spare } ?? false
    return (Array(all[..<(isSinking ? end - 1 : end)]), Array(all[(isSinking ? end - 1 : end)...]))
  }

  /// One look at running jobs, without what is about the pool.
  func jobs(_ workers: PoolPolicy.Seen...) -> [PoolPolicy.Step] {
    seen = workers
    return steps { _ = $0.lookAtJobs(now: now) }.filter { $0.slot != nil }
  }

  /// The same, and only that.
  func pool() -> [PoolPolicy.Step] {
    seen = []
    return steps { _ = $0.lookAtJobs(now: now) }
  }

  func bands(_ worker: PoolPolicy.Seen) -> [PoolPolicy.Step] {
    seen = [worker]
    return steps { $0.followBands(now: now) }
  }

  /// - Parameter job: the one for which work of the band waits.
  func raise(_ worker: PoolPolicy.Seen, job: UInt64 = 1, to band: Band) -> [PoolPolicy.Step] {
    seen = [worker]
    return steps { $0.raise(0, job: job, to: band, now: now) }
  }
}

private let calls: [PoolPolicy.Step] = [.setStalled(true), .lookAtSpare, .callSpare, .watchAgain]
private let flows: [PoolPolicy.Step] = [.setStalled(false), .lookAtSpare, .watchAgain]

@Suite(.bounded) struct PoolPolicyTests {
  // R-CPU-02
  @Test func theSpareIsCalledOnceAllAreInsideForLong() {
    let pool = Scripted()
    let long = pool.member(0)
    #expect(pool.look(long, pool.member(1, for: delay - 1)).end == flows, "one is new")
    #expect(pool.look(long, pool.member(1, for: nil)).end == flows, "one is between two")
    let stalled = pool.look(long, pool.member(1, for: delay))
    #expect(stalled.steps == [] && stalled.end == calls)
    // Who is beside the tokens is not looked at, and a spare worker that has not begun hides no stall.
    pool.forgetQuestions()
    let beside = pool.look(pool.member(0, .sunk), pool.member(1, .spare, for: nil))
    #expect(beside.end == calls && pool.asked == [])
    pool.freshWaits = false
    #expect(pool.look(long).end == [.setStalled(false)] && pool.asked == [], "nothing waits")
    (pool.freshWaits, pool.rules.pool) = (true, .background)
    #expect(pool.look(long).end == flows, "the background has no spare worker")
  }

  // R-CPU-02
  @Test func whoHasHardlyRunIsAskedForItsWaitAndReplaced() {
    let pool = Scripted()
    pool.blockingNow = .blocked
    #expect(pool.look(pool.member()).steps == [])
    #expect(pool.asked == ["clock"], "one look shows no difference")
    pool.now += 500_000
    let replaced = pool.look(pool.member(for: 2_500_000))
    #expect(replaced.steps == [.replaceBlocked(0)] && replaced.end == flows)
    // Where nobody can take its place the pool stands still.
    pool.now += 500_000
    pool.refuses = { $0 == .replaceBlocked(0) }
    let refused = pool.look(pool.member(for: 3_000_000))
    #expect(refused.steps == [.replaceBlocked(0)] && refused.end == calls)
    // Whoever runs a twentieth of the time is not asked.
    pool.forgetQuestions()
    (pool.cpu, pool.now) = (25_000, pool.now + 500_000)
    #expect(pool.look(pool.member(for: 3_500_000)).steps == [] && !pool.asked.contains("blocking"))
  }

  // R-CPU-02
  @Test func whoWaitsForACPUIsAskedOnce() {
    let pool = Scripted()
    pool.blockingNow = .cpu
    for look in 0..<5 {
      #expect(pool.look(pool.member(for: 2_000_000 + UInt64(look) * 500_000)).steps == [])
      pool.now += 500_000
    }
    #expect(pool.asked.count { $0 == "blocking" } == 1)
    // Once it has had the CPU it may have blocked.
    (pool.cpu, pool.blockingNow) = (1000, .blocked)
    #expect(pool.look(pool.member(for: 5_000_000)).steps == [.replaceBlocked(0)])
  }

  // R-CPU-02
  @Test func fewWaitersForTheMemoryMapAreReplaced() {
    let pool = Scripted()
    pool.blockingNow = .memoryMap
    func look(_ age: UInt64) -> [PoolPolicy.Step] {
      let all = (0..<4).map { pool.member($0, for: age) }
      return pool.look(all[0], all[1], all[2], all[3]).steps
    }
    _ = look(2_000_000)
    pool.now += 500_000
    #expect(look(2_500_000) == [.replaceBlocked(0), .replaceBlocked(1)], "as many as there are CPUs")
    pool.rules.pool = .background
    pool.now += 500_000
    #expect(look(3_000_000) == [])
  }

  // R-CPU-02
  @Test func aFreshJobYieldsAfterAMillisecond() {
    let pool = Scripted()
    pool.cpu = 999_999
    #expect(pool.look(pool.member()).steps == [])
    pool.cpu = 1_000_000
    #expect(pool.look(pool.member(isInClass: true)).steps == [])
    #expect(pool.look(pool.member(band: .realTime)).steps == [])
    #expect(pool.look(pool.member(band: .background)).steps == [])
    let yields = pool.look(pool.member())
    #expect(yields.steps == [.yield(0)] && yields.end == flows)
    pool.refuses = { $0 == .yield(0) }
    let refused = pool.look(pool.member())
    #expect(refused.steps == [.yield(0)] && refused.end == calls)
    #expect(!pool.asked.contains("blocking"))
  }

  // R-CPU-06
  @Test func aSuspectIsLoweredEarlyAndSunkIfItKeepsItsToken() {
    let pool = Scripted()
    (pool.cpu, pool.isSuspectedNow) = (delay - 1, true)
    #expect(pool.look(pool.member()).steps == [])
    pool.cpu = delay
    #expect(pool.look(pool.member()).steps == [.lower(0, from: 0, to: 1)])
    pool.refuses = { $0.slot != nil }
    let refused = pool.look(pool.member())
    #expect(refused.steps == [.lower(0, from: 0, to: 1), .sink(0)] && refused.end == calls)
  }

  // R-CPU-06
  @Test func hogsBeyondTheLimitGoOnceTheyStarveThePool() {
    let pool = Scripted()
    (pool.cpu, pool.demotedCount) = (50_000_000, 16)
    pool.refuses = { $0 == .sink(0) }
    func look() -> [PoolPolicy.Step] {
      pool.now += quantum
      return pool.look(pool.member(depth: 1, for: 60_000_000)).steps
    }
    #expect(look() == [.sink(0)], "since when is not known yet")
    pool.cpuOfWorkers = 4 * quantum * 18
    #expect(look() == [.sink(0)])
    pool.cpuOfWorkers += 1
    #expect(look() == [.sink(0), .sinkStarving(0)])
    pool.progress += 1
    #expect(look() == [.sink(0)], "a job has ended")
  }

  // R-CPU-06
  @Test func aSpareThatIsInsideForAQuantumBecomesAHog() {
    let pool = Scripted()
    func look(_ age: UInt64) -> [PoolPolicy.Step] {
      pool.now += 1_000_000
      return pool.look(pool.member(0, for: 20_000_000), pool.member(1, .spare, for: age)).end
    }
    #expect(look(quantum - 1) == calls)
    #expect(look(quantum) == [.sink(1)] + calls)
    pool.progress += 1
    #expect(look(quantum) == calls, "a job has begun or ended")
  }

  // R-CPU-02
  @Test func aDemotedWorkerThatIsBlockedMakesRoom() {
    let pool = Scripted()
    (pool.blockingNow, pool.demotedWaits) = (.blocked, true)
    func steps(_ stance: PoolPolicy.Stance) -> [PoolPolicy.Step] {
      pool.now += 1_000_000
      return pool.jobs(pool.member(0, stance, depth: 1, for: 20_000_000, band: .background))
    }
    #expect(steps(.demoted) == [] && pool.asked == [], "there is room")
    pool.hasRoomForKnown = false
    #expect(steps(.demoted) == [] && steps(.demoted) == [.uncount(0)] && steps(.sunk) == [.uncount(0)])
    #expect(steps(.running) == [.replaceBlocked(0)])
    #expect(steps(.handedOff) == [] && steps(.spare) == [])
    pool.demotedWaits = false
    #expect(steps(.sunk) == [], "nothing waits")
    (pool.demotedWaits, pool.cpu) = (true, nil)
    #expect(steps(.sunk) == [], "a clock that cannot be read")
  }

  // R-CPU-02 R-CPU-06
  @Test func thereIsMoreRoomForWhatWasLoweredOnce() {
    let pool = Scripted()
    (pool.loweredOnceWaits, pool.cpuOfWorkers) = (true, 1000)
    #expect(pool.pool() == [], "there is room")
    pool.hasRoomForLoweredOnce = false
    #expect(pool.pool() == [.addRoom])
    pool.cpuOfWorkers += 4 * quantum - 1
    #expect(pool.pool() == [])
    pool.cpuOfWorkers += 1
    pool.refuses = { $0 == .addRoom }
    #expect(pool.pool() == [.addRoom] && pool.pool() == [.addRoom], "it was refused")
    // Workers have ended, and their time with them.
    (pool.refuses, pool.cpuOfWorkers) = ({ _ in false }, 500)
    #expect(pool.pool() == [])
    pool.cpuOfWorkers += 4 * quantum
    #expect(pool.pool() == [.addRoom])
    pool.loweredOnceWaits = false
    #expect(pool.pool() == [])
  }

  // R-CPU-02
  @Test func aTrialEndsOnceTheJobIsLong() {
    let pool = Scripted()
    pool.freshWaits = false
    func steps(_ age: UInt64? = 2_000_000, isOnTrial: Bool = true) -> [PoolPolicy.Step] {
      var seen = pool.member(for: age)
      seen.isOnTrial = isOnTrial
      return pool.look(seen).steps + pool.look(seen).end.filter { $0 == .watchAgain }
    }
    #expect(steps(isOnTrial: false) == [] && pool.asked == [])
    #expect(steps() == [.watchAgain])
    pool.cpu = delay
    #expect(steps() == [.endTrial(0)])
    #expect(steps(nil) == [.watchAgain])
    // The pool's jobs ordinarily take 2 ms: twice that is no hog yet.
    (pool.ordinaryJobs, pool.freshWaits) = ((16, 32_000_000), true)
    _ = pool.look()
    #expect(pool.policy.spareDelay == 4_000_000)
    pool.freshWaits = false
    #expect(steps() == [.watchAgain])
  }

  // R-CPU-02
  @Test func manyShortJobsAreAFlood() {
    let pool = Scripted()
    func isFlooded(_ count: UInt64, of length: UInt64, in time: UInt64 = 10_000_000) -> Bool {
      let was = pool.policy.isFlooded
      pool.ordinaryJobs = (pool.ordinaryJobs.count + count, pool.ordinaryJobs.time + count * length)
      pool.now += time
      let steps = pool.pool().filter { [.setFlooded(true), .setFlooded(false)].contains($0) }
      #expect(steps == (pool.policy.isFlooded == was ? [] : [.setFlooded(!was)]), "it says so once")
      return pool.policy.isFlooded
    }
    #expect(!isFlooded(5000, of: 1000), "since when is not known")
    #expect(isFlooded(1000, of: 5000) && isFlooded(5000, of: 1000))
    #expect(!isFlooded(1000, of: 5001) && !isFlooded(999, of: 1000))
    #expect(!isFlooded(0, of: 0))
    #expect(isFlooded(1000, of: 1000))
    // One that takes a quantum is among them.
    pool.ordinaryJobs.time += 10_000_000
    #expect(!isFlooded(1000, of: 1000))
    // A worker has ended.
    pool.ordinaryJobs = (10, 10)
    #expect(!isFlooded(0, of: 0) && isFlooded(2000, of: 1000))
    pool.rules.pool = .background
    #expect(isFlooded(0, of: 0), "nobody asks in the background")
  }

  // R-CPU-06
  @Test func aQuantumWithoutBlockingLowers() {
    let pool = Scripted()
    func steps(_ stance: PoolPolicy.Stance = .running, cpu: UInt64) -> [PoolPolicy.Step] {
      pool.forgetQuestions()
      pool.cpu = cpu
      var seen = pool.member(0, stance, for: nil)
      seen.job = PoolPolicy.Job(sequence: 1, band: .foreground, start: 1_000_000_000, cpuBefore: 0)
      pool.now = 1_000_000_000 + cpu
      return pool.jobs(seen)
    }
    pool.depthDue = 1
    #expect(
      steps(cpu: 1_000_000) == [] && pool.asked == ["clock", "usage"], "the first look finds the zero")
    #expect(steps(cpu: quantum - 1) == [] && pool.asked == ["clock"])
    #expect(steps(cpu: quantum) == [.lower(0, from: 0, to: 1)])
    #expect(steps(cpu: quantum + 1) == [], "it is lowered")
    #expect(steps(.handedOff, cpu: quantum + 2) == [.count(0)], "it had blocked before")
    pool.depthDue = 2
    #expect(steps(.sunk, cpu: 2 * quantum) == [.lower(0, from: 1, to: 2)])
    _ = pool.jobs(pool.member(0, for: nil))
    pool.depthDue = 1
    #expect(steps(cpu: 3 * quantum).last == .lower(0, from: 0, to: 1), "another job")
    pool.cpu = nil
    #expect(pool.jobs(pool.member()) == [])
    #expect(pool.jobs(pool.member(band: .background)) == [])
  }

  // R-CPU-06
  /// A hog of the foreground that has sunk into the background's pool keeps no run token from its work.
  @Test func aHogLeavesTheBackgroundsTokens() {
    let pool = Scripted()
    (pool.rules.pool, pool.freshWaits, pool.cpu, pool.depthDue) = (.background, false, quantum, 1)
    #expect(pool.jobs(pool.member(for: quantum)) == [.lower(0, from: 0, to: 1)], "nothing waits")
    pool.somethingWaits = true
    #expect(pool.jobs(pool.member(for: quantum)) == [.sink(0)])
  }

  // R-CPU-06
  /// Who was lowered early is not lowered once more for its first quantum.
  @Test func anEarlyDemotionCounts() {
    let pool = Scripted()
    (pool.cpu, pool.depthDue) = (1_000_000, 1)
    #expect(pool.jobs(pool.member(for: 1_000_000)) == [])
    pool.isSuspectedNow = true
    #expect(pool.look(pool.member(for: 1_000_000)).steps == [.lower(0, from: 0, to: 1)])
    pool.cpu = quantum
    #expect(pool.jobs(pool.member(depth: 1, for: quantum)) == [])
  }

  // R-CPU-02 R-CPU-06
  @Test func whoseAppChangesItsBandFollows() {
    let pool = Scripted()
    let steps = { pool.bands(pool.member(depth: 1)) }
    #expect(steps() == [])
    pool.bandOfApp = .background
    #expect(steps() == [.setBand(0, .background, depth: 1), .leavePool(0)])
    #expect(steps() == [], "it has followed")
    pool.bandOfApp = .foreground
    #expect(steps() == [.setBand(0, .foreground, depth: 1)], "within the same job")
    pool.poolOfBackground = .foreground
    pool.bandOfApp = .background
    #expect(steps() == [.setBand(0, .background, depth: 1)], "the same workers run both")
    pool.setNotes(of: 0, to: PoolPolicy.Notes())
    #expect(steps() == [.setBand(0, .background, depth: 1)], "a new worker")
    pool.bandOfApp = nil
    #expect(steps() == [], "the app has ended")
    pool.bandOfApp = .background
    #expect(pool.bands(pool.member(for: nil)) == [], "it is inside no job")
  }

  // R-CPU-06
  @Test func whoIsAwaitedByHigherWorkIsRaised() {
    let pool = Scripted()
    func steps(_ band: Band, _ waiters: Band) -> [PoolPolicy.Step] {
      pool.setNotes(of: 0, to: PoolPolicy.Notes())
      return pool.raise(pool.member(depth: 2, band: band), to: waiters)
    }
    #expect(steps(.foreground, .foreground) == [] && steps(.foreground, .background) == [])
    #expect(steps(.background, .foreground) == [.setBand(0, .foreground, depth: 0)])
    #expect(pool.raise(pool.member(depth: 2, band: .background), to: .foreground) == [], "it is raised")
    #expect(pool.raise(pool.member(for: nil), to: .foreground) == [], "it is inside no job")
    pool.setNotes(of: 0, to: PoolPolicy.Notes())
    #expect(pool.raise(pool.member(band: .background), job: 3, to: .foreground) == [], "another job by now")
    // One that stood as high stays so when its app goes.
    _ = steps(.foreground, .foreground)
    pool.bandOfApp = .background
    #expect(pool.bands(pool.member(depth: 2)) == [])
    // Its app may come and go: somebody waits still.
    _ = steps(.background, .foreground)
    for band in [.foreground, .background] as [Band] {
      pool.bandOfApp = band
      #expect(pool.bands(pool.member(depth: 2, band: .background)) == [])
    }
  }

  // R-CPU-06
  /// A job of the background that was raised is of the foreground: it is lowered once it has used a quantum
  /// there, from where it was raised to; and not for what it has used before.
  @Test(arguments: [true, false]) func whoWasRaisedIsLoweredAsAHog(isAwaited: Bool) {
    let pool = Scripted()
    (pool.rules.pool, pool.poolOfBackground, pool.bandOfApp) = (.background, .background, .background)
    pool.freshWaits = false
    pool.depthDue = 3
    func job(_ age: UInt64, cpu: UInt64) -> PoolPolicy.Seen {
      (pool.now, pool.cpu) = (1_000_000_000 + age, cpu)
      return pool.member(depth: 2, for: age, band: .background)
    }
    #expect(pool.jobs(job(50_000_000, cpu: 50_000_000)) == [], "it is of the background")
    if isAwaited {
      let raised = pool.raise(job(51_000_000, cpu: 51_000_000), to: .foreground)
      #expect(raised == [.setBand(0, .foreground, depth: 0)])
    } else {
      pool.bandOfApp = .foreground
      let moved = pool.bands(job(51_000_000, cpu: 51_000_000))
      #expect(moved == [.setBand(0, .foreground, depth: 2), .leavePool(0)])
    }
    #expect(pool.jobs(job(52_000_000, cpu: 52_000_000)) == [])
    #expect(pool.jobs(job(60_900_000, cpu: 60_900_000)) == [])
    let from = isAwaited ? 0 : 2
    #expect(pool.jobs(job(61_000_000, cpu: 61_000_000)) == [.lower(0, from: from, to: 3)])
    #expect(pool.jobs(job(61_100_000, cpu: 61_100_000)) == [], "once")
  }

  // R-CPU-06
  /// A thread of the background that may not be raised stays what it is, and so does its job.
  @Test func whoCannotBeRaisedIsNotJudgedAsIfItWere() {
    let pool = Scripted()
    (pool.rules.pool, pool.poolOfBackground, pool.bandOfApp) = (.background, .background, .background)
    (pool.canRaise, pool.freshWaits, pool.somethingWaits, pool.depthDue) = (false, false, true, 1)
    let job = { pool.member(for: 60_000_000, band: .background) }
    #expect(pool.raise(job(), to: .foreground) == [])
    pool.bandOfApp = .foreground
    #expect(pool.bands(job()) == [.leavePool(0)], "others take its token, as of one whose app has come")
    #expect(pool.bands(job()) == [], "once")
    pool.cpu = 60_000_000
    #expect(pool.jobs(job()) == [])
  }

  // R-CPU-02
  @Test func poolsOfLongJobsAreLookedAtLater() {
    func after(_ delays: [(pool: WorkerPool, delay: UInt64)]) -> UInt64 {
      PoolPolicy.watchDelay(spareDelays: delays, least: delay)
    }
    #expect(after([]) == delay && after([(.background, quantum)]) == delay)
    #expect(after([(.foreground, delay)]) == delay, "half of it would be too soon")
    #expect(after([(.foreground, quantum), (.background, delay)]) == quantum / 2)
    #expect(after([(.foreground, quantum), (.realTime, 4 * delay)]) == 2 * delay, "the shortest decides")
  }

  // R-CPU-06
  /// How many may go on beside the run tokens differs by why; in the background pool it is the least always.
  @Test func roomDependsOnTheStep() {
    let room = { PoolPolicy.room(for: $0, in: .foreground) }
    #expect(room(.yield(0)) == .known && room(.sinkStarving(0)) == .starves)
    #expect(room(.sink(0)) == .found && room(.lower(0, from: 0, to: 1)) == .found)
    for step in [.yield(0), .sinkStarving(0), .sink(0)] as [PoolPolicy.Step] {
      #expect(PoolPolicy.room(for: step, in: .background) == .known)
    }
  }

  // R-CPU-08
  @Test func whoBlocksBeginsItsQuantumAnew() {
    let pool = Scripted()
    pool.depthDue = 1
    func steps(cpu: UInt64, wall: UInt64, switches: Int64) -> [PoolPolicy.Step] {
      (pool.cpu, pool.switchesNow) = (cpu, switches)
      return pool.jobs(pool.member(for: wall))
    }
    #expect(steps(cpu: 1_000_000, wall: 1_000_000, switches: 0) == [])
    #expect(steps(cpu: 9_000_000, wall: 12_000_000, switches: 1) == [], "it was off the CPU for 3 ms")
    #expect(steps(cpu: 18_000_000, wall: 21_000_000, switches: 1) == [])
    #expect(
      steps(cpu: 19_000_000, wall: 22_000_000, switches: 1) == [.lower(0, from: 0, to: 1)])
    let notes = pool.notes(of: 0)
    #expect(notes.offCPU(job: 1) == 3_000_000 && notes.offCPU(job: 3) == 0, "of the whole slice")
    // What it was off before its app moved, there and back, is not lost.
    for band in [.background, .foreground] as [Band] {
      pool.bandOfApp = band
      _ = pool.bands(pool.member(for: 22_000_000))
    }
    _ = steps(cpu: 30_000_000, wall: 33_000_000, switches: 1)
    #expect(pool.notes(of: 0).offCPU(job: 1) >= 3_000_000)
  }
}
