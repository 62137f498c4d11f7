/// Makes one segment of several, as the compaction of an LSM tree does: reads each from its begin to its end,
/// and writes one, with a few hundred KiB of memory for each and the new dictionary.
enum SegmentMerge {
  static func write(
    _ segments: [SegmentFile], to path: String, on disk: any Disk, for side: Side
  ) async throws -> SegmentFile {
    var writer = try await SegmentWriter(path, on: disk, for: side)
    var bases: [Int] = []
    var positions = 0
    for segment in segments {
      bases.append(positions)
      positions += segment.layout.positions
      var text = PartReader(segment, at: segment.layout.text, bytes: segment.layout.textBytes, for: side)
      while try await text.fill(1) {
        text.takeAll { writer.putText($0) }
        try await writer.drain()
      }
    }
    writer.endText()
    var sources: [Source] = []
    for (segment, base) in zip(segments, bases) {
      var source = Source(segment, base: base, for: side)
      if try await source.advance() { sources.append(source) }
    }
    while let least = sources.map(\.term).min(by: { $0.lexicographicallyPrecedes($1) }) {
      var entry = TermEntry(offset: writer.postingsBytes)
      for index in sources.indices where sources[index].term == least {
        try await sources[index].copyPostings(into: &writer, after: entry)
        entry.last = sources[index].base + sources[index].entry.last
        entry.count += sources[index].entry.count
        entry.bytes = writer.postingsBytes - entry.offset
      }
      least.withUnsafeBytes { writer.putTerm($0, entry) }
      var index = 0
      while index < sources.count {
        if sources[index].term == least, !(try await sources[index].advance()) {
          sources.remove(at: index)
        } else {
          index += 1
        }
      }
      try await writer.drain()
    }
    for (segment, base) in zip(segments, bases) {
      for document in segment.footer.documents {
        writer.putDocument(DocumentEntry(id: document.id, first: document.first + UInt32(base)))
      }
    }
    return try await writer.finish(positions: positions)
  }

  /// One segment on its way into another.
  private struct Source {
    let base: Int
    private(set) var term: [UInt8] = []
    private(set) var entry = TermEntry()
    private var dictionary: PartReader
    private var postings: PartReader

    init(_ segment: SegmentFile, base: Int, for side: Side) {
      self.base = base
      let layout = segment.layout
      dictionary = PartReader(
        segment, at: layout.dictionary, bytes: layout.dictionaryBlocks * DiskBlock.size, for: side)
      postings = PartReader(segment, at: layout.postings, bytes: layout.postingsBytes, for: side)
    }

    /// To the next term; false behind the last.
    mutating func advance() async throws -> Bool {
      while try await dictionary.fill(1) {
        // An entry never goes across the end of its block, which zeros fill.
        let next = try dictionary.withBytes { bytes -> ([UInt8], TermEntry, Int)? in
          var reader = ByteReader(bytes)
          guard let next = try TermEntry.next(&reader) else { return nil }
          return ([UInt8](next.term), next.entry, reader.position)
        }
        if let next {
          (term, entry) = (next.0, next.1)
          dictionary.skip(next.2)
          return true
        }
        dictionary.skip(DiskBlock.size - dictionary.position % DiskBlock.size)
      }
      return false
    }

    /// Appends the term's positions: the first is told from the last of `before`, all others are as they
    /// were.
    mutating func copyPostings(into writer: inout SegmentWriter, after before: TermEntry) async throws {
      var left = entry.bytes
      _ = try await postings.fill(min(left, 10))
      let (first, length) = try postings.withBytes { bytes -> (UInt64, Int) in
        var reader = ByteReader(bytes)
        return (try reader.takeVariable(), reader.position)
      }
      var encoded: [UInt8] = []
      encoded.putVariable(first + UInt64(base - before.last))
      encoded.withUnsafeBytes { writer.putPostings($0) }
      postings.skip(length)
      left -= length
      while left > 0 {
        guard try await postings.fill(1) else { throw EngineError(.corrupt, "positions end early") }
        let count = postings.withBytes { bytes in
          let own = UnsafeRawBufferPointer(rebasing: bytes[..<min(left, bytes.count)])
          writer.putPostings(own)
          return own.count
        }
        postings.skip(count)
        left -= count
      }
    }
  }
}

/// Reads a part of a segment from its begin to its end, 64 blocks at a time.
struct PartReader {
  private static let blocks = 64

  private let segment: SegmentFile
  private let side: Side
  private let start: Int
  private let bytes: Int
  private var buffer: [UInt8] = []
  private var used = 0
  /// Read from the file so far.
  private var filled = 0

  init(_ segment: SegmentFile, at start: Int, bytes: Int, for side: Side) {
    self.segment = segment
    self.side = side
    self.start = start
    self.bytes = bytes
  }

  /// Of the part.
  var position: Int { filled - (buffer.count - used) }

  /// Has at least so many bytes ready, unless the part ends before; whether there are any.
  mutating func fill(_ wanted: Int) async throws -> Bool {
    if buffer.count - used < wanted, filled < bytes {
      let blocks = min(Self.blocks, (DiskBlock.roundUp(bytes) - filled) / DiskBlock.size)
      let next = try await segment.readBlocks((start + filled) / DiskBlock.size, count: blocks, for: side)
      buffer.removeFirst(used)
      used = 0
      let own = min(next.count, bytes - filled)
      buffer += next[..<own]
      filled += own
    }
    return used < buffer.count
  }

  /// What is ready.
  func withBytes<Value>(_ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
    try buffer.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[used...])) }
  }

  mutating func skip(_ count: Int) { used += min(count, buffer.count - used) }

  mutating func takeAll(_ body: (UnsafeRawBufferPointer) -> Void) {
    withBytes(body)
    used = buffer.count
  }
}
