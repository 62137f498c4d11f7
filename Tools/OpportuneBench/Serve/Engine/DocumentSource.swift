import Glibc

/// A text of the tree, or a part of one that is longer than a chunk.
struct SourceDocument: Sendable {
  let id: UInt32
  let text: ArraySlice<UInt8>
}

/// The tree to index as one file, so that each chunk of it is read as cold as the last: documents in chunks
/// of whole blocks, which are read without the page cache.
struct DocumentSource: Sendable {
  /// One of them makes a segment.
  struct Chunk: Sendable {
    let offset: Int
    let bytes: Int
  }

  let path: String
  let chunks: [Chunk]
  private let file: any DiskFile

  private static let magic: UInt64 = 0x3153_434F_4450_504F

  init(opening path: String, on disk: any Disk) async throws {
    let file = try await disk.open(path, .reading, for: .background)
    let count = try await file.read(DiskBlock.size, at: 0, for: .background) { bytes throws(EngineError) in
      var reader = ByteReader(bytes)
      guard try reader.take(UInt64.self) == Self.magic else {
        throw EngineError(.corrupt, "'\(path)' is no source of documents")
      }
      return Int(try reader.take(UInt32.self))
    }
    chunks = try await file.read(Self.tableBytes(count), at: 0, for: .background) {
      bytes throws(EngineError) in
      var reader = ByteReader(bytes, at: 12)
      var chunks: [Chunk] = []
      for _ in 0..<count {
        chunks.append(
          Chunk(offset: Int(try reader.take(UInt64.self)), bytes: Int(try reader.take(UInt32.self))))
      }
      return chunks
    }
    self.path = path
    self.file = file
  }

  /// Reads the documents of a chunk from the device.
  func read(_ chunk: Int, for side: Side) async throws -> [SourceDocument] {
    let place = chunks[chunk]
    let bytes = try await file.read(DiskBlock.roundUp(place.bytes), at: place.offset, for: side) {
      [UInt8]($0[..<place.bytes])
    }
    return try bytes.withUnsafeBytes { raw throws(EngineError) in
      var reader = ByteReader(raw)
      var documents: [SourceDocument] = []
      for _ in 0..<Int(try reader.take(UInt32.self)) {
        let id = try reader.take(UInt32.self)
        let count = Int(try reader.take(UInt32.self))
        let start = reader.position
        _ = try reader.take(count: count)
        documents.append(SourceDocument(id: id, text: bytes[start..<start + count]))
      }
      return documents
    }
  }

  private static func tableBytes(_ chunks: Int) -> Int { DiskBlock.roundUp(12 + 12 * chunks) }

  /// Writes the file, chunk by chunk: `chunk` returns the documents of one, of which each text ends with a
  /// line feed. The page cache keeps none of it.
  static func write(
    to path: String, chunks count: Int, _ chunk: (Int) throws -> [SourceDocument]
  ) throws {
    let file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw EngineError.failed("'\(path)' was not made") }
    defer { close(file) }
    func put(_ bytes: [UInt8], at offset: Int) throws {
      let written = bytes.withUnsafeBytes { bytes in
        inPieces(bytes.count) { done in
          pwrite(file, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset + done))
        }
      }
      guard written.done == bytes.count else { throw EngineError.failed("'\(path)' was not written") }
    }
    var table: [UInt8] = []
    table.put(magic)
    table.put(UInt32(count))
    var offset = tableBytes(count)
    for index in 0..<count {
      let documents = try chunk(index)
      var bytes: [UInt8] = []
      bytes.put(UInt32(documents.count))
      for document in documents {
        bytes.put(document.id)
        bytes.put(UInt32(document.text.count))
        bytes += document.text
      }
      table.put(UInt64(offset))
      table.put(UInt32(bytes.count))
      bytes.append(contentsOf: repeatElement(0, count: DiskBlock.roundUp(bytes.count) - bytes.count))
      try put(bytes, at: offset)
      offset += bytes.count
    }
    table.append(contentsOf: repeatElement(0, count: tableBytes(count) - table.count))
    try put(table, at: 0)
    guard fsync(file) == 0 else { throw EngineError.failed("'\(path)' was not synchronised") }
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)
  }
}
