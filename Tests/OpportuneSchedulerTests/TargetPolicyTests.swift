import Glibc
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

private typealias Change = TargetPolicy.Change
private typealias Requests = TargetPolicy.Requests

private let second: UInt64 = 1_000_000_000

/// A machine in virtual time: requests whose times are exponentially distributed about a 99th percentile that
/// depends on how many workers of background run, and background that runs as many as it may.
private struct Plant {
  var policy = TargetPolicy()
  let width: Int
  var now: UInt64 = 0
  /// How many workers background would use, and how many run.
  var demand: Int
  var running: Int
  /// One in so many looks a worker that is one too many ends its slice.
  var sliceInLooks: UInt64 = 3
  /// Requests a second of each app with a target.
  var rates: [Double]
  var requests: [Requests]
  var changes: [(at: UInt64, change: Change)] = []
  /// Counts at the end of each second.
  private var seconds: [[Requests]] = []
  private var workerLooks = 0
  private var looks = 0
  private var owed: [Double]
  private var random: SplitMix64

  init(width: Int, rates: [Double] = [400], seed: UInt64 = 1) {
    self.width = width
    self.rates = rates
    (demand, running) = (width, width)
    requests = rates.map { _ in Requests() }
    owed = rates.map { _ in 0 }
    random = SplitMix64(seed: seed)
  }

  /// - Parameter p99: of an app, with so many workers running, in targets.
  mutating func run(seconds count: UInt64, _ p99: (_ app: Int, _ running: Int) -> Double) {
    let end = now + count * second
    while now < end {
      now += 10_000_000
      for app in rates.indices {
        owed[app] += rates[app] / 100
        while owed[app] >= 1 {
          owed[app] -= 1
          let share = Double(random.next() >> 11) / Double(1 << 53)
          let time = p99(app, running) * log(1 / (1 - share)) / log(100)
          requests[app].answered += 1
          if time > 1 { requests[app].late += 1 }
          if time > TargetPolicy.room { requests[app].close += 1 }
        }
      }
      let allowed = min(policy.cap ?? width, demand)
      if running <= allowed { running = allowed } else if random.next() % sliceInLooks == 0 { running -= 1 }
      (workerLooks, looks) = (workerLooks + running, looks + 1)
      look()
      if now % second == 0 { seconds.append(requests) }
    }
  }

  mutating func look() {
    let readings = rates.indices.map {
      TargetPolicy.Reading(app: UInt64($0), p99: 5_000_000, requests: requests[$0])
    }
    let before = policy.cap ?? width
    let change = policy.look(readings, running: running, width: width, now: now)
    // Background goes on, whatever is missed.
    #expect((1...width).contains(policy.cap ?? width))
    guard let change else { return #expect((policy.cap ?? width) == before) }
    #expect(change.from == before && change.to == policy.cap ?? width)
    changes.append((now, change))
  }

  mutating func forgetFigures() { (workerLooks, looks, seconds, changes) = (0, 0, [requests], []) }

  /// Workers of background that ran, on average.
  var meanRunning: Double { Double(workerLooks) / Double(looks) }

  /// The share of seconds in which more than one in a hundred were late, of any app.
  var missedSeconds: Double {
    let missed = zip(seconds, seconds.dropFirst()).count { before, after in
      rates.indices.contains { app in
        let counted = after[app] - before[app]
        return counted.late * 100 > counted.answered
      }
    }
    return Double(missed) / Double(seconds.count - 1)
  }
}

/// In virtual time.
@Suite(.bounded) struct TargetPolicyTests {
  @Test func withoutTargetsNothingIsDone() {
    var policy = TargetPolicy()
    for look in 0..<100 as Range<UInt64> {
      #expect(policy.look([], running: 8, width: 8, now: look * second) == nil)
    }
    #expect(policy.cap == nil)
  }

  @Test func aTargetThatHoldsTakesNothing() {
    var plant = Plant(width: 8)
    plant.run(seconds: 60) { _, _ in 0.85 }
    #expect(plant.changes.isEmpty)
  }

  @Test func aStepIsFollowedDownAndUp() {
    var plant = Plant(width: 8)
    plant.run(seconds: 20) { _, running in running <= 8 ? 0.5 : 2 }
    #expect(plant.changes.isEmpty)
    // The load doubles: only two may go on.
    plant.run(seconds: 3) { _, running in running <= 2 ? 0.5 : 2 }
    #expect(plant.policy.cap == 2)
    #expect(plant.changes.prefix(2).map(\.change.to) == [4, 2])
    #expect(plant.changes.prefix(2).allSatisfy { $0.change.reason == .late && $0.change.app == 0 })
    plant.run(seconds: 57) { _, running in running <= 2 ? 0.5 : 2 }
    // And is gone again: all comes back, step by step.
    plant.forgetFigures()
    plant.run(seconds: 120) { _, _ in 0.5 }
    #expect(plant.policy.cap == nil)
    #expect(plant.changes.allSatisfy { $0.change.to == $0.change.from + 1 && $0.change.reason == .room })
  }

  @Test(arguments: [2, 4, 8, 64])
  func whatIsBestIsFoundAndKept(width: Int) {
    for best in Set([1, width / 2, width - 1]) {
      var plant = Plant(width: width, seed: UInt64(best))
      plant.run(seconds: 20) { _, running in running <= best ? 0.5 : 2 }
      plant.forgetFigures()
      plant.run(seconds: 200) { _, running in running <= best ? 0.5 : 2 }
      #expect(plant.missedSeconds <= 0.05, "\(best) of \(width)")
      #expect(plant.meanRunning >= 0.9 * Double(best), "\(best) of \(width)")
      #expect(plant.meanRunning <= 1.1 * Double(best), "\(best) of \(width)")
      // What was tried in vain is undone, and costs no more than that.
      if width <= 8 { #expect(plant.changes.allSatisfy { $0.change.to >= best }, "\(best) of \(width)") }
    }
  }

  @Test func itDoesNotSwingWhereLatencyGrowsWithEachWorker() {
    var plant = Plant(width: 8)
    plant.run(seconds: 20) { _, running in 0.4 + 0.1 * Double(running) }
    plant.forgetFigures()
    plant.run(seconds: 300) { _, running in 0.4 + 0.1 * Double(running) }
    // With six one request in a hundred is late, on average: every other second more. With five that is so
    // by chance in one second of ten, with four never.
    #expect(plant.missedSeconds <= 0.25)
    #expect((4...5.5).contains(plant.meanRunning))
    #expect(plant.changes.count <= 60)
  }

  @Test func whatIsOutOfReachIsToldOnce() {
    var plant = Plant(width: 4)
    plant.run(seconds: 120) { _, _ in 3 }
    #expect(plant.policy.cap == 1)
    #expect(plant.changes.map(\.change.reason) == [.late, .late, .outOfReach])
    plant.run(seconds: 120) { _, _ in 0.3 }
    #expect(plant.policy.cap == nil, "no more than was taken has to be given back")
  }

  @Test func backgroundThatDoesNotRunIsNotTheCause() {
    var plant = Plant(width: 4)
    (plant.demand, plant.running) = (0, 0)
    plant.run(seconds: 60) { _, _ in 3 }
    #expect(plant.policy.cap == nil)
    #expect(plant.changes.map(\.change.reason) == [.outOfReach])
  }

  @Test func whatIsNotUsedIsNotRaised() {
    var plant = Plant(width: 8)
    plant.run(seconds: 5) { _, running in running <= 2 ? 0.5 : 2 }
    #expect(plant.policy.cap == 2)
    plant.demand = 1
    plant.run(seconds: 60) { _, _ in 0.5 }
    #expect(plant.policy.cap == 2, "else the next burst of background would come with all")
  }

  @Test func aCutThatDoesNotShowYetIsNotRepeated() {
    var plant = Plant(width: 8)
    plant.sliceInLooks = 1 << 40  // no slice ends
    plant.run(seconds: 30) { _, running in running <= 4 ? 0.5 : 2 }
    #expect(plant.changes.map(\.change.to) == [4])
    plant.sliceInLooks = 3
    plant.run(seconds: 3) { _, running in running <= 4 ? 0.5 : 2 }
    #expect(plant.policy.cap.map { $0 >= 4 } == true)
  }

  @Test func twoTargetsAreBothKept() {
    var plant = Plant(width: 8, rates: [400, 20])
    // The first would hold with six, the second, which is seldom asked, with three.
    plant.run(seconds: 60) { app, running in running <= (app == 0 ? 6 : 3) ? 0.3 : 3 }
    #expect(Set(plant.changes.compactMap(\.change.app)) == [0, 1])
    plant.forgetFigures()
    plant.run(seconds: 200) { app, running in running <= (app == 0 ? 6 : 3) ? 0.3 : 3 }
    #expect((2...3.5).contains(plant.meanRunning), "\(plant.meanRunning)")
    #expect(Set(plant.changes.compactMap(\.change.app)) == [1])
    // Without the second there is more for background.
    plant.rates.removeLast()
    plant.run(seconds: 200) { _, running in running <= 6 ? 0.3 : 3 }
    #expect(plant.policy.cap.map { $0 >= 5 } == true)
  }

  @Test func fewRequestsAreEnough() {
    var plant = Plant(width: 4, rates: [5])
    plant.run(seconds: 10) { _, running in running <= 1 ? 0.3 : 20 }
    #expect(plant.policy.cap == 1)
  }

  @Test func whereNobodyAsksAllIsGivenBack() {
    var plant = Plant(width: 4)
    plant.run(seconds: 5) { _, running in running <= 1 ? 0.3 : 3 }
    #expect(plant.policy.cap == 1)
    plant.rates = [0]
    plant.forgetFigures()
    plant.run(seconds: 60) { _, _ in 0 }
    #expect(plant.policy.cap == nil)
    #expect(plant.changes.last?.change.reason == .noRequests)
  }

  @Test func theEndOfTheLastTargetGivesAllBackAtOnce() {
    var plant = Plant(width: 8)
    plant.run(seconds: 5) { _, _ in 3 }
    #expect(plant.policy.cap == 1)
    let change = plant.policy.look([], running: 1, width: 8, now: plant.now)
    #expect(change == Change(from: 1, to: 8, reason: .noTarget, app: nil))
    #expect(plant.policy.cap == nil)
  }

  @Test func itIsAFunctionOfWhatItSees() {
    func changes() -> [Change] {
      var plant = Plant(width: 16, rates: [300, 100], seed: 7)
      plant.run(seconds: 60) { app, running in running <= 5 + 4 * app ? 0.6 : 1.5 }
      return plant.changes.map(\.change)
    }
    let first = changes()
    #expect(!first.isEmpty && first == changes())
  }

  /// Whatever is counted, and however the clock jumps.
  @Test func noInputBreaksIt() {
    for seed in 0..<20 as Range<UInt64> {
      var (random, policy, now) = (SplitMix64(seed: seed), TargetPolicy(), UInt64(0))
      for _ in 0..<2000 {
        now = now.saturatingAdd(random.next() >> (random.next() % 40 + 20))
        let readings = (0..<random.next() % 4).map { app in
          TargetPolicy.Reading(
            app: app, p99: random.next() % (60 * second) + 1,
            requests: Requests(
              answered: random.next() >> (random.next() % 64), late: random.next() >> (random.next() % 64),
              close: random.next()))
        }
        let width = Int(random.next() % 256) + 1
        let change = policy.look(readings, running: Int(random.next() % 300), width: width, now: now)
        #expect(policy.cap.map { $0 >= 1 } ?? true, "seed \(seed)")
        if let change { #expect((1...width).contains(change.to), "seed \(seed)") }
      }
    }
  }

  // R-CPU-01 R-DISK-02
  @Test(arguments: [1, 2, 3, 4, 7, 8, 9, 32]) func levelsGiveWorkersAndAsMuchOfTheDevice(width: Int) {
    let alone = BackgroundLevels(width: width)
    #expect(alone.top == width && (1...width).allSatisfy { alone.workers(at: $0) == $0 })
    let both = BackgroundLevels(width: width, leastEighths: 1)
    #expect(both.workers(at: both.top) == width && both.eighths(at: both.top) == 8)
    #expect(both.workers(at: 1) == 1 && both.eighths(at: 1) == 1, "an eighth of the device, and a worker")
    for level in 2...max(2, both.top) where level <= both.top {
      // Each level leaves less than the one above it, and of neither more than that.
      let (upper, lower) = (level, level - 1)
      #expect(both.workers(at: lower) <= both.workers(at: upper))
      #expect(both.eighths(at: lower) <= both.eighths(at: upper))
      #expect(
        width > 8
          || (both.workers(at: lower), both.eighths(at: lower))
            != (both.workers(at: upper), both.eighths(at: upper))
      )
    }
  }

  // R-CPU-01 R-DISK-02
  /// Less than the least changes nothing: such a level would be a trial that always holds.
  @Test(arguments: [
    (1, 2, [2, 4, 8]), (2, 2, [2, 4, 8]), (2, 3, [4, 8]), (2, 4, [4, 8]), (2, 8, [4, 8]),
    (4, 2, [2, 4, 6, 8]),
  ])
  func noLevelGivesLessThanTheLeast(width: Int, least: Int, eighths: [Int]) {
    let levels = BackgroundLevels(width: width, leastEighths: least)
    #expect((1...levels.top).map { levels.eighths(at: $0) } == eighths)
  }

  // R-CPU-01
  @Test(arguments: [(1, 4), (2, 3), (8, 2)]) func asMuchAsALimitLetsRunIsAllOfIt(least: Int, top: Int) {
    let levels = BackgroundLevels(width: 2, leastEighths: least)
    #expect(levels.top == top)
    for limit in 1...levels.top {
      let workers = levels.workers(at: limit)
      #expect(levels.level(running: workers, under: limit) == limit)
      #expect(levels.level(running: workers + 1, under: limit) > limit, "some have to end first")
      #expect(levels.level(running: 0, under: limit) == 0)
    }
  }
}
