import Glibc
import Opportune
import OpportuneBase

/// Figure 1: what access costs, where nobody else wants the same.
extension MemoryBench {
  func measurePin() throws -> [MemoryResult] {
    let region = try MemoryBroker().makeMemory(named: "bench").purgeable(of: UInt64.self, count: 512)
    let lock = Lock()
    let dictionary = LimitedDictionary(costLimit: Self.values * Self.valueBytes)
    fill { dictionary.insert($1, for: $0) }
    let rows = [Row("pin + unpin", "mutex", Self.dictionary), Row("mutex"), Row(Self.dictionary)]
    return try self.rows(.pin, unit: "ns", rows) { number in
      try Self.inTurns(
        number,
        [
          {
            try perOperation(2_000_000) { _ in
              region.withContents { contents in
                switch contents {
                case .intact(let buffer): buffer[0] | 1
                case .purged: 0
                }
              }
            }
          },
          {
            try perOperation(2_000_000) { index in lock.withLock { UInt64(index) | 1 } }
          },
          { try perOperation(500_000) { dictionary.withBytes(of: $0 % Self.values, firstWord) ?? 0 } },
        ])
    }
  }

  /// Look-ups that hit, and values that come in where each drives another out.
  func measureCache() throws -> [MemoryResult] {
    let limit = Self.values * Self.valueBytes
    let cache = try MemoryBroker().makeMemory(named: "bench").cache(by: Int.self, costLimit: limit)
    let dictionary = LimitedDictionary(costLimit: limit)
    let rows = [
      Row("cache, hit", "dictionary, hit"), Row("dictionary, hit"),
      Row("cache, insertion", "dictionary, insertion"),
      Row("dictionary, insertion"),
    ]
    return try self.rows(.cache, unit: "ns", rows) { number in
      try fill { _ = try cache.insert($1, for: $0) }
      fill { dictionary.insert($1, for: $0) }
      let hits = try Self.inTurns(
        number,
        [
          { try perOperation(500_000) { cache.withBytes(of: $0 % Self.values, firstWord) ?? 0 } },
          { try perOperation(500_000) { dictionary.withBytes(of: $0 % Self.values, firstWord) ?? 0 } },
        ])
      let value = [UInt8](repeating: 1, count: Self.valueBytes)
      let insertions = try value.withUnsafeBytes { bytes in
        try Self.inTurns(
          number,
          [
            { try perOperation(20_000) { try cache.insert(bytes, for: Self.values + $0) ? 1 : 0 } },
            {
              try perOperation(20_000) {
                dictionary.insert(bytes, for: Self.values + $0)
                return 1
              }
            },
          ])
      }
      return hits + insertions
    }
  }

  private static let dictionary = "dictionary with a cost limit"
  private static let values = 1000
  private static let valueBytes = 16 << 10

  private func fill(_ insert: (Int, UnsafeRawBufferPointer) throws -> Void) rethrows {
    for key in 0..<Self.values {
      try [UInt8](repeating: 1, count: Self.valueBytes).withUnsafeBytes { try insert(key, $0) }
    }
  }

  private func firstWord(_ bytes: UnsafeRawBufferPointer) -> UInt64 { bytes.load(as: UInt64.self) }

  /// Nanoseconds of one.
  ///
  /// - Parameter body: answers something other than 0 where it did what it was to do.
  private func perOperation(_ count: Int, _ body: (Int) throws -> UInt64) throws -> Double {
    var failures = 0
    let start = SystemClock.now()
    for index in 0..<count where try body(index) == 0 { failures += 1 }
    let time = elapsed(from: start, to: SystemClock.now())
    guard failures == 0 else { throw BenchError(.wrongAnswer, "\(failures) of \(count) found nothing") }
    return Double(time) / Double(count)
  }
}

/// What a cache like `NSCache` is at the least: a dictionary behind a mutex, with a list in the order of use,
/// and a limit to what its values cost.
final class LimitedDictionary: @unchecked Sendable {
  private final class Entry {
    let key: Int
    let bytes: UnsafeMutableRawBufferPointer
    unowned(unsafe) var older: Entry?
    unowned(unsafe) var newer: Entry?

    init(_ key: Int, _ content: UnsafeRawBufferPointer) {
      self.key = key
      bytes = .allocate(byteCount: content.count, alignment: 16)
      bytes.copyMemory(from: content)
    }

    deinit { bytes.deallocate() }
  }

  private let costLimit: Int
  // Under the lock.
  private let lock = Lock()
  private var entries: [Int: Entry] = [:]
  private unowned(unsafe) var oldest: Entry?
  private unowned(unsafe) var newest: Entry?
  private var cost = 0

  init(costLimit: Int) { self.costLimit = costLimit }

  var count: Int { entries.count }

  func insert(_ bytes: UnsafeRawBufferPointer, for key: Int) {
    let entry = Entry(key, bytes)
    lock.withLock {
      if let former = entries[key] { drop(former) }
      while cost + bytes.count > costLimit, let oldest { drop(oldest) }
      entries[key] = entry
      cost += bytes.count
      append(entry)
    }
  }

  func withBytes<Result>(of key: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
    let entry = lock.withLock { () -> Entry? in
      guard let entry = entries[key] else { return nil }
      unlink(entry)
      append(entry)
      return entry
    }
    return entry.map { body(UnsafeRawBufferPointer($0.bytes)) }
  }

  private func drop(_ entry: Entry) {
    unlink(entry)
    cost -= entry.bytes.count
    entries[entry.key] = nil
  }

  private func unlink(_ entry: Entry) {
    if let older = entry.older { older.newer = entry.newer } else { oldest = entry.newer }
    if let newer = entry.newer { newer.older = entry.older } else { newest = entry.older }
    (entry.older, entry.newer) = (nil, nil)
  }

  private func append(_ entry: Entry) {
    entry.older = newest
    if let newest { newest.newer = entry } else { oldest = entry }
    newest = entry
  }
}
