import Synchronization

/// A segment on disk, open for reading. Removed from the file system by whoever replaced it; its bytes go
/// with the last query that reads them.
final class SegmentFile: Sendable {
  /// In this process; no two segments have the same.
  let number: UInt64
  let path: String
  let layout: SegmentLayout
  let footer: SegmentFooter
  private let file: any DiskFile

  private static let nextNumber = Atomic<UInt64>(0)
  /// Largest positions list that a query reads: of what is damaged a length may be anything.
  static let postingsMax = 256 << 20

  private init(_ path: String, _ layout: SegmentLayout, _ footer: SegmentFooter, _ file: any DiskFile) {
    self.path = path
    self.layout = layout
    self.footer = footer
    self.file = file
    number = Self.nextNumber.add(1, ordering: .relaxed).newValue
  }

  /// Opens a file, and checks what of it stays in memory.
  ///
  /// - Throws: ``EngineError``: `notASegment`, `torn`, `corrupt` or `system`.
  static func open(_ path: String, on disk: any Disk, for side: Side) async throws -> SegmentFile {
    let file = try await disk.open(path, .reading, for: side)
    let size = try await file.size
    guard size >= DiskBlock.size else {
      throw EngineError(.torn, "'\(path)' has \(size) bytes: expected a header of \(DiskBlock.size)")
    }
    let layout = try await file.read(DiskBlock.size, at: 0, for: side) {
      try SegmentLayout(decoding: $0, fileBytes: size)
    }
    guard layout.footerBytes > 0 else { return SegmentFile(path, layout, SegmentFooter(), file) }
    let footer = try await file.read(DiskBlock.roundUp(layout.footerBytes), at: layout.footer, for: side) {
      try SegmentFooter(decoding: UnsafeRawBufferPointer(rebasing: $0[..<layout.footerBytes]), layout)
    }
    return SegmentFile(path, layout, footer, file)
  }

  /// Blocks with a checksum, by their numbers from the file's begin.
  var blocks: Range<Int> { 1..<1 + layout.checkedBlocks }

  /// Blocks of the file, by their numbers, as their checksums say.
  func readBlocks(_ first: Int, count: Int, for side: Side) async throws -> [UInt8] {
    guard first >= 1, first + count <= blocks.upperBound else {
      throw EngineError(.corrupt, "block \(first) + \(count) of '\(path)', which has \(layout.checkedBlocks)")
    }
    return try await file.read(count * DiskBlock.size, at: first * DiskBlock.size, for: side) { bytes in
      for index in 0..<count {
        let block = bytes[index * DiskBlock.size..<(index + 1) * DiskBlock.size]
        guard checksum(of: UnsafeRawBufferPointer(rebasing: block)) == footer.checksums[first - 1 + index]
        else {
          throw EngineError(.corrupt, "block \(first + index) of '\(path)' is not what its checksum says")
        }
      }
      return [UInt8](bytes)
    }
  }

  /// What the dictionary says of a term; nil where it does not occur.
  func entry(of term: [UInt8], in cache: BlockCache) async throws -> TermEntry? {
    guard let index = dictionaryBlock(of: term) else { return nil }
    let block = layout.dictionary / DiskBlock.size + index
    return try await cache.withBlock(block, of: self) { bytes throws(EngineError) in
      var reader = ByteReader(bytes)
      while let next = try TermEntry.next(&reader) {
        if next.term.elementsEqual(term) { return next.entry }
      }
      return nil
    }
  }

  /// The positions of a term, in order.
  func positions(_ entry: TermEntry, in cache: BlockCache) async throws -> [UInt32] {
    guard entry.offset + entry.bytes <= layout.postingsBytes, entry.bytes <= Self.postingsMax,
      entry.count <= entry.bytes
    else { throw EngineError(.corrupt, "positions beyond the end of those of '\(path)'") }
    var encoded: [UInt8] = []
    encoded.reserveCapacity(entry.bytes)
    while encoded.count < entry.bytes {
      let at = layout.postings + entry.offset + encoded.count
      let start = at % DiskBlock.size
      let end = min(DiskBlock.size, start + entry.bytes - encoded.count)
      try await cache.withBlock(at / DiskBlock.size, of: self) {
        encoded.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[start..<end]))
      }
    }
    return try encoded.withUnsafeBytes { bytes in
      var positions: [UInt32] = []
      positions.reserveCapacity(entry.count)
      var reader = ByteReader(bytes)
      var position: UInt64 = 0
      for _ in 0..<entry.count {
        position &+= try reader.takeVariable()
        guard position < layout.positions else {
          throw EngineError(.corrupt, "position \(position) in '\(path)', which has \(layout.positions)")
        }
        positions.append(UInt32(position))
      }
      return positions
    }
  }

  /// The document of a position is at or after `start`; returns its index.
  func document(of position: UInt32, from start: Int) -> Int {
    let documents = footer.documents
    var low = start
    var step = 1
    while low + step < documents.count, documents[low + step].first <= position {
      low += step
      step *= 2
    }
    var high = min(documents.count, low + step)
    while low + 1 < high {
      let middle = (low + high) / 2
      if documents[middle].first <= position { low = middle } else { high = middle }
    }
    return low
  }

  /// The last block whose first term is not above `term`.
  private func dictionaryBlock(of term: [UInt8]) -> Int? {
    var low = 0
    var high = footer.firstTerms.count
    while low < high {
      let middle = (low + high) / 2
      if term.lexicographicallyPrecedes(footer.firstTerms[middle]) { high = middle } else { low = middle + 1 }
    }
    return low > 0 ? low - 1 : nil
  }
}
