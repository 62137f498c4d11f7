import TestSupport
import Testing

@testable import OpportuneMemory

private let megabyte: UInt64 = 1_000_000

/// Several who make room at the same time, and how much work it is.
@Suite(.bounded) struct ReliefTests {
  /// Who allocates, who fills again and the monitor come to it at once.
  // R-MEM-01, R-MEM-05
  @Test func whoeverElsePurgesNoMoreGoesThanIsNeeded() throws {
    for round in 0..<200 {
      let page = UInt64(pageSize)
      let broker = try makeBroker(budget: 100 * page) { $0.gauge = try PressureGauge(margin: 0) }
      let front = broker.makeMemory(named: "front")
      let behind = broker.makeMemory(named: "behind", standing: .background)
      let caches = try (0..<40).map { _ in try behind.purgeable(of: UInt8.self, count: 1) }
      // Without a word to the broker, which would make room for it.
      front.record.outside.store(45 * page, ordering: .relaxed)
      together(4) { _ in broker.relieve() }
      // 85 pages in use, of which 74 may stay.
      #expect(broker.purges.regions == 11, "round \(round)")
      #expect(broker.ledger.inUse == 74 * page)
      withExtendedLifetime(caches) {}
    }
  }

  /// Between two readings of who is leaving, somebody else asks.
  // R-MEM-01, R-MEM-09
  @Test func whoeverElseRemovesAppsNoMoreGoThanIsNeeded() throws {
    let removed = Removals()
    let other = Intruder()
    let broker = try makeBroker(budget: 100 * megabyte, clock: other.clock, remove: removed.add) {
      $0.gauge = try PressureGauge(margin: 0)
    }
    let apps = (0..<3).map { broker.makeMemory(named: "app\($0)", standing: .suspended) }
    for app in apps { try app.setOutside(bytes: 10 * megabyte) }
    let front = broker.makeMemory(named: "front")
    try front.setOutside(bytes: 40 * megabyte)
    other.acts = { broker.relieve() }
    try front.setOutside(bytes: 48 * megabyte)
    #expect(other.acts == nil, "it came in between")
    #expect(removed.all.map(\.app) == [apps[0].number])
    other.acts = nil
  }

  /// 62.9 of 80 MB are in use, 60 are the critical point, and 56 are aimed at.
  // R-MEM-01, R-MEM-09
  @Test(arguments: [true, false]) func whoIsInFrontDoesNotGoForTheMargin(isAway: Bool) throws {
    let removed = Removals()
    let broker = try makeBroker(budget: 80 * megabyte, remove: removed.add)
    let behind = broker.makeMemory(named: "behind", standing: .suspended)
    try behind.setOutside(bytes: 5 * megabyte)
    let coming = broker.makeMemory(named: "coming", standing: .inactive)
    for bytes in [50_000_000, 57_900_000] as [UInt64] { try coming.setOutside(bytes: bytes) }
    #expect(removed.all.map(\.app) == [behind.number])
    // It is being hibernated, and has all of its memory still.
    if isAway { behind.setStanding(.gone) }
    broker.relieve()
    #expect(removed.all.map(\.app) == [behind.number], "what is on its way out counts as gone")
    // Without it there are 60 in use.
    try coming.setOutside(bytes: 60 * megabyte)
    #expect(removed.all.map(\.app) == [behind.number, coming.number])
  }

  /// Who needs some at the same time is made room for as well.
  // R-MEM-01
  @Test func roomIsMadeForAllWhoNeedItAtOnce() throws {
    let page = UInt64(pageSize)
    let broker = try makeBroker(budget: 100 * page) { $0.gauge = try PressureGauge(margin: 0) }
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<70).map { _ in try behind.purgeable(of: UInt8.self, count: 1) }
    broker.core.use.wanting(10 * page) { _ in broker.core.makeRoom(for: Int(10 * page)) }
    #expect(broker.purges.regions == 16, "70 pages and twice 10 are 16 too many")
    withExtendedLifetime(caches) {}
  }

  /// It is not in use, and taking it makes no room.
  // R-MEM-01, R-GFX-05
  @Test func whatWasGivenLazilyMakesNoRoom() throws {
    let broker = try makeBroker(budget: 100 << 20) { $0.gauge = try PressureGauge(margin: 0) }
    let game = broker.makeMemory(named: "game")
    let drawing = try game.drawing(bytes: 20 << 20)
    drawing.fill(1)
    game.setStanding(.suspended)
    #expect(game.ledger.lazy == 20 << 20)
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<40).map { _ in try behind.purgeable(of: UInt8.self, count: 1 << 20) }
    let room = try broker.makeMemory(named: "front").allocate(bytes: 50 << 20)
    #expect(broker.ledger.inUse < 75 << 20)
    #expect(caches.count(where: \.isPurged) == 16 && !drawing.isPurged)
    withExtendedLifetime(room) {}
  }

  // MARK: How much work it is

  /// What was purged stays handed out: an allocation need not walk over it to find that there is room.
  // R-MEM-01
  @Test func thereIsAWalkForEachPartOfTheBudgetAndNotForEachAllocation() throws {
    let page = UInt64(pageSize)
    let broker = try makeBroker(budget: 25_600 * page)
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<100).map { _ in try behind.purgeable(of: UInt8.self, count: 250 * pageSize) }
    let before = broker.core.walks.load(ordering: .relaxed)
    let front = broker.makeMemory(named: "front")
    for _ in 0..<2000 { _ = try front.purgeable(of: UInt8.self, count: 1) }
    // Each 256th of the budget, of 100 pages, at the most.
    #expect(broker.core.walks.load(ordering: .relaxed) - before <= 2000 / 100 + 1)
    #expect(broker.ledger.inUse < 25_600 * page * 3 / 4)
    withExtendedLifetime(caches) {}
  }

  /// The active app has it all: there is nothing to take, and nobody to ask.
  // R-MEM-01
  @Test func whereNothingCanGoNotEachAllocationLooksForIt() throws {
    let page = UInt64(pageSize)
    let broker = try makeBroker(budget: 25_600 * page)
    let front = broker.makeMemory(named: "front")
    let held = try (0..<100).map { _ in
      try front.purgeable(of: UInt8.self, count: 200 * pageSize, isVolatile: false)
    }
    let before = broker.core.walks.load(ordering: .relaxed)
    for _ in 0..<2000 { _ = try front.purgeable(of: UInt8.self, count: 1) }
    #expect(broker.core.walks.load(ordering: .relaxed) - before <= 2000 / 100 + 1)
    // Asked for, it looks.
    #expect(broker.relieve().missing > 0)
    withExtendedLifetime(held) {}
  }

  /// A scope that finds its content still there says nothing to the broker.
  // R-MEM-01, R-GFX-05
  @Test func whatIsHadBackFromTheKernelCountsAtTheNextAllocation() throws {
    let page = UInt64(pageSize)
    let broker = try makeBroker(budget: 1000 * page)
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<70).map { _ in try behind.purgeable(of: UInt8.self, count: 10 * pageSize) }
    for cache in caches { cache.fill(1) }
    #expect(broker.purge(.max, mode: .lazy) == 700 * page)
    let front = broker.makeMemory(named: "front")
    try front.setOutside(bytes: 100 * page)
    #expect(broker.ledger.inUse == 100 * page, "nothing had to go")
    for cache in caches { cache.fill(1) }
    try #require(broker.ledger.inUse == 800 * page, "the kernel took none")
    try front.setOutside(bytes: 110 * page)
    #expect(broker.ledger.inUse < 750 * page)
  }

  /// Whatever is done, an allocation leaves no more in use than the critical point and the part between two
  /// walks, and what was had back from the kernel since the last one, of which nobody is told.
  // R-MEM-01
  @Test(arguments: [1, 2, 3] as [UInt64])
  func useStaysBelowTheCriticalPoint(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let page = UInt64(pageSize)
    let broker = try makeBroker(budget: 2560 * page) { $0.mode = seed == 3 ? .lazy : .eager }
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let front = broker.makeMemory(named: "front")
    var caches: [Purgeable<UInt8>] = []
    var (held, hadBack, walks): (UInt64, UInt64, UInt64) = (0, 0, 0)
    for step in 0..<2000 {
      let lazy = broker.ledger.lazy
      switch Int.random(in: 0..<6, using: &generator) {
      case 0, 1:
        caches.append(
          try behind.purgeable(of: UInt8.self, count: pageSize * Int.random(in: 1...20, using: &generator)))
      case 2:
        caches.randomElement(using: &generator)?.fill(1)
        hadBack += lazy - min(broker.ledger.lazy, lazy)
      case 3: if caches.count > 300 { caches.remove(at: Int.random(in: caches.indices, using: &generator)) }
      case 4: broker.purge(20 * page, mode: .lazy)
      default:
        held = UInt64.random(in: 0...1500, using: &generator) * page
        try front.setOutside(bytes: held)
      }
      let newWalks = broker.core.walks.load(ordering: .relaxed)
      if newWalks != walks { (walks, hadBack) = (newWalks, 0) }
      #expect(broker.ledger.inUse < (1920 + 10) * page + hadBack, "seed \(seed), step \(step)")
    }
  }
}
