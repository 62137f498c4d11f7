/// A region of disk, set aside at start, for the state of hibernated apps. (R-MEM-06, R-LIFE-07)
///
/// Its size is fixed and its blocks are allocated when it is opened. At any instant each app is in it with
/// exactly what was saved last, or is not in it, whatever part of the last writes a crash kept: a record goes
/// to free space and is synchronised before the index names it, and the index is kept twice, one copy being
/// written and synchronised before the other. Everything has a checksum, and what does not fit its own is
/// never handed out; what shrinks by it is compressed.
///
/// For one thread at a time. Calls take as long as the disk does: not for a foreground thread.
public final class HibernationStore {
  /// The least size of a store, in bytes.
  public static let bytesMin = StoreIndex.dataOffset + StoreIndex.blockBytes

  private let device: any StoreDevice
  private var index: StoreIndex
  /// What kept the index from being written. From then on the disk may name more than is known here, so
  /// nothing is written over it.
  private var failure: StoreError?
  /// Copies of the index that were found torn or damaged when the store was opened, and were written anew
  /// from the other.
  package private(set) var repairs = 0

  /// Opens a store, and makes it where there is none.
  ///
  /// - Parameters:
  ///   - path: of the file. Whoever has it open has it alone.
  ///   - bytes: its size; at least ``bytesMin``, and that of the file if there is one.
  /// - Throws: ``StoreError``: `argument`, `locked`, `otherVersion`, `otherSize`, `damagedIndex`, `system`,
  ///   as where the disk has no room.
  public convenience init(path: String, bytes: Int) throws(StoreError) {
    try self.init(path: path, bytes: bytes, access: PlainAccess())
  }

  /// The same, with `access` for all that is read and written.
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
    // The first index is written to both, with nothing saved before that is done.
    index = newest ?? StoreIndex(sequence: 0, size: device.size, entries: [])
    if newest == nil, slots != [.blank, .blank] {
      // A store that was being made when a crash came has one slot torn and the other blank.
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

  /// Has `access` read and write the file from now on. Call it before anybody else has the store.
  package func carry(by access: some StoreAccess) { (device as? StoreFile)?.access = access }

  private static func readSlot(_ device: any StoreDevice, _ number: Int) throws(StoreError)
    -> StoreIndex.Reading
  {
    try StoreIndex.read(bytes(of: number, device), size: device.size)
  }

  /// Whether the first copy has nothing but what a crash left of the first index: what is not is somebody's.
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

  // MARK: What is in it

  /// The apps that are in it, in the order in which they were saved.
  package var apps: [String] { index.entries.map(\.name) }
  /// Bytes that nothing occupies. Records are in one piece each: the largest that fits may be smaller.
  package var freeBytes: Int { index.free().sum }

  /// Saves the state of an app, in place of what was saved of it before. (R-MEM-05)
  ///
  /// Hand over only what cannot be made or loaded again. It is on the disk on return.
  ///
  /// - Parameters:
  ///   - app: its name, up to 255 bytes.
  ///   - parts: such as its state and its dirty memory; given back one by one.
  /// - Returns: bytes that the record takes up.
  /// - Throws: ``StoreError``: `argument`; `locked` in a child of `fork()`; `full`, and then what was saved
  ///   before is still there; `system`, and where the index was not written then, each later call that writes
  ///   throws it again until the store is opened anew.
  @discardableResult
  package func save(_ app: String, _ parts: [UnsafeRawBufferPointer]) throws(StoreError) -> Int {
    try save(app, parts) { true }
  }

  /// The same, of parts that may be in use again before it is done. What is read of them from then on is
  /// anything, so it is given up at the next block, and never named by the index.
  ///
  /// - Parameter areOurs: whether all that was read until now was read before.
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

  /// What was saved of an app, part by part. It stays saved: call ``remove(_:)`` once it is back in use.
  /// (R-MEM-07)
  ///
  /// - Throws: ``StoreError``: `absent`, `damagedRecord`, `system`.
  package func load(_ app: String) throws(StoreError) -> [[UInt8]] { try record(of: app).load() }

  /// What was saved of an app, to be read on another thread, whatever the store does meanwhile.
  ///
  /// - Throws: ``StoreError`` with code `absent`.
  package func record(of app: String) throws(StoreError) -> StoredRecord {
    guard let entry = index.entries.first(where: { $0.name == app }) else {
      throw StoreError(.absent, "'\(app)' is not in the store")
    }
    return StoredRecord(device: device, entry: entry)
  }

  /// Forgets an app, and frees its space. Does nothing for one that is not there. (R-MEM-07)
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
