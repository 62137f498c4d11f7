import TestSupport
import Testing

@testable import OpportuneMemory

private let megabyte: UInt64 = 1_000_000
private let reading = MemoryReading(capacity: 1000 * megabyte, inUse: 800 * megabyte)

private func app(_ number: UInt32, _ standing: AppStanding, _ megabytes: UInt64, idle: UInt64)
  -> RemovalCandidate
{
  RemovalCandidate(
    app: number, name: "app\(number)", standing: standing, footprint: megabytes * megabyte, idle: idle)
}

private func random(_ count: Int, _ generator: inout SplitMix64) -> [RemovalCandidate] {
  (0..<UInt32(count)).map { number in
    RemovalCandidate(
      app: number, name: "app\(number)",
      standing: AppStanding.allCases.randomElement(using: &generator) ?? .gone,
      footprint: UInt64.random(in: 0...400, using: &generator) * megabyte,
      idle: UInt64.random(in: 0...5, using: &generator))
  }
}

@Suite(.bounded) struct RemovalPolicyTests {
  private func order(_ candidates: [RemovalCandidate], _ policy: RemovalPolicy) -> [UInt32] {
    var left = candidates
    var order: [UInt32] = []
    while let removal = policy.choose(left, excess: megabyte, reading: reading) {
      order.append(removal.app)
      left.removeAll { $0.app == removal.app }
    }
    return order
  }

  // R-MEM-09, R-MEM-11, R-MEM-12
  @Test(arguments: RemovalPolicy.Order.allCases)
  func suspendedGoesBeforeBackgroundBeforeAudioBeforeInactiveAndTheActiveAppNever(order: RemovalPolicy.Order)
  {
    var policy = RemovalPolicy()
    policy.order = order
    let candidates = [
      app(1, .active, 200, idle: 9), app(2, .inactive, 150, idle: 8), app(3, .audio, 120, idle: 7),
      app(4, .tracking, 110, idle: 6), app(5, .background, 100, idle: 5), app(6, .suspended, 10, idle: 4),
      app(7, .gone, 0, idle: 3), app(8, .suspended, 0, idle: 9),
    ]
    #expect(self.order(candidates, policy) == [6, 5, 4, 3, 2])
  }

  // R-MEM-09
  @Test func leastRecentlyUsedFirstIsTheDefault() {
    let candidates = [
      app(1, .suspended, 10, idle: 5), app(2, .suspended, 90, idle: 4), app(3, .suspended, 1, idle: 6),
    ]
    #expect(order(candidates, RemovalPolicy()) == [3, 1, 2])
  }

  // R-MEM-09, R-MEM-13, R-MEM-14
  @Test func largestNotExecutingFirstIsAnOption() {
    var policy = RemovalPolicy()
    policy.order = .largest
    let candidates = [
      app(1, .suspended, 10, idle: 5), app(2, .suspended, 90, idle: 4), app(3, .background, 99, idle: 6),
    ]
    #expect(order(candidates, policy) == [2, 1, 3])
  }

  // R-MEM-14
  @Test func largestForLongestWeighsBoth() {
    var policy = RemovalPolicy()
    policy.order = .largestForLongest
    let candidates = [
      app(1, .suspended, 10, idle: 50), app(2, .suspended, 90, idle: 5), app(3, .suspended, 40, idle: 20),
    ]
    #expect(order(candidates, policy) == [3, 1, 2])
    // Beyond what 64 bits hold.
    let far = [app(1, .suspended, 3, idle: .max), app(2, .suspended, 4, idle: .max)]
    #expect(order(far, policy) == [2, 1])
  }

  // R-MEM-13
  @Test func heavyBackgroundAppsGoFirstWithinTheirClass() {
    var policy = RemovalPolicy()
    let candidates = [
      app(1, .background, 10, idle: 9), app(2, .background, 250, idle: 1), app(3, .background, 260, idle: 0),
      app(4, .suspended, 10, idle: 0), app(5, .inactive, 10, idle: 9), app(6, .inactive, 300, idle: 1),
    ]
    #expect(order(candidates, policy) == [4, 3, 2, 1, 5, 6], "what is in front is not heavy")
    policy.heavyShare = nil
    #expect(order(candidates, policy) == [4, 1, 2, 3, 5, 6])
  }

  // R-MEM-14
  @Test func holdingMoreNeverMakesAnAppSafer() {
    var generator = SplitMix64(seed: 14)
    for _ in 0..<60 {
      let candidates = random(8, &generator)
      for order in RemovalPolicy.Order.allCases {
        var policy = RemovalPolicy()
        policy.order = order
        for index in candidates.indices where candidates[index].footprint > 0 {
          let app = candidates[index].app
          guard let before = self.order(candidates, policy).firstIndex(of: app) else { continue }
          var heavier = candidates
          heavier[index].footprint += UInt64.random(in: 1...300, using: &generator) * megabyte
          let after = self.order(heavier, policy).firstIndex(of: app)
          #expect(after.map { $0 <= before } == true, "\(order): \(candidates[index])")
        }
      }
    }
  }

  // R-MEM-09
  @Test func theChoiceDoesNotDependOnTheOrderOfTheList() {
    var generator = SplitMix64(seed: 9)
    for _ in 0..<300 {
      let candidates = random(10, &generator)
      let expected = order(candidates, RemovalPolicy())
      #expect(order(candidates.shuffled(using: &generator), RemovalPolicy()) == expected)
    }
  }

  // R-MEM-04, R-MEM-10
  @Test(arguments: [8, 16, 32] as [UInt64])
  func sizeDecidesBetweenHibernationAndTermination(limit: UInt64) throws {
    var policy = RemovalPolicy()
    policy.hibernatesUpTo = limit * megabyte
    func removal(_ standing: AppStanding, _ bytes: UInt64) throws -> Removal {
      let candidate = RemovalCandidate(app: 1, name: "mail", standing: standing, footprint: bytes, idle: 1)
      return try #require(policy.choose([candidate], excess: megabyte, reading: reading))
    }
    #expect(try removal(.suspended, limit * megabyte).method == .hibernate)
    #expect(try removal(.suspended, limit * megabyte + 1).method == .terminate)
    #expect(try removal(.background, 1).method == .terminate, "what runs would have to be suspended first")
    #expect(
      try removal(.suspended, limit * megabyte + 1).reason.contains(
        "more than \(limit) MB are not hibernated"))
    let cached = RemovalCandidate(
      app: 1, name: "mail", standing: .suspended, footprint: limit * megabyte + 1, idle: 1,
      written: limit * megabyte)
    #expect(policy.choose([cached], excess: megabyte, reading: reading)?.method == .hibernate)
    policy.hibernates = false
    #expect(try removal(.suspended, 1).method == .terminate)
  }

  // R-MEM-08
  @Test func idleAppsAreOverdue() {
    var policy = RemovalPolicy()
    let candidates = [
      app(1, .suspended, 10, idle: 10_000_000_001), app(2, .suspended, 10, idle: 10_000_000_000),
      app(3, .background, 10, idle: .max), app(4, .suspended, 100, idle: .max),
    ]
    #expect(policy.overdue(candidates).isEmpty, "off by default")
    policy.idleLimit = .seconds(10)
    #expect(policy.overdue(candidates).map(\.app) == [1], "nobody is terminated for what nobody needs")
    #expect(policy.overdue(candidates).map(\.method) == [.hibernate])
    policy.hibernates = false
    #expect(policy.overdue(candidates).isEmpty)
  }

  // R-MEM-12
  @Test func howManyMayTrackDependsOnFreeMemory() throws {
    var policy = RemovalPolicy()
    let candidates = [
      app(1, .tracking, 10, idle: 3), app(2, .tracking, 10, idle: 2), app(3, .tracking, 10, idle: 1),
      app(4, .background, 10, idle: 0), app(5, .suspended, 10, idle: 0),
    ]
    #expect(order(candidates, policy) == [5, 4, 1, 2, 3])
    // 200 MB are free: two may go on, and the one that was in front longest ago is like any other.
    policy.bytesPerTrackingApp = 100 * megabyte
    #expect(order(candidates, policy) == [5, 1, 4, 2, 3])
    let next = try #require(
      policy.choose(candidates.filter { $0.app != 5 }, excess: megabyte, reading: reading))
    #expect(next.reason.contains("200 MB free are too few for it to go on tracking"))
  }

  // R-MEM-09
  @Test func aReasonIsASentence() throws {
    let removal = try #require(
      RemovalPolicy().choose([app(3, .suspended, 12, idle: 6)], excess: 25 * megabyte, reading: reading))
    #expect(
      removal.reason
        == "app3 was hibernated, suspended with 12 MB, because 25 MB had to go of 800 MB in use; among apps that were "
        + "suspended, it was in front longest ago; at most 32 MB are hibernated.")
    #expect("\(removal)" == removal.reason)
    let least = try #require(
      RemovalPolicy().choose([app(3, .suspended, 12, idle: 6)], excess: 1, reading: reading))
    #expect(least.reason.contains("because less than 0.1 MB had to go of 800 MB in use;"))
  }

  // R-MEM-09
  @Test func whoWasNeverInFrontIsNotSaidToHaveBeenThere() throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 10 * megabyte, remove: removed.add)
    let never = broker.makeMemory(named: "never", standing: .suspended)
    let once = broker.makeMemory(named: "once")
    once.setStanding(.suspended)
    for app in [never, once] { try app.setOutside(bytes: 2 * megabyte) }
    try broker.makeMemory(named: "front").setOutside(bytes: 6 * megabyte)
    #expect(removed.all.map(\.app) == [never.number, once.number])
    #expect(removed.all.map { $0.reason.contains("in front longest ago") } == [false, true])
    #expect(removed.all.map { $0.reason.contains("unused longest, and never in front") } == [true, false])
  }

  // R-MEM-09
  @Test func anotherPolicyMayTakeItsPlace() throws {
    struct Newest: RemovalChoosing {
      func choose(_ candidates: [RemovalCandidate], excess: UInt64, reading: MemoryReading) -> Removal? {
        candidates.filter { $0.standing == .suspended }.max { $0.app < $1.app }
          .map { Removal(app: $0.app, method: .terminate, reason: "\($0.name) came last.") }
      }
      func overdue(_ candidates: [RemovalCandidate]) -> [Removal] { [] }
    }
    let removed = Removals()
    let broker = try makeBroker(budget: 10 * megabyte, remove: removed.add) { $0.removal = Newest() }
    let apps = (0..<3).map { broker.makeMemory(named: "app\($0)", standing: .suspended) }
    for app in apps { try app.setOutside(bytes: 2 * megabyte) }
    try broker.makeMemory(named: "front").setOutside(bytes: 2 * megabyte)
    #expect(removed.all.map(\.reason) == ["app2 came last."])
  }

  // R-MEM-01, R-MEM-11
  @Test func aRemovalTellsWhetherItsAppRoseSince() throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 10 * megabyte, remove: removed.add)
    let app = broker.makeMemory(named: "radio", standing: .background)
    try app.setOutside(bytes: 6 * megabyte)
    try broker.makeMemory(named: "front").setOutside(bytes: 3 * megabyte)
    let removal = try #require(removed.all.first)
    #expect(removal.app == app.number && removal.rises == app.rises)
    app.setStanding(.suspended)
    #expect(removal.rises == app.rises)
    for standing in [AppStanding.background, .audio, .inactive, .gone, .suspended] {
      let before = app.rises
      app.setStanding(standing)
      #expect(app.rises == before + (standing == .gone ? 0 : 1), "\(standing)")
    }
  }

  @Test func refusesSettingsOutOfRange() {
    let changes: [(inout RemovalPolicy) -> Void] = [
      { $0.heavyShare = 0 }, { $0.heavyShare = 1.5 }, { $0.heavyShare = .nan }, { $0.idleLimit = .zero },
      { $0.bytesPerTrackingApp = 0 },
    ]
    for change in changes {
      var policy = RemovalPolicy()
      change(&policy)
      #expect(throws: MemoryError.self) { try makeBroker { $0.removal = policy } }
    }
  }
}
