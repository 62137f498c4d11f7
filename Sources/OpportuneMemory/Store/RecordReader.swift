/// Reads a record part by part, each into its destination.
final class RecordReader {
  private let device: any StoreDevice
  private let entry: StoreIndex.Entry
  private let table: RecordTable
  private var part = 0
  private var block = 0
  /// The end of the last block.
  private var end: Int
  private var expander: Expander?
  private let room: UnsafeMutableRawBufferPointer

  /// Reads the table, and starts read-ahead of the rest.
  init(_ device: any StoreDevice, _ entry: StoreIndex.Entry) throws(StoreError) {
    self.device = device
    self.entry = entry
    end = entry.offset
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: entry.tableBytes, alignment: 16)
    defer { bytes.deallocate() }
    try device.read(bytes, at: entry.offset + entry.length - entry.tableBytes)
    guard checksum(UnsafeRawBufferPointer(bytes)) == entry.checksum, let table = RecordTable([UInt8](bytes))
    else {
      throw Self.damaged(entry)
    }
    self.table = table
    // Only now: otherwise the table, at the end, would be read after all the rest.
    device.beginReading(entry.offset..<entry.offset + entry.length - entry.tableBytes)
    room = .allocate(byteCount: RecordTable.blockBytes, alignment: StoreIndex.blockBytes)
  }

  deinit { room.deallocate() }

  private static func damaged(_ entry: StoreIndex.Entry) -> StoreError {
    StoreError(.damagedRecord, "what was saved of '\(entry.name)' is not what is on the disk")
  }

  /// The size of each part in bytes.
  var counts: [Int] { table.counts }

  /// Reads the next part.
  ///
  /// - Parameters:
  ///   - place: the destination, as large as the part; `nil` skips the part.
  ///   - isZero: whether the destination is known to be zero, so that blocks of zeros need not be written.
  func next(into place: UnsafeMutableRawBufferPointer?, isZero: Bool = false) throws(StoreError) {
    let count = counts[part]
    part += 1
    for start in stride(from: 0, to: count, by: RecordTable.blockBytes) {
      let stop = min(start + RecordTable.blockBytes, count)
      let stored = table.blocks[block]
      block += 1
      let offset = RecordTable.offset(of: stored.stored, after: end)
      guard stored.stored <= stop - start, stored.stored <= entry.offset + entry.length - offset else {
        throw Self.damaged(entry)
      }
      if stored.stored > 0 { end = offset + stored.stored }
      guard let place else { continue }
      let target = UnsafeMutableRawBufferPointer(rebasing: place[start..<stop])
      if stored.stored > 0 {
        try read(stored, at: offset, into: target)
      } else if !isZero {
        target.initializeMemory(as: UInt8.self, repeating: 0)
      }
    }
  }

  private func read(
    _ stored: RecordTable.Block, at offset: Int, into target: UnsafeMutableRawBufferPointer
  ) throws(StoreError) {
    let isFrame = stored.stored < target.count
    let bytes = isFrame ? UnsafeMutableRawBufferPointer(rebasing: room[..<stored.stored]) : target
    try device.read(bytes, at: offset)
    guard checksum(UnsafeRawBufferPointer(bytes)) == stored.checksum else { throw Self.damaged(entry) }
    guard isFrame else { return }
    let expander = if let expander { expander } else { try Expander() }
    self.expander = expander
    guard expander.expand(UnsafeRawBufferPointer(bytes), into: target) else { throw Self.damaged(entry) }
  }
}
