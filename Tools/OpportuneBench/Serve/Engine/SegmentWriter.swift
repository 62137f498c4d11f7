/// Writes a segment's file part after part, in large pieces.
///
/// Owned by one job. What is put stays in memory until ``drain()``.
struct SegmentWriter: ~Copyable {
  private static let piece = 256 << 10

  private let path: String
  private let disk: any Disk
  private let side: Side
  private let file: any DiskFile
  private var layout = SegmentLayout()
  private var footer = SegmentFooter()
  /// Put and not written yet; begins at `written`.
  private var staged: [UInt8] = []
  private var written = DiskBlock.size
  /// The block of the dictionary that is being filled.
  private var dictionaryBlock: [UInt8] = []
  private var dictionary: [UInt8] = []

  init(_ path: String, on disk: any Disk, for side: Side) async throws {
    self.path = path
    self.disk = disk
    self.side = side
    file = try await disk.open(path, .creating, for: side)
  }

  // MARK: The parts, in this order

  mutating func putText(_ bytes: UnsafeRawBufferPointer) {
    staged.append(contentsOf: bytes)
    layout.textBytes += bytes.count
  }

  /// Ends the text; the rest of its last block is zero.
  mutating func endText() { pad() }

  mutating func putPostings(_ bytes: UnsafeRawBufferPointer) {
    staged.append(contentsOf: bytes)
    layout.postingsBytes += bytes.count
  }

  /// A term whose positions are put by now; terms in the order of their bytes.
  mutating func putTerm(_ term: UnsafeRawBufferPointer, _ entry: TermEntry) {
    let before = dictionaryBlock.count
    entry.encode(term: term, into: &dictionaryBlock)
    guard dictionaryBlock.count > DiskBlock.size else {
      if before == 0 { footer.firstTerms.append([UInt8](term)) }
      return
    }
    dictionaryBlock.removeLast(dictionaryBlock.count - before)
    endDictionaryBlock()
    entry.encode(term: term, into: &dictionaryBlock)
    footer.firstTerms.append([UInt8](term))
  }

  mutating func putDocument(_ document: DocumentEntry) { footer.documents.append(document) }

  /// Bytes of positions so far, where the next term's begin.
  var postingsBytes: Int { layout.postingsBytes }

  // MARK: To the device

  /// Writes what is whole pieces of what is put.
  mutating func drain() async throws {
    let count = staged.count / Self.piece * Self.piece
    if count > 0 { try await write(count) }
  }

  /// Writes the rest, and the header once the device has all; opens what was written.
  consuming func finish(positions: Int) async throws -> SegmentFile {
    pad()
    if !dictionaryBlock.isEmpty { endDictionaryBlock() }
    layout.dictionaryBlocks = dictionary.count / DiskBlock.size
    staged += dictionary
    try await write(staged.count)
    layout.positions = positions
    layout.documents = footer.documents.count
    let end = footer.encoded()
    layout.footerBytes = end.count
    layout.footerChecksum = end.withUnsafeBytes { checksum(of: $0) }
    staged = end
    pad()
    let count = staged.count
    if count > 0 {
      try await file.write(count, at: layout.footer, for: side) { [staged] in $0.copyBytes(from: staged) }
    }
    try await file.synchronize(for: side)
    let header = layout.encoded()
    try await file.write(header.count, at: 0, for: side) { $0.copyBytes(from: header) }
    try await file.synchronize(for: side)
    return try await SegmentFile.open(path, on: disk, for: side)
  }

  private mutating func endDictionaryBlock() {
    dictionary += dictionaryBlock
    dictionary.append(contentsOf: repeatElement(0, count: DiskBlock.size - dictionaryBlock.count))
    dictionaryBlock.removeAll(keepingCapacity: true)
  }

  private mutating func pad() {
    let odd = staged.count % DiskBlock.size
    if odd > 0 { staged.append(contentsOf: repeatElement(0, count: DiskBlock.size - odd)) }
  }

  private mutating func write(_ count: Int) async throws {
    staged.withUnsafeBytes { bytes in
      for start in stride(from: 0, to: count, by: DiskBlock.size) {
        let block = UnsafeRawBufferPointer(rebasing: bytes[start..<start + DiskBlock.size])
        footer.checksums.append(checksum(of: block))
      }
    }
    var done = 0
    while done < count {
      let next = min(Self.piece, count - done)
      try await file.write(next, at: written + done, for: side) { [staged] in
        $0.copyBytes(from: staged[done..<done + next])
      }
      done += next
    }
    written += count
    staged.removeFirst(count)
  }
}
