import Foundation
import OpportuneRocksDB

extension Settings {
  var pairs: Pairs { Pairs(count: keys, valueBytes: valueBytes) }
  var loadedPath: String { folder + "/loaded" }
  var windowPath: String { folder + "/window" }
  /// Pairs in one write: a hundredth of a second of them.
  var pairsPerWrite: Int { max(1, Int(writtenMB * 10_000) / (Pairs.keyBytes + valueBytes)) }

  /// Makes the database that each window gets a copy of: all keys, compacted into one sorted run.
  func load() throws {
    let pairs = self.pairs
    var options = Database.Options()
    options.loads = true
    options.blockCacheBytes = cacheMB << 20
    let database = try Database(at: loadedPath, environment: nil, options: options)
    let batch = Batch(of: pairs, capacity: 1000)
    for first in stride(from: 0, to: keys, by: 1000) {
      try batch.write(Array(first..<min(first + 1000, keys)), as: 0, to: database)
    }
    try database.close()
    // Opened as the windows open it, so that its files have the sizes that theirs have.
    let compacted = try Database(at: loadedPath, environment: nil, options: self.options(of: .rocksdb))
    try compacted.compactAll()
    try compacted.close()
  }

  /// A copy by hard links, in place of one that an earlier window left.
  func copyLoaded() throws {
    try? FileManager.default.removeItem(atPath: windowPath)
    let database = try Database(at: loadedPath, environment: nil, options: Database.Options())
    try database.checkpoint(at: URL(fileURLWithPath: windowPath).path)
    try database.close()
  }

  func options(of contender: Contender) -> Database.Options {
    var options = Database.Options()
    options.blockCacheBytes = cacheMB << 20
    options.writeBufferBytes = bufferMB << 20
    options.backgroundJobs = backgroundJobs
    options.readsDirectly = readsDirectly
    if contender == .tuned {
      options.rateLimit = rateLimitMB * 1_000_000
      options.lowersBackground = true
    }
    return options
  }
}

/// Memory for the pairs of one write. Used by one thread at a time.
final class Batch: @unchecked Sendable {
  private let pairs: Pairs
  private let keyBytes: UnsafeMutableRawBufferPointer
  private let valueBytes: UnsafeMutableRawBufferPointer

  init(of pairs: Pairs, capacity: Int) {
    self.pairs = pairs
    keyBytes = .allocate(byteCount: capacity * Pairs.keyBytes, alignment: 8)
    valueBytes = .allocate(byteCount: capacity * pairs.valueBytes, alignment: 8)
  }

  deinit {
    keyBytes.deallocate()
    valueBytes.deallocate()
  }

  func write(_ keys: [Int], as write: UInt32, to database: Database) throws {
    func part(_ range: Range<Int>, of memory: UnsafeMutableRawBufferPointer, each bytes: Int)
      -> UnsafeMutableRawBufferPointer
    {
      UnsafeMutableRawBufferPointer(rebasing: memory[range.lowerBound * bytes..<range.upperBound * bytes])
    }
    for (index, key) in keys.enumerated() {
      pairs.putKey(key, into: part(index..<index + 1, of: keyBytes, each: Pairs.keyBytes))
      pairs.putValue(
        of: key, write: write, into: part(index..<index + 1, of: valueBytes, each: pairs.valueBytes))
    }
    try database.write(
      keys: UnsafeRawBufferPointer(part(0..<keys.count, of: keyBytes, each: Pairs.keyBytes)),
      values: UnsafeRawBufferPointer(part(0..<keys.count, of: valueBytes, each: pairs.valueBytes)),
      count: keys.count)
  }
}
