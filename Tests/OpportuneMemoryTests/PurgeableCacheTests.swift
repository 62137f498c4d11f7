import TestSupport
import Testing

@testable import OpportuneMemory

@Suite(.bounded) struct PurgeableCacheTests {
  private func insert(_ cache: PurgeableCache<Int>, _ key: Int, count: Int = 10) throws -> Bool {
    let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: key), count: count)
    return try bytes.withUnsafeBytes { try cache.insert($0, for: key) }
  }

  private func has(_ cache: PurgeableCache<Int>, _ key: Int, count: Int = 10) -> Bool {
    cache.withBytes(of: key) { bytes in
      bytes.count == count && bytes.allSatisfy { $0 == UInt8(truncatingIfNeeded: key) }
    } ?? false
  }

  // R-MEM-05
  @Test func countsHitsMissesPurgesAndEvictions() throws {
    let broker = try makeBroker()
    let app = broker.makeMemory(named: "app", standing: .background)
    let cache = try app.cache(by: Int.self, costLimit: 3 * pageSize)
    #expect(!has(cache, 1))
    for key in 1...3 { #expect(try insert(cache, key)) }
    #expect(has(cache, 1))
    // The least recently used goes: 2, since 1 was looked up.
    #expect(try insert(cache, 4))
    #expect(!has(cache, 2) && has(cache, 1) && has(cache, 3) && has(cache, 4))
    #expect(cache.totalCost == 3 * pageSize && cache.count == 3)
    #expect(cache.counters == .init(hits: 4, misses: 2, purges: 0, evictions: 1))
    #expect(broker.purge(.max) == UInt64(3 * pageSize))
    for key in [1, 3, 4] { #expect(!has(cache, key)) }
    #expect(cache.counters == .init(hits: 4, misses: 5, purges: 3, evictions: 1))
    #expect(cache.count == 0 && cache.totalCost == 0)
    #expect(try insert(cache, 1) && has(cache, 1))
  }

  /// Of an array, a slice, a text, and what lies in no contiguous memory.
  @Test func insertsBytesOfAnyCollection() throws {
    let cache = try makeBroker().makeMemory(named: "app").cache(by: Int.self, costLimit: 8 * pageSize)
    let bytes = (0..<100).map { UInt8($0) }
    #expect(try cache.insert(bytes, for: 1) && cache.insert(bytes[50...], for: 2))
    #expect(try cache.insert("text".utf8, for: 3) && cache.insert(bytes.reversed(), for: 4))
    let expected = [bytes, Array(bytes[50...]), Array("text".utf8), bytes.reversed()]
    for (key, bytes) in zip(1..., expected) {
      #expect(cache.withBytes(of: key) { Array($0) } == bytes)
    }
    #expect(try !cache.insert([UInt8](repeating: 1, count: 8 * pageSize + 1), for: 1))
    #expect(cache.withBytes(of: 1) { $0.count } == nil)
    #expect(throws: MemoryError.self) { try cache.insert([], for: 5) }
  }

  @Test func costsArePagesAndTheLimitHolds() throws {
    let cache = try makeBroker().makeMemory(named: "app").cache(by: Int.self, costLimit: 4 * pageSize)
    #expect(try !insert(cache, 1, count: 4 * pageSize + 1), "more than the limit")
    #expect(cache.count == 0)
    #expect(try insert(cache, 1, count: 4 * pageSize))
    #expect(try insert(cache, 2, count: pageSize + 1))
    #expect(cache.totalCost == 2 * pageSize && cache.counters.evictions == 1)
    #expect(try insert(cache, 2, count: 1))
    #expect(cache.totalCost == pageSize && has(cache, 2, count: 1))
    cache.remove(2)
    #expect(cache.count == 0 && cache.totalCost == 0)
    #expect(try insert(cache, 3))
    cache.removeAll()
    #expect(cache.count == 0 && cache.totalCost == 0 && !has(cache, 3))
  }

  /// At the limit an insertion maps no memory: it takes that of the entry it evicts, purged or not, with
  /// nothing of it left to be seen; not while somebody reads it.
  @Test func anInsertionAtTheLimitUsesTheMemoryOfWhatItEvicts() throws {
    let broker = try makeBroker()
    let cache = try broker.makeMemory(named: "app", standing: .background)
      .cache(by: Int.self, costLimit: 2 * pageSize)
    func address(_ key: Int) throws -> UInt {
      try #require(cache.withBytes(of: key) { UInt(bitPattern: $0.baseAddress) })
    }
    #expect(try insert(cache, 1, count: pageSize))
    let first = try address(1)
    #expect(try insert(cache, 2))
    #expect(try insert(cache, 3))
    #expect(try has(cache, 3) && address(3) == first)
    #expect(broker.purge(.max) == UInt64(2 * pageSize))
    #expect(try insert(cache, 4))
    #expect(has(cache, 4) && cache.count == 2)
    // While 4 is read its memory stays; 3 was purged and looked up, so it is gone.
    #expect(!has(cache, 3))
    #expect(try insert(cache, 5))
    try cache.withBytes(of: 4) { bytes in
      #expect(has(cache, 5))
      let areIn = try insert(cache, 6) && insert(cache, 7)
      #expect(areIn)
      #expect(bytes.allSatisfy { $0 == 4 } && !has(cache, 4))
    }
    #expect(has(cache, 6) && has(cache, 7))
  }

  @Test func refusesWhatMakesNoSense() throws {
    let app = try makeBroker().makeMemory(named: "app")
    let limit = try #require(throws: MemoryError.self) { try app.cache(by: Int.self, costLimit: 0) }
    #expect(limit.code == .configuration && limit.description.contains("more than 0"))
    let cache = try app.cache(by: Int.self, costLimit: pageSize)
    #expect(throws: MemoryError.self) { try insert(cache, 1, count: 0) }
  }

  /// Beside a model without purges: what is there is what the model has.
  @Test(arguments: [1, 2, 3] as [UInt64])
  func followsAModel(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let cache = try makeBroker().makeMemory(named: "app").cache(by: Int.self, costLimit: 5 * pageSize)
    var model: [(key: Int, count: Int)] = []  // oldest use first
    for _ in 0..<2000 {
      let key = Int.random(in: 0..<12, using: &generator)
      let at = model.firstIndex { $0.key == key }
      switch Int.random(in: 0..<4, using: &generator) {
      case 0, 1:
        let count = Int.random(in: 1...2 * pageSize, using: &generator)
        if let at { model.remove(at: at) }
        func pages(_ count: Int) -> Int { (count + pageSize - 1) / pageSize }
        while model.map({ pages($0.count) }).reduce(pages(count), +) > 5 { model.removeFirst() }
        model.append((key, count))
        #expect(try insert(cache, key, count: count))
      case 2:
        #expect(has(cache, key, count: at.map { model[$0].count } ?? 0) == (at != nil), "seed \(seed)")
        if let at { model.append(model.remove(at: at)) }
      default:
        cache.remove(key)
        if let at { model.remove(at: at) }
      }
      #expect(cache.count == model.count, "seed \(seed)")
    }
  }
}
