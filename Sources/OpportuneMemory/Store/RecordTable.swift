internal import CXXHash

/// What a record consists of: parts, cut into blocks, each stored as it is, as a frame of zstd, or, where all
/// of it is zero, not at all. It stands behind the blocks; the index has its checksum, and it has theirs.
struct RecordTable: Equatable {
  struct Block: Equatable {
    /// Bytes in the store: 0 of a block of zeros, those of the block where it is stored as it is, fewer of a
    /// frame.
    let stored: Int
    /// Of what is stored.
    let checksum: UInt64
  }

  /// Bytes of each block but the last of its part: large enough for the disk, small enough to be still in the
  /// processor's cache when it is copied.
  static let blockBytes = 256 << 10
  /// What is this large begins on a page, so that the kernel need not read what it is to overwrite.
  static let alignedFrom = 32 << 10
  private static let countMax: UInt64 = 1 << 46

  /// Bytes of each part.
  var counts: [Int] = []
  /// Of one part after the other.
  var blocks: [Block] = []

  /// Where something goes that comes after what ends at `end`.
  static func offset(of stored: Int, after end: Int) -> Int {
    stored < alignedFrom
      ? end : (end + StoreIndex.blockBytes - 1) / StoreIndex.blockBytes * StoreIndex.blockBytes
  }

  static func blocks(of count: Int) -> Int { (count + blockBytes - 1) / blockBytes }

  // MARK: As bytes

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

  /// `nil` where it is none.
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

/// The checksum of all that is in a store but its index: XXH64, the lower half of which zstd's frames end
/// with.
func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt64 { xxh64(bytes.baseAddress, bytes.count) }
