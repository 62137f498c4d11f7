import Foundation
import OpportuneModels
import Synchronization
import TestSupport
import Testing

@testable import OpportuneMemory

@Suite(.bounded) struct LedgerTests {
  // R-MEM-15
  @Test func eachKindIsInItsColumn() throws {
    let broker = try makeBroker()
    let app = broker.makeMemory(named: "app", standing: .background)
    let other = broker.makeMemory(named: "other")
    let page = UInt64(pageSize)
    var expected = MemoryLedger()

    let dirty = try app.allocate(bytes: 1)
    expected.dirty = page
    let clean = try app.map(file: "/proc/self/exe")
    expected.clean = (UInt64(clean.count) + page - 1) / page * page
    let region = try app.purgeable(of: UInt8.self, count: 2 * pageSize)
    expected.volatile = 2 * page
    let kept = try app.purgeable(of: UInt8.self, count: 3 * pageSize, isVolatile: false)
    expected.pinned = 3 * page
    try app.setOutside(bytes: 1_000_000)
    expected.dirty += 1_000_000
    #expect(app.ledger == expected)
    #expect(expected.handedOut == expected.dirty + expected.clean + 5 * page)
    #expect(expected.inUse == expected.dirty + 5 * page && expected.unreconstitutable == expected.dirty)

    var inside = region.withContents { _ in app.ledger }
    #expect(inside.pinned == 5 * page && inside.volatile == 0)
    kept.isVolatile = true
    #expect(broker.purge(.max) == 5 * page)
    #expect(app.ledger.purged == 5 * page && app.ledger.volatile == 0)
    inside = region.withContents { _ in app.ledger }
    #expect(inside.pinned == 2 * page && inside.purged == 3 * page)
    #expect(other.ledger == MemoryLedger())
    #expect(broker.ledger == app.ledger)
    withExtendedLifetime((dirty, clean, region, kept)) {}
  }

  // R-MEM-15
  @Test func wiredMemoryIsLockedAndCounted() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let block: MemoryBlock
    do {
      block = try app.allocate(bytes: pageSize, isWired: true)
    } catch {
      #expect(error.code != .configuration)
      return print("no memory may be locked here: \(error)")
    }
    #expect(app.ledger.wired == UInt64(pageSize))
    #expect(try isSanitized || ProcessMemory().wired >= UInt64(pageSize))
    #expect(block.kind == .wired)
    let far = try #require(throws: MemoryError.self) { try app.allocate(bytes: 1 << 45, isWired: true) }
    #expect(far.code != .configuration)
    #expect(app.ledger.wired == UInt64(pageSize))
  }

  /// Its pages go as others' do, and are locked again.
  // R-MEM-05, R-MEM-07, R-MEM-15
  @Test(.disabled(if: isSanitized, "a sanitizer locks nothing into memory"))
  func wiredMemoryIsLockedAgainWhenItComesBack() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let block: MemoryBlock
    do {
      block = try app.allocate(bytes: 8 * pageSize, isWired: true)
    } catch {
      return print("no memory may be locked here: \(error)")
    }
    block.bytes.initializeMemory(as: UInt8.self, repeating: 7)
    let before = try ProcessMemory().wired
    let memory = HeldMemory(block)
    let store = try HibernationStore(CrashDisk(size: 1 << 20))
    _ = try memory.withContent { try store.save("app", [UnsafeRawBufferPointer(start: nil, count: 0), $0]) }
    memory.giveBack()
    #expect(pagesInCore(block.bytes) == 0)
    #expect(try ProcessMemory().wired + 8 * UInt64(pageSize) == before)
    #expect(app.ledger == MemoryLedger())
    #expect(try store.record(of: "app").load(into: [memory]) == [])
    #expect(try block.bytes.allSatisfy { $0 == 7 } && ProcessMemory().wired == before)
    #expect(app.ledger.wired == 8 * UInt64(pageSize))
  }

  /// Nobody gets its share of what may be locked while it is away, so that its state is not lost for want of
  /// that.
  // R-MEM-07
  @Test(.disabled(if: isSanitized, "a sanitizer locks nothing into memory"))
  func wiredMemoryThatIsAwayKeepsItsShare() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let bytes = 8 * pageSize
      var limit = rlimit(rlim_cur: rlim_t(bytes), rlim_max: rlim_t(bytes))
      guard setrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0 else { _exit(2) }
      // Who may do everything may lock everything.
      if getuid() == 0, setuid(65534) != 0 { _exit(3) }
      let app = try makeBroker().makeMemory(named: "app")
      // none may be locked here
      guard let block = try? app.allocate(bytes: bytes, isWired: true) else { _exit(7) }
      block.bytes.initializeMemory(as: UInt8.self, repeating: 7)
      let memory = HeldMemory(block)
      let store = try HibernationStore(CrashDisk(size: 1 << 20))
      _ = try memory.withContent {
        try store.save("app", [UnsafeRawBufferPointer(start: nil, count: 0), $0])
      }
      memory.giveBack()
      let other = try? app.allocate(bytes: bytes, isWired: true)
      require(try store.record(of: "app").load(into: [memory]) == [], "it comes back")
      require(block.bytes.allSatisfy { $0 == 7 }, "as it was")
      withExtendedLifetime(other) {}
      _exit(7)
    }
  }

  /// It stays away then, with no page of it in main memory and none in the ledger, and may come back later.
  // R-MEM-07, R-MEM-15
  @Test(.disabled(if: isSanitized, "a sanitizer locks nothing into memory"))
  func wiredMemoryThatIsNotLockedAgainStaysAway() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let bytes = 8 * pageSize
      func allow(_ now: Int) -> Bool {
        var limit = rlimit(rlim_cur: rlim_t(now), rlim_max: rlim_t(bytes))
        return setrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0
      }
      guard allow(bytes) else { _exit(7) }  // none may be locked here
      // Who may do everything may lock everything.
      if getuid() == 0, setuid(65534) != 0 { _exit(3) }
      let app = try makeBroker().makeMemory(named: "app")
      let block = try app.allocate(bytes: bytes, isWired: true)
      let plain = try app.allocate(bytes: bytes)
      for block in [block, plain] { block.bytes.initializeMemory(as: UInt8.self, repeating: 7) }
      let memory = [HeldMemory(plain), HeldMemory(block)]
      let store = try HibernationStore(CrashDisk(size: 1 << 20))
      let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
      _ = try store.save("app", [nothing] + [plain, block].map { UnsafeRawBufferPointer($0.bytes) })
      for held in memory { held.giveBack() }
      require(app.ledger == MemoryLedger() && allow(0), "all is away")
      require(try store.record(of: "app").load(into: memory) == nil, "it is refused")
      require(app.ledger == MemoryLedger(), "\(app.ledger) is counted")
      require(pagesInCore(block.bytes) == 0 && pagesInCore(plain.bytes) == 0, "no page is there")
      require(allow(bytes), "it may be locked again")
      require(try store.record(of: "app").load(into: memory) == [], "it comes back")
      require(block.bytes.allSatisfy { $0 == 7 } && app.ledger.wired == UInt64(bytes), "as it was")
      _exit(7)
    }
  }

  /// Locked pages do not go as others do.
  // R-MEM-06, R-MEM-15
  @Test func ofADamagedRecordNothingStaysInWiredMemory() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let block: MemoryBlock
    do {
      block = try app.allocate(bytes: 8 * pageSize, isWired: true)
    } catch {
      return print("no memory may be locked here: \(error)")
    }
    block.bytes.copyBytes(from: (0..<block.count).map { UInt8(truncatingIfNeeded: $0 &* 7 / 3) })
    let disk = CrashDisk(size: 1 << 20)
    let store = try HibernationStore(disk)
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    _ = try store.save("app", [nothing, UnsafeRawBufferPointer(block.bytes)])
    let memory = HeldMemory(block)
    memory.giveBack()
    disk.seen[try store.record(of: "app").entry.offset + 100] ^= 1
    #expect(throws: StoreError(.damagedRecord, "")) { try store.record(of: "app").load(into: [memory]) }
    #expect(app.ledger == MemoryLedger() && (isSanitized || pagesInCore(block.bytes) == 0))
    #expect(block.bytes.allSatisfy { $0 == 0 })
  }

  /// It is in its file.
  // R-MEM-05
  @Test func ofAFilesPagesNothingIsWritten() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let block = try app.map(file: "/proc/self/exe")
    #expect(HeldMemory(block).withContent { $0.count } == 0 && block.count > 0)
  }

  @Test func refusesWhatMakesNoSense() throws {
    let app = try makeBroker().makeMemory(named: "app")
    for bytes in [0, -1, .max] {
      let error = try #require(throws: MemoryError.self) { try app.allocate(bytes: bytes) }
      #expect(error.code == .configuration && error.description.contains("\(bytes)"))
    }
    #expect(throws: MemoryError.self) { try app.map(file: "/nowhere") }
    #expect(throws: MemoryError.self) { try app.map(file: "/dev/null") }
    #expect(throws: MemoryError.self) { try app.setOutside(bytes: 1 << 48) }
    #expect(app.ledger == MemoryLedger())
  }

  /// Of one app, and nobody else's; they are loaded again, and places in the list serve again.
  // R-MEM-05, R-LIFE-07
  @Test func aFilesPagesGoWithWhatCanBeMadeAgain() throws {
    // A file each: of one that both map the kernel may take the pages from both, where they are large.
    let files = (0..<2).map { _ in
      FileManager.default.temporaryDirectory.appending(path: "opportune-file-\(UUID())")
    }
    defer { for file in files { try? FileManager.default.removeItem(at: file) } }
    for file in files { try Data(repeating: 7, count: 64 * pageSize).write(to: file) }
    let broker = try makeBroker()
    let apps = [broker.makeMemory(named: "one"), broker.makeMemory(named: "other")]
    for round in 0..<3 {
      let blocks = try zip(apps, files).map { try $0.map(file: $1.path) }
      for block in blocks { #expect(block.bytes.allSatisfy { $0 == 7 }) }
      #expect(residentPages(blocks[0].bytes) > 0)
      if round == 1 { apps[0].takeBack() } else { apps[0].purge() }
      #expect(residentPages(blocks[0].bytes) == 0, "round \(round)")
      #expect(residentPages(blocks[1].bytes) == 64, "it is another's")
      #expect(blocks[0].bytes.allSatisfy { $0 == 7 })
    }
    #expect(broker.ledger == MemoryLedger())
  }

  /// Whoever ends last unmaps it.
  // R-MEM-05
  @Test func aFileThatIsClosedWhileItsPagesAreDroppedGoesAfterwards() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-closed-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(repeating: 7, count: 4 * pageSize).write(to: URL(fileURLWithPath: path))
    let broker = try makeBroker()
    var block: MemoryBlock? = try broker.makeMemory(named: "app").map(file: path)
    let start = try #require(block?.bytes.baseAddress)
    var wasMapped = false
    broker.core.files.drop { _ in
      block = nil
      wasMapped = resident(around: start) != nil
      return true
    }
    #expect(block == nil && wasMapped && resident(around: start) == nil)
  }

  /// Files are mapped and unmapped by some threads while another drops their pages.
  // R-MEM-05
  @Test func filesComeAndGoWhileTheirPagesAreDropped() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-files-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(repeating: 7, count: 4 * pageSize).write(to: URL(fileURLWithPath: path))
    let broker = try makeBroker()
    let wrong = Atomic<Int>(0)
    DispatchQueue.concurrentPerform(iterations: 4) { index in
      let app = broker.makeMemory(named: "app\(index)")
      for _ in 0..<500 {
        guard index > 0 else {
          broker.core.files.drop { _ in true }
          continue
        }
        // Memory that takes the place of a file which is being dropped keeps its content.
        guard let file = try? app.map(file: path), let block = try? app.allocate(bytes: 4 * pageSize) else {
          wrong.add(1, ordering: .relaxed)
          continue
        }
        block.bytes.initializeMemory(as: UInt8.self, repeating: 9)
        if !file.bytes.allSatisfy({ $0 == 7 }) || !block.bytes.allSatisfy({ $0 == 9 }) {
          wrong.add(1, ordering: .relaxed)
        }
      }
    }
    #expect(wrong.load(ordering: .relaxed) == 0 && broker.ledger == MemoryLedger())
  }

  /// A scope that finds another making the content has a buffer of its own.
  // R-MEM-15
  @Test func whatAScopeHasForItselfIsCounted() throws {
    let broker = try makeBroker()
    let app = broker.makeMemory(named: "app")
    let region = try app.purgeable(of: UInt8.self, count: 3 * pageSize)
    func balances() -> Bool {
      app.ledger == broker.ledger && broker.ledger.handedOut == broker.core.use.total
    }
    try region.purge()
    region.withContents { _ in
      region.withContents { _ in
        #expect(app.ledger.pinned == UInt64(2 * region.bytes) && balances())
        region.withContents { _ in #expect(app.ledger.pinned == UInt64(3 * region.bytes) && balances()) }
      }
      #expect(app.ledger.pinned == UInt64(region.bytes) && balances())
    }
    #expect(app.ledger.volatile == UInt64(region.bytes) && app.ledger.pinned == 0 && balances())
  }

  // R-MEM-05, R-MEM-15
  @Test(.disabled(if: isSanitized, "a sanitizer's own memory grows meanwhile"))
  func whatIsClosedIsGoneFromTheProcess() throws {
    let broker = try makeBroker()
    let app = broker.makeMemory(named: "app")
    var blocks: [MemoryBlock] = [try app.allocate(bytes: 1024 * pageSize)]
    blocks[0].bytes.initializeMemory(as: UInt8.self, repeating: 1)
    var region: Purgeable<UInt8>? = try app.purgeable(of: UInt8.self, count: 1024 * pageSize)
    region?.fill(1)
    let before = try ProcessMemory().resident
    blocks = []
    region = nil
    let after = try ProcessMemory().resident
    #expect(broker.ledger == MemoryLedger())
    // Reading the figures takes a few pages itself, and so does whatever else the process has running.
    #expect(before >= after + 2000 * UInt64(pageSize))
  }

  /// Random operations on several apps beside a model that counts by itself.
  // R-MEM-15
  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func sumsBalanceWhateverIsDone(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let broker = try makeBroker()
    let apps = (0..<4).map { broker.makeMemory(named: "app\($0)", standing: .suspended) }
    enum State { case pinned, volatile, lazy, purged }
    var regions: [(app: Int, region: Purgeable<UInt8>, state: State)] = []
    var blocks: [(app: Int, block: MemoryBlock)] = []
    var outside = [UInt64](repeating: 0, count: apps.count)

    for step in 0..<1500 {
      let app = Int.random(in: apps.indices, using: &generator)
      let index = regions.isEmpty ? nil : Int.random(in: regions.indices, using: &generator)
      switch Int.random(in: 0..<9, using: &generator) {
      case 0:
        let isVolatile = Bool.random(using: &generator)
        let count = Int.random(in: 1...4 * pageSize, using: &generator)
        let region = try apps[app].purgeable(of: UInt8.self, count: count, isVolatile: isVolatile)
        regions.append((app, region, isVolatile ? .volatile : .pinned))
      case 1: if let index { regions.remove(at: index) }
      case 2: blocks.append((app, try apps[app].allocate(bytes: Int.random(in: 1...9999, using: &generator))))
      case 3: if !blocks.isEmpty { blocks.remove(at: Int.random(in: blocks.indices, using: &generator)) }
      case 4:
        outside[app] = UInt64.random(in: 0..<1_000_000, using: &generator)
        try apps[app].setOutside(bytes: outside[app])
      case 5:
        guard let index else { continue }
        let given = try regions[index].region.purge()
        #expect((given > 0) == [.volatile, .lazy].contains(regions[index].state))
        if given > 0 { regions[index].state = .purged }
      case 6:
        guard let index else { continue }
        let given = try regions[index].region.purge(.lazy)
        #expect((given > 0) == (regions[index].state == .volatile))
        if given > 0 { regions[index].state = .lazy }
      default:
        guard let index else { continue }
        regions[index].region.fill(UInt8.random(in: 1...255, using: &generator))
        regions[index].region.isVolatile = Bool.random(using: &generator)
        regions[index].state = regions[index].region.isVolatile ? .volatile : .pinned
      }

      var expected = [MemoryLedger](repeating: MemoryLedger(), count: apps.count)
      for app in apps.indices { expected[app].dirty = outside[app] }
      for (app, block) in blocks { expected[app].dirty += UInt64(block.count) }
      for (app, region, state) in regions {
        let bytes = UInt64(region.bytes)
        switch state {
        case .pinned: expected[app].pinned += bytes
        case .volatile: expected[app].volatile += bytes
        case .lazy: expected[app].lazy += bytes
        case .purged: expected[app].purged += bytes
        }
      }
      let found = broker.ledgers()
      for app in apps.indices {
        #expect(found.apps[apps[app].number] == expected[app], "seed \(seed), step \(step)")
      }
      #expect(found.total == expected.reduce(MemoryLedger(), +), "seed \(seed), step \(step)")
      #expect(found.total.handedOut == broker.core.use.total)
    }
  }

  // R-MEM-15
  @Test func sumsBalanceWhoeverElseChangesThem() throws {
    let broker = try makeBroker()
    let app = broker.makeMemory(named: "app", standing: .suspended)
    together(4) { thread in
      for _ in 0..<4000 {
        switch thread {
        case 0: try? app.setOutside(bytes: 1 << 30)
        case 1: app.takeBack()
        case 2: _ = try? app.purgeable(of: UInt8.self, count: 1).purge()
        default: _ = try? app.allocate(bytes: 1)
        }
      }
    }
    try app.setOutside(bytes: 5)
    #expect(broker.ledgers().total.handedOut == 5)
    #expect(broker.core.use.total == 5)
  }

  // R-MEM-15
  @Test func aProcessIsSampledNoMoreOftenThanAllowed() throws {
    var sampler = try ProcessSampler(interval: .seconds(10))
    let first = try sampler.sample(now: 5_000_000_000)
    #expect(first.resident > 0 && first.proportional > 0 && first.proportional <= first.resident)
    #expect(first.dirty + first.clean + first.lazy <= first.resident + first.lazy)
    // Much more than what other parts of the process, such as a sanitizer, may give back meanwhile.
    let block = try makeBroker().makeMemory(named: "app").allocate(bytes: 16_384 * pageSize)
    block.bytes.initializeMemory(as: UInt8.self, repeating: 1)
    #expect(try sampler.sample(now: 14_999_999_999) == first)
    let second = try sampler.sample(now: 15_000_000_000)
    #expect(second.dirty >= first.dirty + UInt64(12_288 * pageSize))
    #expect(throws: MemoryError.self) { try ProcessSampler(interval: .seconds(-1)) }
    #expect(throws: MemoryError.self) { try ProcessMemory(of: .max) }
  }
}
