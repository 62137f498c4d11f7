internal import OpportuneBase

/// A cache whose values are bytes in purgeable memory. Pressure takes them, least recently used first; a cost
/// limit bounds the cache without pressure. (R-MEM-05)
///
/// Any thread may use it. A lock guards the table of keys for the time of a look-up; values are read outside
/// it. Use a cache in one app only, so that no app waits for another app's threads here.
public final class PurgeableCache<Key: Hashable & Sendable>: @unchecked Sendable {
  /// Counters of the cache since it was made.
  public struct Counters: Sendable, Hashable {
    /// Look-ups that found the content.
    public var hits: UInt64 = 0
    /// Look-ups of absent keys.
    public var misses: UInt64 = 0
    /// Look-ups of keys whose content pressure had taken; they also count as misses.
    public var purges: UInt64 = 0
    /// Entries removed because of the limit.
    public var evictions: UInt64 = 0
  }

  /// A node of the list from the least to the most recent use. The table alone retains entries, and only
  /// entries in the table are in the list.
  private final class Entry {
    let key: Key
    let contents: Purgeable<UInt8>
    let count: Int
    unowned(unsafe) var older: Entry?
    unowned(unsafe) var newer: Entry?

    init(_ key: Key, _ contents: Purgeable<UInt8>, _ count: Int) {
      self.key = key
      self.contents = contents
      self.count = count
    }
  }

  private let app: AppMemory
  private let group: UInt32
  /// The limit in bytes; a value costs its whole pages.
  public let costLimit: Int
  // Everything below is used under the lock alone.
  private let lock = Lock()
  private var entries: [Key: Entry] = [:]
  private unowned(unsafe) var oldest: Entry?
  private unowned(unsafe) var newest: Entry?
  private var cost = 0
  private var counted = Counters()

  init(_ app: AppMemory, costLimit: Int, group: UInt32) throws(MemoryError) {
    guard costLimit > 0 else { throw .range("a cache's cost limit", costLimit, "more than 0") }
    self.app = app
    self.group = group
    self.costLimit = costLimit
  }

  /// Inserts bytes for a key, and replaces existing ones. Evicts the least recently used entries if the limit
  /// requires it.
  ///
  /// - Returns: whether the bytes were inserted: not if they cost more than the limit.
  /// - Throws: ``MemoryError`` where there is no memory for them, or where there are no bytes.
  @discardableResult
  public func insert(_ bytes: UnsafeRawBufferPointer, for key: Key) throws(MemoryError) -> Bool {
    guard (bytes.count + pageSize - 1) / pageSize * pageSize <= costLimit else {
      remove(key)
      return false
    }
    // Made volatile only after it was filled.
    let contents = try Purgeable<UInt8>(app, count: bytes.count, group: group, isVolatile: false)
    contents.withContents { found in
      switch found {
      case .intact(let buffer), .purged(let buffer):
        UnsafeMutableRawBufferPointer(buffer).copyMemory(from: bytes)
      }
    }
    contents.isVolatile = true
    let dropped = lock.withLock { () -> [Entry?] in
      var dropped = [entries[key].map(drop)]
      while cost + contents.bytes > costLimit, let oldest {
        dropped.append(drop(oldest))
        counted.evictions += 1
      }
      let entry = Entry(key, contents, bytes.count)
      entries[key] = entry
      cost += contents.bytes
      append(entry)
      return dropped
    }
    // Unmapped here, outside the lock.
    _ = consume dropped
    return true
  }

  /// Calls `body` with the bytes of a key.
  ///
  /// - Parameter body: must not let the buffer escape.
  /// - Returns: what `body` returns; `nil` where the key is absent or pressure has taken its bytes. Make them
  ///   again then, and insert them.
  public func withBytes<Result, Failure: Error>(
    of key: Key, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    let found = lock.withLock { () -> Entry? in
      guard let entry = entries[key] else {
        counted.misses += 1
        return nil
      }
      unlink(entry)
      append(entry)
      return entry
    }
    guard let found else { return nil }
    let pin = found.contents.region.pin()
    switch pin.found {
    case .intact:
      defer { found.contents.region.unpin() }
      lock.withLock { counted.hits += 1 }
      return try body(UnsafeRawBufferPointer(start: pin.memory, count: found.count))
    case .empty:
      found.contents.region.unpinEmpty(isFilled: false)
    case .busy:
      found.contents.region.unpinBusy(pin)
    }
    let gone = lock.withLock { () -> Entry? in
      counted.misses += 1
      counted.purges += 1
      return entries[key] === found ? drop(found) : nil
    }
    _ = consume gone
    return nil
  }

  /// Removes a key and its bytes.
  public func remove(_ key: Key) {
    let gone = lock.withLock { entries[key].map(drop) }
    _ = consume gone
  }

  /// Removes all entries.
  public func removeAll() {
    let gone = lock.withLock { () -> [Key: Entry] in
      defer {
        entries = [:]
        (oldest, newest) = (nil, nil)
        cost = 0
      }
      return entries
    }
    _ = consume gone
  }

  /// The counters since the cache was made.
  public var counters: Counters { lock.withLock { counted } }
  /// The number of keys, including those whose bytes pressure has taken without a look-up since.
  public var count: Int { lock.withLock { entries.count } }
  /// The current cost in bytes, which the limit bounds.
  public var totalCost: Int { lock.withLock { cost } }

  // MARK: Called with the lock held

  private func drop(_ entry: Entry) -> Entry {
    entries[entry.key] = nil
    cost -= entry.contents.bytes
    unlink(entry)
    return entry
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
