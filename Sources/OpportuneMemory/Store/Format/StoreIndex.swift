/// The index of the store, the content of an index slot: where each record is.
struct StoreIndex: Equatable {
  struct Entry: Equatable {
    let name: String
    /// Offset and length of the record, in bytes.
    let offset: Int
    let length: Int
    /// The size of the table at the record's end, in bytes.
    let tableBytes: Int
    /// The checksum of the table, which has those of the blocks. Foreign data in the record's place is
    /// detected by it.
    let checksum: UInt64
  }

  static let magic: UInt64 = 0x4F50_5048_4942_4E31
  static let version: UInt32 = 2
  /// The size of one slot, in bytes. The store begins with two slots.
  static let slotBytes = 64 << 10
  static let blockBytes = 4096
  /// The offset of the first record.
  static let dataOffset = 2 * slotBytes
  static let nameBytesMax = 255
  /// The limit of a slot's uncompressed content: no more is written, and a larger size is rejected when it is
  /// read.
  static let contentBytesMax = 1 << 20

  /// Increases with each commit.
  var sequence: UInt64
  let size: Int
  var entries: [Entry]

  // MARK: Encoding

  /// Encodes a slot: magic, version, the lengths of the content and of its frame, and the frame. `nil` where
  /// it does not fit.
  func slot() throws(StoreError) -> [UInt8]? {
    var content = ByteWriter()
    content.put(sequence)
    content.put(UInt64(size))
    content.put(UInt64(entries.count))
    for entry in entries {
      content.put(Array(entry.name.utf8))
      for number in [entry.offset, entry.length, entry.tableBytes] { content.put(UInt64(number)) }
      content.put(entry.checksum)
    }
    guard content.bytes.count <= Self.contentBytesMax else { return nil }
    let frame = try Compressor.frame(of: content.bytes)
    var slot = ByteWriter()
    slot.put(Self.magic)
    slot.put(UInt64(Self.version))
    slot.put(UInt64(content.bytes.count))
    slot.put(UInt64(frame.count))
    guard slot.bytes.count + frame.count <= Self.slotBytes else { return nil }
    return slot.bytes + frame
  }

  enum Reading: Equatable {
    case index(StoreIndex)
    /// All zero: never written.
    case blank
    case otherVersion(UInt64)
    case otherSize(Int)
    case damaged
  }

  /// Decodes a slot. No content is trusted before its checksum was verified.
  static func read(_ slot: [UInt8], size: Int) throws(StoreError) -> Reading {
    if slot.allSatisfy({ $0 == 0 }) { return .blank }
    var reader = ByteReader(slot[...])
    guard let magic = reader.number(), magic == Self.magic, let version = reader.number() else {
      return .damaged
    }
    guard version == UInt64(Self.version) else { return .otherVersion(version) }
    guard let count = reader.number(), count <= UInt64(Self.contentBytesMax), let length = reader.number(),
      let frame = reader.bytes(length), let content = try Expander.content(of: frame, count: Int(count))
    else { return .damaged }
    var inner = ByteReader(content[...])
    guard let sequence = inner.number(), let made = inner.number(), let entryCount = inner.number() else {
      return .damaged
    }
    guard made == UInt64(size) else { return .otherSize(Int(clamping: made)) }
    var index = StoreIndex(sequence: sequence, size: size, entries: [])
    for _ in 0..<entryCount {
      guard let nameLength = inner.number(), let name = inner.bytes(nameLength), let offset = inner.number(),
        let length = inner.number(), let tableBytes = inner.number(), let checksum = inner.number(),
        offset >= UInt64(Self.dataOffset), offset <= UInt64(size), length > 0,
        length <= UInt64(size) - offset,
        tableBytes <= length
      else { return .damaged }
      let entry = Entry(
        name: String(decoding: name, as: UTF8.self), offset: Int(offset), length: Int(length),
        tableBytes: Int(tableBytes), checksum: checksum)
      index.entries.append(entry)
    }
    return .index(index)
  }

  // MARK: Free space

  /// The free space in whole blocks: the largest contiguous range, and the sum, in bytes.
  func free() -> (largest: Range<Int>, sum: Int) {
    var (largest, sum, begin) = (size..<size, 0, Self.dataOffset)
    func take(_ end: Int) {
      guard end > begin else { return }
      sum += end - begin
      if end - begin > largest.count { largest = begin..<end }
    }
    for entry in entries.sorted(by: { $0.offset < $1.offset }) {
      take(entry.offset)
      let end = entry.offset + entry.length
      begin = (end + Self.blockBytes - 1) / Self.blockBytes * Self.blockBytes
    }
    take(size)
    return (largest, sum)
  }
}
