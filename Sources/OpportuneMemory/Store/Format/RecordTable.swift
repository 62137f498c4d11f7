/// The structure of a record: parts, divided into blocks. A block is stored as it is, as a zstd frame, or, if
/// it is all zero, not at all. The table follows the blocks. The index has the table's checksum, and the
/// table those of the blocks.
struct RecordTable: Equatable {
  struct Block: Equatable {
    /// The stored size in bytes: 0 for a block of zeros, the block's size where it is stored as it is, less
    /// for a frame.
    let stored: Int
    /// The checksum of the stored bytes.
    let checksum: UInt64
  }

  /// The size of each block but the last of its part, in bytes: large enough for the disk, and small enough
  /// to stay in the CPU cache between copies.
  static let blockBytes = 256 << 10
  /// Blocks of at least this size begin on a page boundary. Then the kernel need not read the pages that it
  /// overwrites.
  static let alignedFrom = 32 << 10
  private static let countMax: UInt64 = 1 << 46

  /// The size of each part in bytes.
  var counts: [Int] = []
  /// The blocks of all parts, one part after the other.
  var blocks: [Block] = []

  /// The offset of `stored` bytes that follow data which ends at `end`.
  static func offset(of stored: Int, after end: Int) -> Int {
    stored < alignedFrom
      ? end : (end + StoreIndex.blockBytes - 1) / StoreIndex.blockBytes * StoreIndex.blockBytes
  }

  static func blocks(of count: Int) -> Int { (count + blockBytes - 1) / blockBytes }

  // MARK: Encoding

  func bytes() -> [UInt8] {
    var writer = ByteWriter()
    writer.put(UInt64(counts.count))
    for count in counts { writer.put(UInt64(count)) }
    for block in blocks {
      writer.put(UInt64(block.stored))
      writer.put(block.checksum)
    }
    return writer.bytes
  }

  /// Decodes a table; `nil` where the bytes are not one.
  init?(_ bytes: [UInt8]) {
    var reader = ByteReader(bytes[...])
    guard let partCount = reader.number(), partCount <= UInt64(bytes.count / 8) else { return nil }
    for _ in 0..<partCount {
      guard let count = reader.number(), count <= Self.countMax else { return nil }
      counts.append(Int(count))
    }
    let blockCount = counts.reduce(0) { $0 + Self.blocks(of: $1) }
    guard reader.rest.count == blockCount * 16 else { return nil }
    for _ in 0..<blockCount {
      guard let stored = reader.number(), stored <= UInt64(Self.blockBytes), let checksum = reader.number()
      else {
        return nil
      }
      blocks.append(Block(stored: Int(stored), checksum: checksum))
    }
  }

  init() {}
}
