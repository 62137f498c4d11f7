import Glibc

/// Writes a record into free space, block by block: large blocks from their own memory, small pieces
/// together.
final class RecordWriter {
  /// How many bytes at a time the disk is told to begin writing.
  private static let begunBytes = 1 << 20

  private let device: any StoreDevice
  private let space: Range<Int>
  private let app: String
  private var table = RecordTable()
  /// The lowest possible offset of the next piece.
  private var end: Int
  /// The offset up to which the disk was told to begin writing.
  private var begun: Int
  /// Whole blocks up to `end` that are contiguous in memory and on disk. They are written together, at the
  /// latest when the disk is told to begin.
  private var held: (bytes: UnsafeRawBufferPointer, offset: Int)?
  /// Small pieces up to `end`, written with the next block, or at the end.
  private let gathered: UnsafeMutableRawBufferPointer
  private var gatheredCount = 0
  private let compressor: Compressor
  private let room: UnsafeMutableRawBufferPointer
  private let copy: UnsafeMutableRawBufferPointer
  private let sampler: Compressor
  private let sample: UnsafeMutableRawBufferPointer

  init(_ device: any StoreDevice, _ space: Range<Int>, of app: String) throws(StoreError) {
    compressor = try Compressor(addsChecksum: false)
    sampler = try Compressor(addsChecksum: false)
    self.device = device
    self.space = space
    self.app = app
    end = space.lowerBound
    begun = space.lowerBound
    room = .allocate(
      byteCount: RecordTable.blockBytes + StoreIndex.blockBytes, alignment: StoreIndex.blockBytes)
    copy = .allocate(byteCount: RecordTable.blockBytes, alignment: 16)
    gathered = .allocate(byteCount: RecordTable.blockBytes + RecordTable.alignedFrom, alignment: 16)
    sample = .allocate(byteCount: 2 * RecordTable.blockBytes / Sample.stride * Sample.bytes, alignment: 16)
  }

  deinit {
    for buffer in [room, copy, gathered, sample] { buffer.deallocate() }
  }

  static func withdrawn(_ app: String) -> StoreError { StoreError(.withdrawn, "'\(app)' is in use again") }

  func put(_ part: UnsafeRawBufferPointer, while isOurs: () -> Bool) throws(StoreError) {
    table.counts.append(part.count)
    for start in stride(from: 0, to: part.count, by: RecordTable.blockBytes) {
      guard isOurs() else { throw Self.withdrawn(app) }
      let stop = min(start + RecordTable.blockBytes, part.count)
      try put(block: UnsafeRawBufferPointer(rebasing: part[start..<stop]))
    }
  }

  /// Writes the table as well. Nothing is synchronised yet.
  func finish() throws(StoreError) -> StoreIndex.Entry {
    let bytes = table.bytes()
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 16)
    defer { buffer.deallocate() }
    buffer.copyBytes(from: bytes)
    try write(UnsafeRawBufferPointer(buffer))
    try writeHeld()
    try flush()
    return StoreIndex.Entry(
      name: app, offset: space.lowerBound, length: end - space.lowerBound, tableBytes: bytes.count,
      checksum: checksum(UnsafeRawBufferPointer(buffer)))
  }

  // MARK: Blocks

  private func put(block: UnsafeRawBufferPointer) throws(StoreError) {
    guard !isZero(block) else { return table.blocks.append(.init(stored: 0, checksum: 0)) }
    // Saving less than half a page is not worth the decompression.
    let most = block.count - max(1, min(StoreIndex.blockBytes / 2, block.count / 16))
    guard seemsCompressible(block),
      let count = compressor.compress(
        copied(block), into: UnsafeMutableRawBufferPointer(rebasing: room[..<most]))
    else {
      table.blocks.append(.init(stored: block.count, checksum: checksum(block)))
      return try write(block)
    }
    let frame = UnsafeRawBufferPointer(rebasing: room[..<count])
    table.blocks.append(.init(stored: count, checksum: checksum(frame)))
    guard count >= RecordTable.alignedFrom else { return try write(frame) }
    // Whole pages, where there is space for them: see `RecordTable.alignedFrom`.
    let pages = RecordTable.offset(of: count, after: count)
    UnsafeMutableRawBufferPointer(rebasing: room[count..<pages]).initializeMemory(
      as: UInt8.self, repeating: 0)
    try write(frame, paddedTo: UnsafeRawBufferPointer(rebasing: room[..<pages]))
  }

  /// Copies a block: zstd requires that its input does not change, but the memory may come into use again.
  private func copied(_ block: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    copy.copyMemory(from: block)
    return UnsafeRawBufferPointer(rebasing: copy[..<block.count])
  }

  private func isZero(_ block: UnsafeRawBufferPointer) -> Bool {
    guard let start = block.baseAddress, block[0] == 0 else { return false }
    return memcmp(start, start + 1, block.count - 1) == 0
  }

  /// The sample: a few bytes of each page, at varying offsets.
  private enum Sample {
    static let stride = 4096
    static let bytes = 64
    static let step = 832
  }

  /// Whether a sample of each page suggests that compression is worth trying. It finds every page of zeros.
  private func seemsCompressible(_ block: UnsafeRawBufferPointer) -> Bool {
    guard block.count >= 8 * Sample.stride else { return true }
    var count = 0
    for page in stride(from: 0, to: block.count - Sample.stride + 1, by: Sample.stride) {
      let place = page + page / Sample.stride * Sample.step % (Sample.stride - Sample.bytes)
      if block.loadUnaligned(fromByteOffset: place, as: UInt64.self) == 0 { return true }
      let piece = UnsafeRawBufferPointer(rebasing: block[place..<place + Sample.bytes])
      UnsafeMutableRawBufferPointer(rebasing: sample[count..<count + Sample.bytes]).copyMemory(from: piece)
      count += Sample.bytes
    }
    let all = UnsafeRawBufferPointer(rebasing: sample[..<count])
    let most = UnsafeMutableRawBufferPointer(rebasing: sample[count..<2 * count - count / 32])
    return sampler.compress(all, into: most) != nil
  }

  // MARK: Output

  /// - Parameter padded: the same bytes and more, which may be written instead.
  private func write(
    _ bytes: UnsafeRawBufferPointer, paddedTo padded: UnsafeRawBufferPointer? = nil
  ) throws(StoreError) {
    let offset = RecordTable.offset(of: bytes.count, after: end)
    guard bytes.count <= space.upperBound - offset else {
      throw StoreError(
        .full, "'\(app)' does not fit into the \(space.count) bytes that are free in one piece")
    }
    if bytes.count < RecordTable.alignedFrom {
      UnsafeMutableRawBufferPointer(rebasing: gathered[gatheredCount...]).copyMemory(from: bytes)
      gatheredCount += bytes.count
      end = offset + bytes.count
      if gatheredCount >= RecordTable.blockBytes { try flush() }
    } else {
      try flush()
      if let padded {
        try device.write(padded.count <= space.upperBound - offset ? padded : bytes, at: offset)
      } else {
        try hold(bytes, at: offset)
      }
      end = offset + bytes.count
    }
    guard end - begun >= Self.begunBytes else { return }
    try writeHeld()
    device.beginWriting(begun..<end)
    begun = end
  }

  /// - Parameter bytes: must stay valid until the record is finished.
  private func hold(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError) {
    guard let (first, start) = held, first.baseAddress.map({ $0 + first.count }) == bytes.baseAddress,
      start + first.count == offset
    else {
      try writeHeld()
      held = (bytes, offset)
      return
    }
    held = (UnsafeRawBufferPointer(start: first.baseAddress, count: first.count + bytes.count), start)
  }

  private func writeHeld() throws(StoreError) {
    guard let (bytes, offset) = held else { return }
    held = nil
    try device.write(bytes, at: offset)
  }

  private func flush() throws(StoreError) {
    guard gatheredCount > 0 else { return }
    try device.write(UnsafeRawBufferPointer(rebasing: gathered[..<gatheredCount]), at: end - gatheredCount)
    gatheredCount = 0
  }
}
