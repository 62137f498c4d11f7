/// A file of fixed size, allocated when it is opened, that stores the state of hibernated apps. (R-MEM-06,
/// R-LIFE-07)
///
/// Atomicity: at any time each app is in the store with exactly the state that was saved last, or is not in
/// it, whatever part of the last writes a crash has kept. A record goes to free space and is synchronised
/// before the index names it. The index has two copies; one is written and synchronised before the other.
///
/// All data has checksums; data that does not match is never returned. Data is compressed where that saves
/// space.
///
/// Use it on one thread at a time. Calls block for the disk: do not use it on a foreground thread.
public final class HibernationStore {
  /// The minimum size of a store, in bytes.
  public static let bytesMin = StoreIndex.dataOffset + StoreIndex.blockBytes

  private let device: any StoreDevice
  private var index: StoreIndex
  /// The error that kept the index from being written. From then on the disk may name records that are
  /// unknown here, so nothing is overwritten.
  private var failure: StoreError?
  /// How many copies of the index were torn or damaged when the store was opened, and were rewritten from the
  /// other copy.
  package private(set) var repairs = 0

  /// Opens a store, or creates it.
  ///
  /// - Parameters:
  ///   - path: of the file. The store locks it exclusively.
  ///   - bytes: its size; at least ``bytesMin``, and equal to that of an existing file.
  /// - Throws: ``StoreError``: `argument`, `locked`, `otherVersion`, `otherSize`, `damagedIndex`, `system`,
  ///   such as where the disk has no room.
  public convenience init(path: String, bytes: Int) throws(StoreError) {
    try self.init(path: path, bytes: bytes, access: PlainAccess())
  }

  /// Opens or creates a store that reads and writes through `access`.
  package convenience init(path: String, bytes: Int, access: some StoreAccess) throws(StoreError) {
    guard bytes >= Self.bytesMin, bytes <= 1 << 46 else {
      throw StoreError(.argument, "a store of \(bytes) bytes, expected \(Self.bytesMin) to 2^46")
    }
    try self.init(StoreFile(path, size: bytes, access: access))
  }

  package init(_ device: any StoreDevice) throws(StoreError) {
    self.device = device
    let slots = [try Self.readSlot(device, 0), try Self.readSlot(device, 1)]
    var newest: StoreIndex?
    for case .index(let found) in slots where newest.map({ $0.sequence < found.sequence }) ?? true {
      newest = found
    }
    // The first index is written to both copies before anything is saved.
    index = newest ?? StoreIndex(sequence: 0, size: device.size, entries: [])
    if newest == nil, slots != [.blank, .blank] {
      // A crash while the store was created leaves one slot torn and the other blank.
      for case .otherVersion(let version) in slots {
        throw StoreError(.otherVersion, "the store is of version \(version), expected \(StoreIndex.version)")
      }
      for case .otherSize(let size) in slots {
        throw StoreError(.otherSize, "the store was made with \(size) bytes, and has \(device.size)")
      }
      guard slots == [.damaged, .blank], try Self.isTorn(index, device) else {
        throw StoreError(.damagedIndex, "neither copy of the store's index can be read")
      }
    }
    for (number, slot) in slots.enumerated() where slot != .index(index) {
      if newest != nil { repairs += 1 }
      try write(index, to: number)
    }
  }

  /// Sets `access` for all further reads and writes. Call it before another thread uses the store.
  package func carry(by access: some StoreAccess) { (device as? StoreFile)?.access = access }

  private static func readSlot(_ device: any StoreDevice, _ number: Int) throws(StoreError)
    -> StoreIndex.Reading
  {
    try StoreIndex.read(bytes(of: number, device), size: device.size)
  }

  /// Whether the first copy contains only what a crash may have left of the first index. Any other content is
  /// foreign data.
  private static func isTorn(_ index: StoreIndex, _ device: any StoreDevice) throws(StoreError) -> Bool {
    let whole = try index.slot() ?? []
    return try bytes(of: 0, device).enumerated().allSatisfy { position, byte in
      byte == 0 || (position < whole.count && byte == whole[position])
    }
  }

  private static func bytes(of number: Int, _ device: any StoreDevice) throws(StoreError) -> [UInt8] {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreIndex.slotBytes, alignment: 16)
    defer { buffer.deallocate() }
    try device.read(buffer, at: number * StoreIndex.slotBytes)
    return [UInt8](buffer)
  }

  // MARK: Content

  /// The saved apps, in the order in which they were saved.
  package var apps: [String] { index.entries.map(\.name) }
  /// Free bytes. Records are contiguous, so the largest record that fits may be smaller.
  package var freeBytes: Int { index.free().sum }

  /// Saves the state of an app, and replaces what was saved of it before. (R-MEM-05)
  ///
  /// Pass only content that cannot be made or loaded again. The state is on the disk on return.
  ///
  /// - Parameters:
  ///   - app: its name, up to 255 bytes.
  ///   - parts: for example its state and its dirty memory; restored one by one.
  /// - Returns: the size of the record in bytes.
  /// - Throws: ``StoreError``: `argument`; `locked` in a child of `fork()`; `full`, and then the earlier
  ///   state is still there; `system`. If the index could not be written, each later call that writes throws
  ///   the same error until the store is opened again.
  @discardableResult
  package func save(_ app: String, _ parts: [UnsafeRawBufferPointer]) throws(StoreError) -> Int {
    try save(app, parts) { true }
  }

  /// Saves parts that may come into use again before the call is done. From then on their content is
  /// undefined. So the save is abandoned at the next block, and the index never names it.
  ///
  /// - Parameter areOurs: whether all content that was read so far was read before the memory came into use.
  /// - Throws: also `withdrawn`.
  @discardableResult
  package func save(
    _ app: String, _ parts: [UnsafeRawBufferPointer], while areOurs: () -> Bool
  ) throws(StoreError) -> Int {
    guard app.utf8.count <= StoreIndex.nameBytesMax else {
      throw StoreError(
        .argument, "a name of \(app.utf8.count) bytes, expected up to \(StoreIndex.nameBytesMax)")
    }
    if let failure { throw failure }
    let writer = try RecordWriter(device, index.free().largest, of: app)
    for part in parts { try writer.put(part, while: areOurs) }
    let entry = try writer.finish()
    guard areOurs() else { throw RecordWriter.withdrawn(app) }
    try device.synchronise()
    try commit(index.entries.filter { $0.name != app } + [entry])
    return entry.length
  }

  /// Reads the saved state of an app, part by part. The state stays saved: call ``remove(_:)`` once it is in
  /// use again. (R-MEM-07)
  ///
  /// - Throws: ``StoreError``: `absent`, `damagedRecord`, `system`.
  package func load(_ app: String) throws(StoreError) -> [[UInt8]] { try record(of: app).load() }

  /// The saved state of an app, to be read on another thread while the store is in use.
  ///
  /// - Throws: ``StoreError`` with code `absent`.
  package func record(of app: String) throws(StoreError) -> StoredRecord {
    guard let entry = index.entries.first(where: { $0.name == app }) else {
      throw StoreError(.absent, "'\(app)' is not in the store")
    }
    return StoredRecord(device: device, entry: entry)
  }

  /// Removes an app's state, and frees its space. Does nothing for an app that is not in the store.
  /// (R-MEM-07)
  ///
  /// - Throws: ``StoreError`` with code `system`, as ``save(_:_:)``.
  package func remove(_ app: String) throws(StoreError) {
    let rest = index.entries.filter { $0.name != app }
    if rest.count != index.entries.count { try commit(rest) }
  }

  // MARK: The index

  private func commit(_ entries: [StoreIndex.Entry]) throws(StoreError) {
    if let failure { throw failure }
    let next = StoreIndex(sequence: index.sequence + 1, size: index.size, entries: entries)
    guard try next.slot() != nil else {
      throw StoreError(.full, "the index has no room for \(entries.count) apps")
    }
    do throws(StoreError) {
      try write(next, to: 0)
      try write(next, to: 1)
    } catch {
      failure = error
      throw error
    }
    index = next
  }

  private func write(_ index: StoreIndex, to number: Int) throws(StoreError) {
    guard let slot = try index.slot() else { throw StoreError(.full, "the index has no room for its apps") }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: slot.count, alignment: 16)
    defer { buffer.deallocate() }
    buffer.copyBytes(from: slot)
    try device.write(UnsafeRawBufferPointer(buffer), at: number * StoreIndex.slotBytes)
    try device.synchronise()
  }
}
