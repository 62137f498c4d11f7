public import OpportuneBase
public import Synchronization

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

  /// A value's memory, and a node of the list from the least to the most recent use. The table alone retains
  /// entries, and only entries in the table are in the list.
  @usableFromInline
  final class Entry: PurgeableRegion, @unchecked Sendable {
    // Changed while the entry is in no table, by the thread that has the only reference.
    @usableFromInline @exclusivity(unchecked) var key: Key
    @usableFromInline @exclusivity(unchecked) var count: Int
    // Used under the cache's lock alone.
    @usableFromInline @exclusivity(unchecked) unowned(unsafe) var older: Entry?
    @usableFromInline @exclusivity(unchecked) unowned(unsafe) var newer: Entry?

    @usableFromInline
    init(_ app: AppMemory, _ key: Key, count: Int, group: UInt32) throws(MemoryError) {
      (self.key, self.count) = (key, count)
      try super.init(app, bytes: count, group: group)
    }
  }

  @usableFromInline let app: AppMemory
  @usableFromInline let group: UInt32
  /// The limit in bytes; a value costs its whole pages.
  public let costLimit: Int
  /// Counted without the lock; orders nothing.
  @usableFromInline let hits = Atomic<UInt64>(0)
  // Everything below is used under the lock alone, by no two accesses that overlap. The runtime's check of
  // that would take as long as the look-up.
  @usableFromInline let lock = Lock()
  @usableFromInline @exclusivity(unchecked) var entries: [Key: Entry] = [:]
  @usableFromInline @exclusivity(unchecked) unowned(unsafe) var oldest: Entry?
  @usableFromInline @exclusivity(unchecked) unowned(unsafe) var newest: Entry?
  @usableFromInline @exclusivity(unchecked) var cost = 0
  @usableFromInline @exclusivity(unchecked) var counted = Counters()

  init(_ app: AppMemory, costLimit: Int, group: UInt32) throws(MemoryError) {
    guard costLimit > 0 else { throw .range("a cache's cost limit", costLimit, "more than 0") }
    self.app = app
    self.group = group
    self.costLimit = costLimit
  }

  /// Inserts bytes for a key, and replaces existing ones. Evicts the least recently used entries if the limit
  /// requires it.
  ///
  /// At the limit the memory of what is evicted is used again, if it has as many pages: without a system
  /// call. To map and to unmap memory costs several times the copy, waits for who holds the lock of the
  /// process's memory map, and interrupts the other CPUs (docs/decisions/0034).
  ///
  /// - Returns: whether the bytes were inserted: not if they cost more than the limit.
  /// - Throws: ``MemoryError`` where there is no memory for them, or where there are no bytes.
  @inlinable
  @discardableResult
  public func insert(_ bytes: UnsafeRawBufferPointer, for key: Key) throws(MemoryError) -> Bool {
    let size = PurgeableRegion.size(of: bytes.count)
    guard size <= costLimit else {
      remove(key)
      return false
    }
    let entry = try entry(size, for: key, filledWith: bytes)
    let dropped = lock.withLock { () -> [Entry] in
      var dropped = entries[key].map { [drop($0)] } ?? []
      while cost + size > costLimit, let entry = evictOldest() { dropped.append(entry) }
      entries[key] = entry
      cost += size
      append(entry)
      return dropped
    }
    // Unmapped here, outside the lock.
    _ = consume dropped
    return true
  }

  /// Inserts the bytes of an array, of a text's `utf8` or of another collection for a key, else as those of
  /// a buffer. They are copied once, straight into the cache's memory, unless the collection has them in no
  /// contiguous memory.
  ///
  /// - Returns: whether the bytes were inserted: not if they cost more than the limit.
  /// - Throws: ``MemoryError`` where there is no memory for them, or where there are no bytes.
  @inlinable
  @discardableResult
  public func insert(_ bytes: some Collection<UInt8>, for key: Key) throws(MemoryError) -> Bool {
    let inserted = bytes.withContiguousStorageIfAvailable { bytes in
      Result { () throws(MemoryError) in try insert(UnsafeRawBufferPointer(bytes), for: key) }
    }
    if let inserted { return try inserted.get() }
    return try insert(Array(bytes), for: key)
  }

  /// An entry that contains the bytes and may be taken. Where the key is new and there is no room, it is the
  /// oldest one, if nobody reads that.
  @inlinable
  func entry(
    _ size: Int, for key: Key, filledWith bytes: UnsafeRawBufferPointer
  ) throws(MemoryError) -> Entry {
    var evicted = lock.withLock {
      entries[key] == nil && cost + size > costLimit && oldest?.bytes == size ? evictOldest() : nil
    }
    // Who reads the evicted entry holds a reference; no other can be made, since the table has it no more.
    if isKnownUniquelyReferenced(&evicted), let entry = evicted, entry.replace(with: bytes) {
      (entry.key, entry.count) = (key, bytes.count)
      return entry
    }
    let entry = try Entry(app, key, count: bytes.count, group: group)
    _ = entry.replace(with: bytes)
    // Only now, when it is filled.
    entry.setVolatile(true)
    return entry
  }

  /// Calls `body` with the bytes of a key.
  ///
  /// - Parameter body: must not let the buffer escape.
  /// - Returns: what `body` returns; `nil` where the key is absent or pressure has taken its bytes. Make them
  ///   again then, and insert them.
  @inlinable
  @inline(__always)  // so that a caller which is generic itself has the rest specialised for its keys
  public func withBytes<Result, Failure: Error>(
    of key: Key, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    guard let (entry, bytes) = pin(key) else { return nil }
    defer { entry.unpin() }
    return try body(bytes)
  }

  /// The entry of a key, which stays as it is until it is unpinned, and its bytes; `nil` where they
  /// are not there.
  @inlinable
  func pin(_ key: Key) -> (Entry, UnsafeRawBufferPointer)? {
    let found = lock.withLock { () -> Entry? in
      guard let entry = entries[key] else {
        counted.misses += 1
        return nil
      }
      if entry !== newest {
        unlink(entry)
        append(entry)
      }
      return entry
    }
    guard let found else { return nil }
    let pin = found.pin()
    switch pin.found {
    case .intact:
      hits.add(1, ordering: .relaxed)
      return (found, UnsafeRawBufferPointer(start: pin.memory, count: found.count))
    case .empty:
      found.unpinEmpty(isFilled: false)
    case .busy:
      found.unpinBusy(pin)
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
  @inlinable
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
  public var counters: Counters {
    var counters = lock.withLock { counted }
    counters.hits = hits.load(ordering: .relaxed)
    return counters
  }
  /// The number of keys, including those whose bytes pressure has taken without a look-up since.
  public var count: Int { lock.withLock { entries.count } }
  /// The current cost in bytes, which the limit bounds.
  public var totalCost: Int { lock.withLock { cost } }

  // MARK: Called with the lock held

  @inlinable
  func drop(_ entry: Entry) -> Entry {
    entries[entry.key] = nil
    cost -= entry.bytes
    unlink(entry)
    return entry
  }

  @inlinable
  func evictOldest() -> Entry? {
    guard let oldest else { return nil }
    counted.evictions += 1
    return drop(oldest)
  }

  @inlinable
  func unlink(_ entry: Entry) {
    if let older = entry.older { older.newer = entry.newer } else { oldest = entry.newer }
    if let newer = entry.newer { newer.older = entry.older } else { newest = entry.older }
    (entry.older, entry.newer) = (nil, nil)
  }

  @inlinable
  func append(_ entry: Entry) {
    entry.older = newest
    if let newest { newest.newer = entry } else { oldest = entry }
    newest = entry
  }
}
