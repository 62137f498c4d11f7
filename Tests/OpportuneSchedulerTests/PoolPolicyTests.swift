import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

private let quantum: UInt64 = 10_000_000
private let delay: UInt64 = 500_000

/// A worker that answers as told, and counts what it is asked.
private final class Scripted: PoolSight {
  var isSuspectedNow = false
  var cpu: UInt64? = 0
  var blockingNow = PoolPolicy.Blocking.unknown
  var mapWaiters: Set<Int> = []
  var workers = 2
  var demoted = 0
  var hasRoomForKnown = true
  var cpuOfWorkers: UInt64 = 0
  var somethingWaits = false
  var wait: UInt64 = 0
  var switchesNow: Int64 = 0
  var depthDue = 0
  var bandOfApp: Band? = .foreground
  var poolOfBackground = WorkerPool.background
  private(set) var asked: [String] = []

  var isSuspected: Bool { note("suspected", isSuspectedNow) }
  var cpuTime: UInt64? { note("clock", cpu) }
  var usage: (cpu: UInt64, wait: UInt64)? { note("usage", cpu.map { ($0, wait) }) }
  var switches: Int64 { note("switches", switchesNow) }
  func isOfAnotherPool(in band: Band) -> Bool { band == .background && poolOfBackground == .background }
  func depth(from first: Int, cpu: UInt64, offCPU: UInt64) -> Int { max(first, depthDue) }
  var blocking: PoolPolicy.Blocking { note("blocking", blockingNow) }
  func stillWaitsForMemoryMap(_ slot: Int, job: UInt64) -> Bool { note("map", mapWaiters.contains(slot)) }

  private func note<Answer>(_ question: String, _ answer: Answer) -> Answer {
    asked.append(question)
    return answer
  }

  func forgetQuestions() { asked = [] }
}

/// A pool in virtual time.
private struct Pool {
  var policy = PoolPolicy()
  var rules = PoolPolicy.Rules(
    pool: .foreground, width: 2, quantum: quantum, spareDelay: delay, offCPUShare: 0.05)
  var progress: UInt64 = 0
  var now: UInt64 = 1_000_000_000

  func seen(
    _ slot: Int = 0, _ stance: PoolPolicy.Stance = .running, depth: Int = 0, for age: UInt64? = 2_000_000,
    band: Band = .foreground, isInClass: Bool = false
  ) -> PoolPolicy.Seen {
    PoolPolicy.Seen(
      slot: slot, stance: stance, depth: depth,
      job: age.map {
        PoolPolicy.Job(sequence: 1, band: band, start: now - $0, cpuBefore: 0, isInClass: isInClass)
      })
  }

  /// One look. `carries`: whether a step is carried out. Returns the steps about workers, and those at the
  /// end.
  mutating func look(
    _ workers: [(PoolPolicy.Seen, Scripted)], carries: (PoolPolicy.Step) -> Bool = { _ in true }
  ) -> (steps: [PoolPolicy.Step], end: [PoolPolicy.Step]) {
    var look = policy.beginLook(
      workers: workers.count, progress: progress, ordinary: (0, 0), rules: rules, now: now)
    var steps: [PoolPolicy.Step] = []
    for (worker, sight) in workers {
      var refused: PoolPolicy.Step?
      while let step = policy.step(in: &look, for: worker, after: refused, rules, sight) {
        steps.append(step)
        guard !carries(step) else {
          policy.carriedOut(in: &look)
          break
        }
        refused = step
      }
    }
    return (steps, policy.end(look, rules))
  }
}

private let calls: [PoolPolicy.Step] = [.setStalled(true), .lookAtSpare, .callSpare, .watchAgain]
private let flows: [PoolPolicy.Step] = [.setStalled(false), .lookAtSpare, .watchAgain]

@Suite(.bounded) struct PoolPolicyTests {
  // R-CPU-02
  @Test func theSpareIsCalledOnceAllAreInsideForLong() {
    var pool = Pool()
    let (long, sight) = (pool.seen(0), Scripted())
    #expect(pool.look([(long, sight), (pool.seen(1, for: delay - 1), sight)]).end == flows, "one is new")
    #expect(pool.look([(long, sight), (pool.seen(1, for: nil), sight)]).end == flows, "one is between two")
    let stalled = pool.look([(long, sight), (pool.seen(1, for: delay), sight)])
    #expect(stalled.steps == [] && stalled.end == calls)
    // Who is beside the tokens is not looked at, and a spare worker that has not begun hides no stall.
    sight.forgetQuestions()
    let beside = pool.look([(pool.seen(0, .sunk), sight), (pool.seen(1, .spare, for: nil), sight)])
    #expect(beside.end == calls && sight.asked == [])
    pool.rules.pool = .background
    #expect(pool.look([(long, sight)]).end == flows, "the background has no spare worker")
  }

  // R-CPU-02
  @Test func whoHasHardlyRunIsAskedForItsWaitAndReplaced() {
    var pool = Pool()
    let sight = Scripted()
    sight.blockingNow = .blocked
    #expect(pool.look([(pool.seen(), sight)]).steps == [])
    #expect(sight.asked == ["clock"], "one look shows no difference")
    pool.now += 500_000
    #expect(pool.look([(pool.seen(for: 2_500_000), sight)]).steps == [.replaceBlocked(0)])
    // Refused or not, the pool is about to make progress.
    pool.now += 500_000
    let refused = pool.look([(pool.seen(for: 3_000_000), sight)]) { _ in false }
    #expect(refused.steps == [.replaceBlocked(0)] && refused.end == flows)
    // Whoever runs a twentieth of the time is not asked.
    sight.forgetQuestions()
    (sight.cpu, pool.now) = (25_000, pool.now + 500_000)
    #expect(pool.look([(pool.seen(for: 3_500_000), sight)]).steps == [] && !sight.asked.contains("blocking"))
  }

  // R-CPU-02
  @Test func whoWaitsForACPUIsAskedOnce() {
    var pool = Pool()
    let sight = Scripted()
    sight.blockingNow = .cpu
    for look in 0..<5 {
      #expect(pool.look([(pool.seen(for: 2_000_000 + UInt64(look) * 500_000), sight)]).steps == [])
      pool.now += 500_000
    }
    #expect(sight.asked.count { $0 == "blocking" } == 1)
    // Once it has had the CPU it may have blocked.
    (sight.cpu, sight.blockingNow) = (1000, .blocked)
    #expect(pool.look([(pool.seen(for: 5_000_000), sight)]).steps == [.replaceBlocked(0)])
  }

  // R-CPU-02
  @Test func fewWaitersForTheMemoryMapAreReplaced() {
    var pool = Pool()
    let sight = Scripted()
    sight.blockingNow = .memoryMap
    let workers = { (pool: Pool, age: UInt64) in (0..<4).map { (pool.seen($0, for: age), sight) } }
    _ = pool.look(workers(pool, 2_000_000))
    pool.now += 500_000
    sight.mapWaiters = [0, 1, 2, 3]
    #expect(pool.look(workers(pool, 2_500_000)).steps == [.replaceBlocked(0), .replaceBlocked(1)])
    pool.rules.pool = .background
    pool.now += 500_000
    #expect(pool.look(workers(pool, 3_000_000)).steps == [])
  }

  // R-CPU-02
  @Test func aFreshJobYieldsAfterAMillisecond() {
    var pool = Pool()
    let sight = Scripted()
    sight.cpu = 999_999
    #expect(pool.look([(pool.seen(), sight)]).steps == [])
    sight.cpu = 1_000_000
    #expect(pool.look([(pool.seen(isInClass: true), sight)]).steps == [])
    #expect(pool.look([(pool.seen(band: .realTime), sight)]).steps == [])
    #expect(pool.look([(pool.seen(band: .background), sight)]).steps == [])
    let yields = pool.look([(pool.seen(), sight)])
    #expect(yields.steps == [.yield(0)] && yields.end == flows)
    let refused = pool.look([(pool.seen(), sight)]) { _ in false }
    #expect(refused.steps == [.yield(0)] && refused.end == calls)
    #expect(!sight.asked.contains("blocking"))
  }

  // R-CPU-06
  @Test func aSuspectIsLoweredEarlyAndSunkIfItKeepsItsToken() {
    var pool = Pool()
    let sight = Scripted()
    (sight.cpu, sight.isSuspectedNow) = (delay - 1, true)
    #expect(pool.look([(pool.seen(), sight)]).steps == [])
    sight.cpu = delay
    #expect(pool.look([(pool.seen(), sight)]).steps == [.lower(0, from: 0, to: 1)])
    let refused = pool.look([(pool.seen(), sight)]) { _ in false }
    #expect(refused.steps == [.lower(0, from: 0, to: 1), .sink(0)] && refused.end == calls)
  }

  // R-CPU-06
  @Test func hogsBeyondTheLimitGoOnceTheyStarveThePool() {
    var pool = Pool()
    let sight = Scripted()
    (sight.cpu, sight.demoted) = (50_000_000, 16)
    func look() -> [PoolPolicy.Step] {
      pool.now += quantum
      return pool.look([(pool.seen(depth: 1, for: 60_000_000), sight)]) { $0 != .sink(0) }.steps
    }
    #expect(look() == [.sink(0)], "since when is not known yet")
    sight.cpuOfWorkers = 4 * quantum * 18
    #expect(look() == [.sink(0)])
    sight.cpuOfWorkers += 1
    #expect(look() == [.sink(0), .sinkStarving(0)])
    pool.progress += 1
    #expect(look() == [.sink(0)], "a job has ended")
  }

  // R-CPU-06
  @Test func aSpareThatIsInsideForAQuantumBecomesAHog() {
    var pool = Pool()
    let sight = Scripted()
    func look(_ age: UInt64) -> [PoolPolicy.Step] {
      pool.now += 1_000_000
      return pool.look([(pool.seen(0, for: 20_000_000), sight), (pool.seen(1, .spare, for: age), sight)]).end
    }
    #expect(look(quantum - 1) == calls)
    #expect(look(quantum) == [.sink(1)] + calls)
    pool.progress += 1
    #expect(look(quantum) == calls, "a job has begun or ended")
  }

  // R-CPU-02
  @Test func aDemotedWorkerThatIsBlockedMakesRoom() {
    var pool = Pool()
    let sight = Scripted()
    sight.blockingNow = .blocked
    func step(_ stance: PoolPolicy.Stance) -> PoolPolicy.Step? {
      pool.now += 1_000_000
      let seen = pool.seen(0, stance, depth: 1, for: 20_000_000)
      return pool.policy.roomStep(for: seen, now: pool.now, pool.rules, sight)
    }
    #expect(step(.demoted) == nil && sight.asked == [], "there is room")
    sight.hasRoomForKnown = false
    #expect(step(.demoted) == nil && step(.demoted) == .uncount(0) && step(.sunk) == .uncount(0))
    #expect(step(.running) == .replaceBlocked(0))
    #expect(step(.handedOff) == nil && step(.spare) == nil)
    sight.cpu = nil
    #expect(step(.sunk) == nil, "a clock that cannot be read")
  }

  // R-CPU-02
  @Test func aTrialEndsOnceTheJobIsLong() {
    var pool = Pool()
    let sight = Scripted()
    var seen = pool.seen()
    #expect(pool.policy.trialStep(for: seen, pool.rules, sight) == nil && sight.asked == [])
    seen.isOnTrial = true
    #expect(pool.policy.trialStep(for: seen, pool.rules, sight) == .watchAgain)
    sight.cpu = delay
    #expect(pool.policy.trialStep(for: seen, pool.rules, sight) == .endTrial(0))
    seen.job = nil
    #expect(pool.policy.trialStep(for: seen, pool.rules, sight) == .watchAgain)
    // The pool's jobs ordinarily take 2 ms: twice that is no hog yet.
    _ = pool.policy.beginLook(
      workers: 2, progress: 1, ordinary: (16, 32_000_000), rules: pool.rules, now: pool.now)
    #expect(pool.policy.spareDelay == 4_000_000)
    seen.job = pool.seen().job
    #expect(pool.policy.trialStep(for: seen, pool.rules, sight) == .watchAgain)
  }

  // R-CPU-02
  @Test func manyShortJobsAreAFlood() {
    var pool = Pool()
    var (jobs, now): ((count: UInt64, time: UInt64), UInt64) = ((0, 0), 1_000_000_000)
    func isFlooded(_ count: UInt64, of length: UInt64, in time: UInt64 = 10_000_000) -> Bool {
      jobs = (jobs.count + count, jobs.time + count * length)
      now += time
      return pool.policy.isFlooded(jobs: jobs, now: now)
    }
    #expect(!isFlooded(5000, of: 1000), "since when is not known")
    #expect(isFlooded(1000, of: 5000) && isFlooded(5000, of: 1000))
    #expect(!isFlooded(1000, of: 5001) && !isFlooded(999, of: 1000))
    #expect(!isFlooded(0, of: 0))
    #expect(isFlooded(1000, of: 1000))
    // One that takes a quantum is among them.
    jobs.time += 10_000_000
    #expect(!isFlooded(1000, of: 1000))
    // A worker has ended.
    jobs = (10, 10)
    #expect(!isFlooded(0, of: 0) && isFlooded(2000, of: 1000))
  }

  // R-CPU-06
  @Test func aQuantumWithoutBlockingLowers() {
    var pool = Pool()
    let sight = Scripted()
    func steps(_ stance: PoolPolicy.Stance = .running, cpu: UInt64) -> [PoolPolicy.Step] {
      sight.forgetQuestions()
      sight.cpu = cpu
      var seen = pool.seen(0, stance, for: nil)
      seen.job = PoolPolicy.Job(sequence: 1, band: .foreground, start: 1_000_000_000, cpuBefore: 0)
      return pool.policy.quantumSteps(for: seen, now: 1_000_000_000 + cpu, pool.rules, sight)
    }
    sight.depthDue = 1
    #expect(
      steps(cpu: 1_000_000) == [] && sight.asked == ["clock", "usage"], "the first look finds the zero")
    #expect(steps(cpu: quantum - 1) == [] && sight.asked == ["clock"])
    #expect(steps(cpu: quantum) == [.lower(0, from: 0, to: 1)])
    #expect(steps(cpu: quantum + 1) == [], "it is lowered")
    #expect(steps(.handedOff, cpu: quantum + 2) == [.count(0)], "it had blocked before")
    sight.bandOfApp = .background
    #expect(steps(.handedOff, cpu: quantum + 3) == [], "another pool counts it")
    sight.bandOfApp = .foreground
    sight.depthDue = 2
    #expect(steps(.sunk, cpu: 2 * quantum) == [.lower(0, from: 1, to: 2)])
    (pool.rules.pool, sight.somethingWaits) = (.background, true)
    #expect(steps(cpu: 2 * quantum + 1) == [.sink(0)], "background work waits behind it")
    _ = pool.policy.quantumSteps(for: pool.seen(0, for: nil), now: pool.now, pool.rules, sight)
    sight.depthDue = 1
    #expect(steps(cpu: 3 * quantum).last == .lower(0, from: 0, to: 1), "another job")
    sight.cpu = nil
    #expect(pool.policy.quantumSteps(for: pool.seen(), now: pool.now, pool.rules, sight) == [])
    #expect(
      pool.policy.quantumSteps(
        for: pool.seen(1, band: .background), now: pool.now, pool.rules, sight) == [])
  }

  // R-CPU-06
  /// Who was lowered early is not lowered once more for its first quantum.
  @Test func anEarlyDemotionCounts() {
    var pool = Pool()
    let sight = Scripted()
    (sight.cpu, sight.depthDue) = (1_000_000, 1)
    let seen = { (pool: Pool, age: UInt64, depth: Int) in pool.seen(0, depth: depth, for: age) }
    #expect(pool.policy.quantumSteps(for: seen(pool, 1_000_000, 0), now: pool.now, pool.rules, sight) == [])
    sight.isSuspectedNow = true
    #expect(pool.look([(seen(pool, 1_000_000, 0), sight)]).steps == [.lower(0, from: 0, to: 1)])
    sight.cpu = quantum
    #expect(
      pool.policy.quantumSteps(for: seen(pool, quantum, 1), now: pool.now, pool.rules, sight) == [])
  }

  // R-CPU-02 R-CPU-06
  @Test func whoseAppChangesItsBandFollows() {
    var pool = Pool()
    let sight = Scripted()
    func steps() -> [PoolPolicy.Step] { pool.policy.bandSteps(for: pool.seen(), sight) }
    #expect(steps() == [])
    sight.bandOfApp = .background
    #expect(steps() == [.setBand(0, .background), .leavePool(0)])
    #expect(steps() == [], "it has followed")
    sight.bandOfApp = .foreground
    #expect(steps() == [.setBand(0, .foreground)], "within the same job")
    sight.poolOfBackground = .foreground
    sight.bandOfApp = .background
    #expect(steps() == [.setBand(0, .background)], "the same workers run both")
    pool.policy.forget(0)
    #expect(steps() == [.setBand(0, .background)], "a new worker")
    sight.bandOfApp = nil
    #expect(steps() == [], "the app has ended")
    sight.bandOfApp = .background
    #expect(pool.policy.bandSteps(for: pool.seen(for: nil), sight) == [], "it is inside no job")
  }

  // R-CPU-06
  @Test func whoIsAwaitedByHigherWorkIsRaised() {
    let pool = Pool()
    let step = { PoolPolicy.raiseStep(for: pool.seen(3, depth: 2, band: $0), to: $1) }
    #expect(step(.background, .foreground) == .raise(3, .foreground))
    #expect(step(.foreground, .foreground) == nil && step(.foreground, .background) == nil)
    #expect(PoolPolicy.raiseStep(for: pool.seen(for: nil), to: .foreground) == nil, "it is inside no job")
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
    var pool = Pool()
    let sight = Scripted()
    sight.depthDue = 1
    func steps(cpu: UInt64, wall: UInt64, switches: Int64) -> [PoolPolicy.Step] {
      (sight.cpu, sight.switchesNow) = (cpu, switches)
      return pool.policy.quantumSteps(for: pool.seen(for: wall), now: pool.now, pool.rules, sight)
    }
    #expect(steps(cpu: 1_000_000, wall: 1_000_000, switches: 0) == [])
    #expect(steps(cpu: 9_000_000, wall: 12_000_000, switches: 1) == [], "it was off the CPU for 3 ms")
    #expect(steps(cpu: 18_000_000, wall: 21_000_000, switches: 1) == [])
    #expect(
      steps(cpu: 19_000_000, wall: 22_000_000, switches: 1) == [.lower(0, from: 0, to: 1)])
    let job = pool.seen().job?.sequence ?? 0
    #expect(pool.policy.offCPU(of: 0, job: job) == 3_000_000, "of the whole slice")
    #expect(pool.policy.offCPU(of: 0, job: job + 2) == 0 && pool.policy.offCPU(of: 1, job: job) == 0)
  }
}
