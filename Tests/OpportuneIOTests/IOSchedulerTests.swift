import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct IOSchedulerTests {
  typealias Cost = IOScheduler<Int>.Cost
  private let four = Cost(bytes: 4096)

  /// Two apps: 0 in the foreground, 1 in the background.
  private func scheduler(_ policy: DevicePolicy) -> IOScheduler<Int> {
    var scheduler = IOScheduler<Int>(policy, now: 0)
    scheduler.addApp(0, state: .active)
    scheduler.addApp(1, state: .background)
    return scheduler
  }

  // R-NET-03, R-NET-05, R-DISK-01
  @Test(arguments: PolicyTests.ratios)
  func servesInRatioWhileBothWait(foreground: Int, background: Int) throws {
    var scheduler = scheduler(
      DevicePolicy(ratio: try Ratio(foreground: foreground, background: background), depth: 2, cap: .none))
    for number in 0..<3000 { _ = scheduler.submit(number, app: number % 2, cost: four) }
    var counts = [0, 0]
    for step in 1...1000 {
      let granted1 = scheduler.next(now: UInt64(step))
      let grant = try #require(granted1)
      counts[grant.ioClass.index] += 1
      scheduler.finished(grant, sentAt: 0, queuedAt: 0, now: UInt64(step))
      #expect(abs(counts[1] * (foreground + background) - step * background) <= foreground + background)
    }
  }

  // R-NET-03, R-NET-05, R-DISK-01
  /// Foreground alone would fill the device at all times. Of more background one place less than the depth is
  /// in flight.
  @Test(arguments: PolicyTests.ratios.filter { $0.0 >= $0.1 })
  func servesInRatioWhileTheDeviceIsFull(foreground: Int, background: Int) throws {
    var scheduler = scheduler(
      DevicePolicy(ratio: try Ratio(foreground: foreground, background: background), depth: 4, cap: .none))
    for number in 0..<3000 { _ = scheduler.submit(number, app: number % 2, cost: four) }
    var (counts, flying) = ([0, 0], [IOScheduler<Int>.Grant]())
    for step in 1...1000 {
      while let grant = scheduler.next(now: UInt64(step)) {
        flying.append(grant)
        counts[grant.ioClass.index] += 1
        let granted = counts[0] + counts[1]
        #expect(abs(counts[1] * (foreground + background) - granted * background) <= foreground + background)
      }
      #expect(flying.count == 4)
      scheduler.finished(flying.removeFirst(), sentAt: 0, queuedAt: 0, now: UInt64(step))
    }
  }

  // R-DISK-01 R-CPU-01
  @Test(arguments: [DevicePolicy.QueuedRequests.follow, .stay])
  func whatTheForegroundWaitsForMovesUpInItsOrder(queued: DevicePolicy.QueuedRequests) throws {
    var policy = DevicePolicy(depth: 8, cap: .fixed(1))
    policy.queuedRequests = queued
    var scheduler = scheduler(policy)
    let tickets = (0..<5).compactMap { scheduler.submit($0, app: 1, cost: four) }
    let first = scheduler.next(now: 0)
    #expect(first?.item == 0 && first?.ioClass == .background)
    // The cap is reached, and the one at the device stays what it is.
    let (blocked, late) = (scheduler.next(now: 0), scheduler.donate(to: tickets[0]))
    #expect(blocked == nil && !late)
    let donated = [3, 2].map { scheduler.donate(to: tickets[$0]) }
    #expect(donated == [true, true])
    _ = scheduler.submit(5, app: 1, cost: four, isDonated: true)
    #expect(scheduler.queued == [3, 2])
    // Back and forth, the app's own requests go with it, and the donated ones stay.
    scheduler.setState(.active, of: 1)
    scheduler.setState(.background, of: 1)
    #expect(scheduler.queued == [3, 2])
    var order: [Int] = []
    while let grant = scheduler.next(now: 0) {
      #expect(grant.ioClass == .foreground)
      order.append(grant.item)
    }
    #expect(order == [2, 3, 5])
  }

  // R-DISK-01 R-PWR-05 R-FTS-07
  @Test func aRestrictedOrSuspendedAppIsNotHelped() throws {
    var scheduler = scheduler(DevicePolicy(depth: 8, cap: .fixed(1)))
    let tickets = (0..<3).compactMap { scheduler.submit($0, app: 1, cost: four) }
    _ = scheduler.next(now: 0)
    scheduler.setState(.background, of: 1, takesDonations: false)
    let donated = scheduler.donate(to: tickets[2])
    #expect(donated)
    let held = scheduler.next(now: 0)
    #expect(held == nil && scheduler.queued == [0, 2])
    scheduler.setState(.suspended, of: 1)
    scheduler.setState(.background, of: 1)
    #expect(scheduler.queued == [1, 1])
    scheduler.setState(.suspended, of: 1)
    let suspended = scheduler.next(now: 0)
    #expect(suspended == nil)
    scheduler.setState(.background, of: 1)
    let granted = scheduler.next(now: 0)
    #expect(granted?.item == 2 && granted?.ioClass == .foreground)
  }

  // R-DISK-02
  @Test func whatADonatedRequestHasPaidComesBack() {
    var scheduler = scheduler(DevicePolicy(depth: 8, bytes: .init(perSecond: 4096, burst: 1000)))
    let ticket = scheduler.submit(0, app: 1, cost: four)
    let waits = scheduler.next(now: 0)
    #expect(waits == nil && scheduler.bytes?.available == 0)
    let donated = ticket.map { scheduler.donate(to: $0) }
    #expect(donated == true && scheduler.bytes?.available == 1000)
    let granted = scheduler.next(now: 0)
    #expect(granted?.ioClass == .foreground && scheduler.bytes?.available == 1000)
  }

  // R-NET-04
  @Test func strictServesBackgroundOnlyWhenNoForegroundWaits() throws {
    var scheduler = scheduler(DevicePolicy(ratio: .strict, depth: 8, cap: .none))
    for number in 0..<40 { _ = scheduler.submit(number, app: number % 2, cost: four) }
    var served: [IOClass] = []
    while let grant = scheduler.next(now: 0) {
      served.append(grant.ioClass)
      scheduler.finished(grant, sentAt: 0, queuedAt: 0, now: 0)
    }
    #expect(served == Array(repeating: .foreground, count: 20) + Array(repeating: .background, count: 20))
  }

  // R-NET-04
  @Test func strictHoldsBackgroundWhileForegroundWaitsForRoom() {
    var scheduler = scheduler(DevicePolicy(ratio: .strict, depth: 2, cap: .none))
    for _ in 0..<3 { _ = scheduler.submit(0, app: 0, cost: four) }
    _ = scheduler.submit(1, app: 1, cost: Cost(bytes: 10, occupies: false))
    let answer2 = scheduler.next(now: 0)?.ioClass
    #expect(answer2 == .foreground)
    let answer3 = scheduler.next(now: 0)?.ioClass
    #expect(answer3 == .foreground)
    let answer4 = scheduler.next(now: 0)
    #expect(answer4 == nil)
  }

  // R-DISK-02
  @Test func capBoundsBackgroundInFlightAndLeavesRoom() {
    var scheduler = scheduler(DevicePolicy(depth: 4, cap: .fixed(2)))
    for number in 0..<10 { _ = scheduler.submit(number, app: 1, cost: four) }
    let answer5 = scheduler.next(now: 0)
    #expect(answer5 != nil)
    let answer6 = scheduler.next(now: 0)
    #expect(answer6 != nil)
    let answer7 = scheduler.next(now: 0)
    #expect(answer7 == nil)
    _ = scheduler.submit(1, app: 0, cost: four)
    let answer8 = scheduler.next(now: 0)?.ioClass
    #expect(answer8 == .foreground)
    var narrow = self.scheduler(DevicePolicy(depth: 3, cap: .none))
    for number in 0..<10 { _ = narrow.submit(number, app: 1, cost: four) }
    var count = 0
    while narrow.next(now: 0) != nil { count += 1 }
    #expect(count == 2)
  }

  // R-DISK-02
  @Test(arguments: [
    (DevicePolicy.Cap.fixed(8), 2), (.fixed(3), 1), (.adaptive(target: .seconds(1)), 4), (.none, 7),
  ])
  func backgroundYieldsWhileForegroundIsAtTheDevice(cap: DevicePolicy.Cap, besideForeground: Int) throws {
    for yields in [true, false] {
      var scheduler = scheduler(DevicePolicy(depth: 9, cap: cap, yieldsToForeground: yields))
      func backgroundInFlight() -> Int {
        while scheduler.next(now: 0) != nil {}
        return scheduler.inFlight[1]
      }
      _ = scheduler.submit(0, app: 0, cost: four)
      let granted = scheduler.next(now: 0)
      let foreground = try #require(granted)
      for number in 0..<20 { _ = scheduler.submit(number, app: 1, cost: four) }
      let beside = backgroundInFlight()
      scheduler.finished(foreground, sentAt: 0, queuedAt: 0, now: 0)
      let alone = backgroundInFlight()
      #expect(beside == (yields ? besideForeground : min(alone, 7)), "of \(alone)")
      #expect(alone >= beside && alone == min(scheduler.cap, 8))
    }
  }

  // R-DISK-02
  /// Reads that wait on their callers' threads were never granted, and count all the same.
  @Test func backgroundYieldsToReadsOnWorkers() throws {
    var scheduler = scheduler(DevicePolicy(depth: 9, cap: .fixed(8)))
    for number in 0..<20 { _ = scheduler.submit(number, app: 1, cost: four) }
    scheduler.foregroundElsewhere = 1
    while scheduler.next(now: 0) != nil {}
    #expect(scheduler.inFlight == [0, 2] && scheduler.yieldsElsewhere)
    scheduler.foregroundElsewhere = 0
    while scheduler.next(now: 0) != nil {}
    #expect(scheduler.inFlight == [0, 8] && !scheduler.yieldsElsewhere)
    // They take up the depth as well.
    scheduler.foregroundElsewhere = 1
    _ = scheduler.submit(0, app: 0, cost: four)
    #expect(scheduler.next(now: 0) == nil)
  }

  /// More of the background than the device takes, one of which ends in each turn.
  private func serveEightTurns(_ scheduler: inout IOScheduler<Int>) {
    for number in 0..<64 { _ = scheduler.submit(number, app: 1, cost: four) }
    for turn in 1...8 as ClosedRange<UInt64> {
      var last: IOScheduler<Int>.Grant?
      while let grant = scheduler.next(now: turn * 6_000_000) { last = grant }
      if let last { scheduler.finished(last, sentAt: 0, queuedAt: 0, now: turn * 6_000_000) }
    }
  }

  // R-DISK-02
  @Test(arguments: [true, false]) func theAdaptiveCapDoesNotRiseWhileForegroundWaits(waits: Bool) {
    var scheduler = scheduler(DevicePolicy(cap: .adaptive(target: .milliseconds(1))))
    if waits {
      _ = scheduler.submit(0, app: 0, cost: four)
      _ = scheduler.next(now: 0)
    }
    serveEightTurns(&scheduler)
    #expect(scheduler.cap == (waits ? 4 : 12))
  }

  // R-DISK-02
  @Test(arguments: [(DevicePolicy.Cap.fixed(8), 8), (.adaptive(target: .seconds(1)), 4)])
  func aTargetLeavesBackgroundAPartOfItsCap(cap: DevicePolicy.Cap, whole: Int) {
    var scheduler = scheduler(DevicePolicy(depth: 9, cap: cap))
    for number in 0..<20 { _ = scheduler.submit(number, app: 1, cost: four) }
    for eighths in 1...8 {
      scheduler.backgroundEighths = eighths
      while scheduler.next(now: 0) != nil {}
      #expect(scheduler.inFlight[1] == max(1, whole * eighths / 8))
    }
  }

  // R-DISK-02
  /// No two of the shares that targets move between, halved down to the least, are the same cap.
  @Test(arguments: 1...20) func theLeastShareStillChangesTheCap(whole: Int) {
    let policy = DevicePolicy(depth: 64, cap: .fixed(whole))
    var scheduler = scheduler(policy)
    func cap(_ eighths: Int) -> Int {
      scheduler.backgroundEighths = eighths
      return scheduler.cap
    }
    #expect(cap(8) == whole)
    for eighths in [8, 4, 2, 1] where eighths > 1 {
      #expect((cap(eighths / 2) < cap(eighths)) == (eighths / 2 >= policy.leastEighths), "\(eighths)")
    }
    #expect(DevicePolicy(cap: .fixed(whole), bytes: .init(perSecond: 1000)).leastEighths == 1)
    #expect(
      DevicePolicy(cap: .adaptive(target: .seconds(1), maximum: whole)).leastEighths == policy.leastEighths)
  }

  // R-DISK-02
  @Test func theDefaultCapsLeastShareIsAQuarter() {
    #expect(DevicePolicy.storage.leastEighths == 2)
  }

  // R-DISK-02
  /// Else it would grow until a part of it is as much as the whole was.
  @Test(arguments: [8, 4]) func theAdaptiveCapDoesNotRiseWhileAPartOfItHolds(eighths: Int) {
    var scheduler = scheduler(DevicePolicy(cap: .adaptive(target: .milliseconds(1))))
    scheduler.backgroundEighths = eighths
    serveEightTurns(&scheduler)
    scheduler.backgroundEighths = 8
    #expect(scheduler.cap == (eighths == 8 ? 12 : 4))
  }

  // R-DISK-02
  @Test func aTargetLeavesBackgroundAPartOfItsRates() throws {
    var scheduler = scheduler(
      DevicePolicy(cap: .none, bytes: .init(perSecond: 8_000_000, burst: 10_000), chunk: 1 << 20))
    scheduler.backgroundEighths = 2
    var (now, moved) = (UInt64(0), UInt64(0))
    for _ in 0..<20 { _ = scheduler.submit(0, app: 1, cost: Cost(bytes: 5_000)) }
    while scheduler.queued[1] > 0 {
      if let grant = scheduler.next(now: now) {
        moved += grant.cost.bytes
        scheduler.finished(grant, sentAt: now, queuedAt: now, now: now)
      } else {
        now = try #require(scheduler.wakeTime(now: now))
      }
    }
    // 100,000 bytes, of which the burst is there at once, at a quarter of the rate.
    #expect(moved == 100_000 && (45_000_000...46_000_000).contains(now), "after \(now) ns")
  }

  // R-DISK-02
  @Test func ratesHoldAndInstalmentsPayForWhatIsLarger() {
    var scheduler = scheduler(
      DevicePolicy(cap: .none, bytes: .init(perSecond: 1_000_000, burst: 10_000), chunk: 1 << 20))
    for _ in 0..<10 { _ = scheduler.submit(0, app: 1, cost: Cost(bytes: 25_000)) }
    var now: UInt64 = 0
    var moved: UInt64 = 0
    var waits = 0
    while scheduler.queued[1] > 0, waits < 1000 {
      if let grant = scheduler.next(now: now) {
        moved += grant.cost.bytes
        #expect(moved <= 10_000 + now / 1000)
        scheduler.finished(grant, sentAt: now, queuedAt: now, now: now)
      } else if let wake = scheduler.wakeTime(now: now) {
        #expect(wake > now)
        now = wake
        waits += 1
      }
    }
    #expect(moved == 250_000)
    #expect(now == 240_000_000)
  }

  /// Of a receive nobody knows beforehand what it brings: what it brought besides is paid before anything
  /// else goes, and no tokens are spent twice.
  // R-DISK-02, R-NET-03
  @Test func whatCameIsPaidForAfterwards() throws {
    var scheduler = scheduler(DevicePolicy(cap: .none, bytes: .init(perSecond: 1000, burst: 100)))
    for number in 0..<4 { _ = scheduler.submit(number, app: 1, cost: Cost(bytes: 50, occupies: false)) }
    let granted1 = scheduler.next(now: 0)
    let first = try #require(granted1)
    scheduler.finished(first, sentAt: 0, queuedAt: 0, now: 0)
    scheduler.charge(first, moved: 20)
    #expect(scheduler.bytes?.available == 80)
    let granted2 = scheduler.next(now: 0)
    let second = try #require(granted2)
    scheduler.finished(second, sentAt: 0, queuedAt: 0, now: 0)
    scheduler.charge(second, moved: 250)
    #expect(scheduler.bytes?.available == 30 && scheduler.debt == 200)
    // 30 of them at once; then, at half of the bucket at a time, the rest and what the next pays beforehand.
    var now: UInt64 = 0
    var isGranted = false
    while !isGranted, now < 1_000_000_000 {
      isGranted = scheduler.next(now: now) != nil
      if !isGranted { now = scheduler.wakeTime(now: now) ?? .max }
    }
    #expect(now == 220_000_000)
    #expect(scheduler.debt == 0 && scheduler.bytes?.available == 0)
    // Foreground owes nothing, nor background without a rate.
    _ = scheduler.submit(9, app: 0, cost: Cost(bytes: 50, occupies: false))
    let granted3 = scheduler.next(now: now)
    scheduler.charge(try #require(granted3), moved: 1000)
    #expect(scheduler.debt == 0)
  }

  /// A thread is woken late on a busy machine: what came in meanwhile still counts. Never above the rate,
  /// within 2 %.
  // R-DISK-02
  @Test(arguments: [(1_000_000, 65_536), (1_000_000, 100), (250_000_000, 65_536), (3_000_000, 10_000)])
  func lateWakeupsLoseNothing(rate: Int, cost: UInt64) {
    var generator = SplitMix64(seed: UInt64(rate))
    var scheduler = scheduler(DevicePolicy(cap: .none, bytes: .init(perSecond: rate, burst: rate / 100)))
    for number in 0..<4 { _ = scheduler.submit(number, app: 1, cost: Cost(bytes: cost)) }
    var now: UInt64 = 0
    var moved: UInt64 = 0
    while now < 10_000_000_000 {
      if let grant = scheduler.next(now: now) {
        moved += grant.cost.bytes
        scheduler.finished(grant, sentAt: now, queuedAt: now, now: now)
        _ = scheduler.submit(0, app: 1, cost: Cost(bytes: cost))
      } else {
        now = (scheduler.wakeTime(now: now) ?? .max) + UInt64.random(in: 0...4_000_000, using: &generator)
      }
    }
    let earned = UInt64(rate) * 10
    #expect(moved <= earned + UInt64(rate / 50) && moved >= earned - earned / 50, "\(moved) of \(earned)")
  }

  // R-DISK-02
  @Test func operationsAreLimitedToo() {
    var scheduler = scheduler(DevicePolicy(cap: .none, operations: .init(perSecond: 100, burst: 5)))
    for number in 0..<10 { _ = scheduler.submit(number, app: 1, cost: four) }
    var count = 0
    while scheduler.next(now: 0) != nil { count += 1 }
    #expect(count == 5)
    #expect(scheduler.wakeTime(now: 0) == 10_000_000)
    let answer9 = scheduler.next(now: 9_999_999)
    #expect(answer9 == nil)
    let answer10 = scheduler.next(now: 10_000_000)
    #expect(answer10 != nil)
  }

  // R-NET-07
  @Test func queuedRequestsFollowTheirApp() {
    var scheduler = scheduler(DevicePolicy(ratio: .strict, yieldsToForeground: false))
    for number in 0..<3 { _ = scheduler.submit(number, app: 1, cost: four) }
    for number in 10..<12 { _ = scheduler.submit(number, app: 0, cost: four) }
    scheduler.setState(.active, of: 1)
    scheduler.setState(.background, of: 0)
    #expect(scheduler.queued == [3, 2])
    let answer11 = (0..<5).compactMap { _ in scheduler.next(now: 0)?.item }
    #expect(answer11 == [0, 1, 2, 10, 11])
  }

  // R-NET-06
  @Test func queuedRequestsStayWhereTheyWere() {
    var scheduler = scheduler(DevicePolicy(ratio: .strict, yieldsToForeground: false, queuedRequests: .stay))
    for number in 0..<3 { _ = scheduler.submit(number, app: 1, cost: four) }
    scheduler.setState(.active, of: 1)
    _ = scheduler.submit(9, app: 1, cost: four)
    #expect(scheduler.queued == [1, 3])
    let answer12 = (0..<4).compactMap { _ in scheduler.next(now: 0)?.item }
    #expect(answer12 == [9, 0, 1, 2])
  }

  // R-DISK-01
  @Test(arguments: [true, false])
  func inactiveForegroundIsLimitedWhereConfigured(limits: Bool) {
    var scheduler = scheduler(DevicePolicy(limitsInactive: limits))
    scheduler.setState(.inactive, of: 0)
    _ = scheduler.submit(1, app: 0, cost: four)
    let answer13 = scheduler.next(now: 0)?.ioClass
    #expect(answer13 == (limits ? .background : .foreground))
  }

  // R-FTS-06
  @Test func suspendedAppsAreHeldAndResumedInOrder() {
    var scheduler = scheduler(DevicePolicy(cap: .none))
    for number in 0..<4 { _ = scheduler.submit(number, app: 0, cost: four) }
    let answer14 = scheduler.next(now: 0)?.item
    #expect(answer14 == 0)
    scheduler.setState(.suspended, of: 0)
    _ = scheduler.submit(4, app: 0, cost: four)
    let answer15 = scheduler.next(now: 0)
    #expect(answer15 == nil)
    scheduler.setState(.background, of: 0)
    let answer16 = (0..<4).compactMap { _ in scheduler.next(now: 0)?.item }
    #expect(answer16 == [1, 2, 3, 4])
  }

  @Test func appsOfAClassTakeTurns() {
    var scheduler = scheduler(DevicePolicy())
    scheduler.addApp(2, state: .active)
    for number in 0..<4 { _ = scheduler.submit(number, app: 0, cost: four) }
    _ = scheduler.submit(100, app: 2, cost: four)
    let answer17 = (0..<5).compactMap { _ in scheduler.next(now: 0)?.item }
    #expect(answer17 == [0, 100, 1, 2, 3])
  }

  @Test func chunksGoBackToTheirPlace() throws {
    var scheduler = scheduler(DevicePolicy())
    _ = scheduler.submit(1, app: 1, cost: four)
    _ = scheduler.submit(2, app: 1, cost: four)
    let granted18 = scheduler.next(now: 0)
    let first = try #require(granted18)
    scheduler.finished(first, sentAt: 0, queuedAt: 0, now: 0)
    _ = scheduler.submit(1, app: 1, cost: four, at: first.ticket)
    let answer19 = scheduler.next(now: 0)?.item
    #expect(answer19 == 1)
    let answer20 = scheduler.next(now: 0)?.item
    #expect(answer20 == 2)
  }

  @Test func cancelsWhatIsQueuedAndRefundsInstalments() throws {
    var scheduler = scheduler(DevicePolicy(cap: .none, bytes: .init(perSecond: 1000, burst: 100)))
    let tickets = (0..<3).compactMap { scheduler.submit($0, app: 1, cost: Cost(bytes: 250)) }
    let answer21 = scheduler.next(now: 0)
    #expect(answer21 == nil)
    #expect(scheduler.bytes?.available == 0)
    let answer22 = scheduler.cancel(tickets[1])
    #expect(answer22 == 1)
    let answer23 = scheduler.cancel(tickets[1])
    #expect(answer23 == nil)
    let answer24 = scheduler.cancel(tickets[0])
    #expect(answer24 == 0)
    #expect(scheduler.bytes?.available == 100)
    #expect(scheduler.queued == [0, 1])
    let answer25 = scheduler.removeApp(1)
    #expect(answer25 == [2])
    #expect(scheduler.queued == [0, 0])
    let answer26 = scheduler.submit(5, app: 1, cost: four)
    #expect(answer26 == nil)
  }
}
