import Synchronization

/// The blocks that were used last, in shards behind a lock each: what programs have that bring their own
/// cache.
final class LRUBlockMemory: BlockMemory {
  private static let shards = 16

  private final class Shard: Sendable {
    let state: Mutex<State>
    init(blocks: Int) { state = Mutex(State(limit: blocks)) }
  }

  private let shards: [Shard]

  init(bytes: Int) {
    let blocks = max(1, bytes / DiskBlock.size / Self.shards)
    shards = (0..<Self.shards).map { _ in Shard(blocks: blocks) }
  }

  func withBlock<Value>(
    _ key: BlockKey, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) throws -> Value? {
    // A copy of the reference; the block is looked at outside the lock.
    guard let block = shard(of: key).state.withLock({ $0.use(key) }) else { return nil }
    return try block.withUnsafeBytes(body)
  }

  func insert(_ bytes: UnsafeRawBufferPointer, for key: BlockKey) {
    let block = [UInt8](bytes)
    shard(of: key).state.withLock { $0.insert(block, for: key) }
  }

  private func shard(of key: BlockKey) -> Shard {
    let mixed = (key.segment &* 0x9E37_79B9_7F4A_7C15) ^ (UInt64(key.block) &* 0xD6E8_FEB8_6659_FD93)
    return shards[Int(mixed >> 40) % Self.shards]
  }

  /// A table, and a list from the oldest use to the newest by indices into `entries`.
  private struct State: Sendable {
    private struct Entry: Sendable {
      var key: BlockKey
      var block: [UInt8]
      var older: Int
      var newer: Int
    }

    private let limit: Int
    private var table: [BlockKey: Int] = [:]
    private var entries: [Entry] = []
    private var oldest = -1
    private var newest = -1

    init(limit: Int) { self.limit = limit }

    mutating func use(_ key: BlockKey) -> [UInt8]? {
      guard let index = table[key] else { return nil }
      unlink(index)
      append(index)
      return entries[index].block
    }

    mutating func insert(_ block: [UInt8], for key: BlockKey) {
      if let index = table[key] {
        entries[index].block = block
        return
      }
      var index = entries.count
      if index < limit {
        entries.append(Entry(key: key, block: block, older: -1, newer: -1))
      } else {
        index = oldest
        unlink(index)
        table[entries[index].key] = nil
        entries[index].key = key
        entries[index].block = block
      }
      table[key] = index
      append(index)
    }

    private mutating func unlink(_ index: Int) {
      let (older, newer) = (entries[index].older, entries[index].newer)
      if older >= 0 { entries[older].newer = newer } else { oldest = newer }
      if newer >= 0 { entries[newer].older = older } else { newest = older }
    }

    private mutating func append(_ index: Int) {
      entries[index].older = newest
      entries[index].newer = -1
      if newest >= 0 { entries[newest].newer = index } else { oldest = index }
      newest = index
    }
  }
}
