import Glibc
import TestSupport
import Testing

@testable import OpportuneMemory

private let megabyte: UInt64 = 1_000_000

@Suite(.bounded) struct PressureTests {
  // R-MEM-02, R-MEM-03
  @Test func criticalPointsAreAnyShareWithThreePresets() throws {
    #expect(CriticalPoint.half.bytes(of: 256 * megabyte) == 128 * megabyte)
    #expect(CriticalPoint.threeQuarters.bytes(of: 256 * megabyte) == 192 * megabyte)
    #expect(CriticalPoint.nineTenths.bytes(of: 1000) == 900)
    #expect(try CriticalPoint(share: 0.123).bytes(of: 1000) == 123)
    #expect(try CriticalPoint(share: 1).bytes(of: .max) == .max)
    for share in [0, -0.5, 1.01, .nan, .infinity] {
      let error = try #require(throws: MemoryError.self) { try CriticalPoint(share: share) }
      #expect(error.code == .configuration && error.description.contains("above 0, at most 1"))
    }
  }

  // R-MEM-01, R-MEM-02
  @Test func levelsAreEnteredAtTheirPointAndLeftBelowTheMargin() throws {
    var gauge = try PressureGauge(warning: .half, critical: .threeQuarters, margin: 0.1)
    func read(_ inUse: UInt64) -> PressureLevel? { gauge.update(MemoryReading(capacity: 1000, inUse: inUse)) }
    #expect(read(499) == nil && gauge.level == .normal)
    #expect(read(500) == .warning)
    #expect(read(749) == nil)
    #expect(read(400) == nil, "still within the margin")
    #expect(read(399) == .normal)
    #expect(read(750) == .critical)
    #expect(read(700) == nil && read(650) == nil)
    #expect(read(649) == .warning)
    #expect(read(750) == .critical)
    #expect(read(0) == .normal)
    #expect(read(2000) == .critical)
  }

  // R-MEM-01
  @Test func excessLeadsBelowTheMargin() throws {
    let gauge = try PressureGauge(warning: .half, critical: .threeQuarters, margin: 0.05)
    #expect(gauge.excess(MemoryReading(capacity: 1000, inUse: 749)) == 0)
    #expect(gauge.excess(MemoryReading(capacity: 1000, inUse: 750)) == 51)
    #expect(gauge.excess(MemoryReading(capacity: 1000, inUse: .max)) > 0)
    var generator = SplitMix64(seed: 5)
    for _ in 0..<1000 {
      let capacity = UInt64.random(in: 1_000...1 << 50, using: &generator)
      let inUse = UInt64.random(in: 0...capacity, using: &generator)
      var raised = gauge
      raised.update(MemoryReading(capacity: capacity, inUse: inUse))
      let excess = gauge.excess(MemoryReading(capacity: capacity, inUse: inUse))
      #expect((excess > 0) == (raised.level == .critical))
      raised.update(MemoryReading(capacity: capacity, inUse: inUse - excess))
      #expect(raised.level != .critical, "\(inUse) of \(capacity)")
    }
  }

  @Test func refusesPointsThatDoNotFit() {
    #expect(throws: MemoryError.self) { try PressureGauge(warning: .nineTenths, critical: .half) }
    for margin in [-0.1, 0.5, .nan] {
      #expect(throws: MemoryError.self) { try PressureGauge(warning: .half, critical: .half, margin: margin) }
    }
    #expect(throws: MemoryError.self) { try makeBroker(budget: 0) }
  }

  // R-MEM-01, R-MEM-03, R-MEM-09
  @Test func removalStartsAt192OfThe256Megabytes() throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 256 * megabyte, remove: removed.add) {
      $0.gauge = .strict
    }
    let old = broker.makeMemory(named: "old", standing: .suspended)
    let front = broker.makeMemory(named: "front")
    try old.setOutside(bytes: 10 * megabyte)
    try front.setOutside(bytes: 182 * megabyte - 1)
    #expect(removed.all.isEmpty, "a byte below")
    try front.setOutside(bytes: 182 * megabyte)
    #expect(removed.all.map(\.app) == [old.number])
    let reason = try #require(removed.all.first).reason
    #expect(reason.hasPrefix("old was hibernated, suspended with 10 MB, because "))
    #expect(reason.contains("of 192 MB in use"))
    // It is on its way, and not asked for again; the active app is never asked for.
    try front.setOutside(bytes: 200 * megabyte)
    #expect(removed.all.count == 1)
    old.setStanding(.suspended)
    #expect(broker.relieve().removals.map(\.app) == [old.number])
  }

  // R-MEM-01, R-MEM-05, R-MEM-13
  @Test func purgingComesFirstAndRemovalOnlyForWhatIsLeft() throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 100 * megabyte, remove: removed.add) {
      $0.gauge = .strict
    }
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let small = broker.makeMemory(named: "small", standing: .background)
    let front = broker.makeMemory(named: "front")
    let caches = try (0..<30).map { _ in try behind.purgeable(of: UInt8.self, count: 1_000_000) }
    try small.setOutside(bytes: 5 * megabyte)
    try front.setOutside(bytes: 60 * megabyte)
    let room = try front.allocate(bytes: 5_000_000)
    #expect(removed.all.isEmpty)
    #expect(caches.contains { $0.isPurged })
    #expect(broker.ledger.inUse < 76 * megabyte)
    // All caches together do not make room for this.
    try front.setOutside(bytes: 72 * megabyte)
    #expect(caches.allSatisfy { $0.isPurged })
    #expect(removed.all.map(\.app) == [small.number])
    let relief = broker.relieve()
    #expect(relief.purged == 0 && relief.removals.isEmpty && relief.missing > 0)
    withExtendedLifetime(room) {}
  }

  // R-MEM-01, R-MEM-05
  @Test(arguments: PurgeMode.allCases)
  func pressureTakesAsTheOptionSays(mode: PurgeMode) throws {
    let broker = try makeBroker(budget: 100 << 20) {
      $0.gauge = .strict
      $0.mode = mode
    }
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<40).map { _ in try behind.purgeable(of: UInt8.self, count: 1 << 20) }
    for cache in caches { cache.fill(1) }
    let room = try broker.makeMemory(named: "front").allocate(bytes: 50 << 20)
    let taken = UInt64(16 << 20)
    #expect(broker.purges.bytes == taken)
    #expect(behind.ledger.purged == (mode == .eager ? taken : 0))
    #expect(behind.ledger.lazy == (mode == .lazy ? taken : 0))
    withExtendedLifetime(room) {}
  }

  /// It was handed out before, and is in use once more.
  // R-MEM-01, R-MEM-05
  @Test func whatIsFilledAgainNeedsRoomAsWell() throws {
    let broker = try makeBroker(budget: 100 << 20) { $0.gauge = .strict }
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<120).map { _ in try behind.purgeable(of: UInt8.self, count: 1 << 20) }
    for round in 0..<3 {
      for cache in caches {
        _ = cache.withContents { if case .purged = $0 { round } else { 0 } }
        #expect(broker.ledger.inUse <= 76 << 20, "\(broker.ledger)")
      }
    }
    #expect(broker.purges.regions > 120)
  }

  /// Their memory comes back as they go, and hibernation takes a while.
  // R-MEM-01
  @Test func nobodyElseIsRemovedForWhatIsOnItsWayOut() throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 100 * megabyte, remove: removed.add) { $0.gauge = .strict }
    let first = broker.makeMemory(named: "first", standing: .suspended)
    let second = broker.makeMemory(named: "second", standing: .suspended)
    let front = broker.makeMemory(named: "front")
    for app in [first, second] { try app.setOutside(bytes: 20 * megabyte) }
    try front.setOutside(bytes: 36 * megabyte)
    #expect(removed.all.map(\.app) == [first.number])
    try front.setOutside(bytes: 50 * megabyte)
    first.setStanding(.gone)
    #expect(broker.relieve().removals.isEmpty && removed.all.count == 1)
    try front.setOutside(bytes: 60 * megabyte)
    #expect(removed.all.map(\.app) == [first.number, second.number])
  }

  /// Somebody has hold of a gone app's memory: what does not come back is not waited for.
  // R-MEM-01
  @Test func whatAGoneAppKeepsIsMadeUpForByOthers() throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 100 * megabyte, remove: removed.add) { $0.gauge = .strict }
    let gone = broker.makeMemory(named: "gone", standing: .suspended)
    let other = broker.makeMemory(named: "other", standing: .suspended)
    for app in [gone, other] { try app.setOutside(bytes: 20 * megabyte) }
    let front = broker.makeMemory(named: "front")
    gone.setStanding(.gone)
    try front.setOutside(bytes: 50 * megabyte)
    #expect(removed.all.isEmpty)
    gone.finishReturning()
    gone.setStanding(.gone)
    #expect(broker.relieve().removals.map(\.app) == [other.number])
    // Back and away again, it is waited for once more.
    gone.setStanding(.active)
    gone.setStanding(.gone)
    other.setStanding(.suspended)
    #expect(broker.relieve().removals.isEmpty)
  }

  // R-MEM-08
  @Test func idleAppsAreRemovedWithoutPressure() throws {
    let now = HandClock()
    let broker = try makeBroker(clock: now.read) {
      var policy = RemovalPolicy()
      policy.idleLimit = .seconds(60)
      $0.removal = policy
    }
    let app = broker.makeMemory(named: "app")
    try app.setOutside(bytes: megabyte)
    now.time = 100_000_000_000
    app.setStanding(.suspended)
    now.time += 60_000_000_000
    #expect(broker.removeOverdue().isEmpty)
    now.time += 1
    let removals = broker.removeOverdue()
    #expect(removals.map(\.method) == [.hibernate])
    #expect(removals.first?.reason.contains("it was not in front for more than 60") == true)
    #expect(broker.removeOverdue().isEmpty, "it was asked for")
  }

  /// They go without being written, and an app is not larger for them.
  // R-MEM-05, R-MEM-08, R-MEM-10
  @Test func cachesDoNotKeepAnAppFromBeingHibernated() throws {
    let now = HandClock()
    let broker = try makeBroker(clock: now.read) {
      var policy = RemovalPolicy()
      policy.idleLimit = .seconds(60)
      policy.hibernatesUpTo = 8 * megabyte
      $0.removal = policy
    }
    let app = broker.makeMemory(named: "app", standing: .suspended)
    let large = broker.makeMemory(named: "large", standing: .suspended)
    try app.setOutside(bytes: 7 * megabyte)
    let cache = try app.purgeable(of: UInt8.self, count: 20_000_000)
    let kept = try large.purgeable(of: UInt8.self, count: 9_000_000, isVolatile: false)
    now.time = 100_000_000_000
    let removals = broker.removeOverdue()
    #expect(removals.map(\.app) == [app.number] && removals.map(\.method) == [.hibernate])
    #expect(removals.first?.reason.contains("with 27 MB, 7 MB of it not to be made again, because") == true)
    #expect(removals.first?.isOptional == true)
    // Nobody is terminated for what nobody needs.
    #expect(broker.removeOverdue().isEmpty && large.ledger.inUse > 8 * megabyte)
    withExtendedLifetime((cache, kept)) {}
  }

  // R-MEM-01
  @Test(.timeLimit(.minutes(1))) func levelsAreAnAsyncSequence() async throws {
    var broker: MemoryBroker? = try makeBroker(budget: 100 * megabyte) { $0.gauge = .strict }
    let levels = try #require(try broker?.levels())
    let app = try #require(broker?.makeMemory(named: "app"))
    var iterator = levels.makeAsyncIterator()
    #expect(await iterator.next() == .normal)
    try app.setOutside(bytes: 60 * megabyte)
    #expect(await iterator.next() == .warning)
    try app.setOutside(bytes: 80 * megabyte)
    #expect(await iterator.next() == .critical)
    // Less in use rings nobody: the thread looks by itself while memory is short.
    try app.setOutside(bytes: 0)
    #expect(await iterator.next() == .normal)
    var second = try #require(try broker?.levels()).makeAsyncIterator()
    #expect(await second.next() == .normal)
    broker = nil
    #expect(await iterator.next() == nil, "it ends with the broker")
    #expect(await second.next() == nil)
  }

  // R-MEM-01
  @Test func theMachinesMemoryIsRead() throws {
    let machine = try #require(MachineMemory.system.machineReading())
    let pages = UInt64(sysconf(Int32(_SC_PHYS_PAGES))) * UInt64(pageSize)
    #expect(
      machine.capacity > 0 && machine.capacity <= pages + pages / 16 && machine.inUse <= machine.capacity)
    let broker = try MemoryBroker()
    let reading = try #require(broker.reading)
    #expect(reading.capacity > 0 && reading.capacity <= machine.capacity)
    #expect(MachineMemory(proc: "/nowhere").reading() == nil)
  }
}

extension PressureGauge {
  /// Without a margin, so that figures are round.
  fileprivate static var strict: PressureGauge {
    guard let gauge = try? PressureGauge(margin: 0) else { preconditionFailure("in range") }
    return gauge
  }
}

/// What a broker asked for. Brokers here are used by one thread, which is also the one that asks.
final class Removals: @unchecked Sendable {
  private(set) var all: [Removal] = []
  var add: @Sendable (Removal) -> Void { { self.all.append($0) } }
}

/// Moved by hand, by one thread.
final class HandClock: @unchecked Sendable {
  var time: UInt64 = 0
  var read: @Sendable () -> UInt64 { { self.time } }
}
