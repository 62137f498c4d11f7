/// What the first block of a segment's file says: how long its parts are, which follow one another from whole
/// blocks on.
///
///     header      this
///     text        the documents, each ended by a line feed
///     postings    of each term its positions, as differences of variable length
///     dictionary  blocks of terms in the order of their bytes
///     footer      documents, the first term of each block of the dictionary, checksums of all blocks above
///
/// The header is written last, once the device has all else: a file without it was torn.
struct SegmentLayout: Equatable, Sendable {
  static let magic: UInt64 = 0x3147_4553_5050_4F00
  static let version: UInt32 = 1

  var textBytes = 0
  var postingsBytes = 0
  var dictionaryBlocks = 0
  var footerBytes = 0
  var footerChecksum: UInt32 = 0
  /// Positions of words, gaps included.
  var positions = 0
  var documents = 0

  var text: Int { DiskBlock.size }
  var postings: Int { text + DiskBlock.roundUp(textBytes) }
  var dictionary: Int { postings + DiskBlock.roundUp(postingsBytes) }
  var footer: Int { dictionary + dictionaryBlocks * DiskBlock.size }
  var fileBytes: Int { footer + DiskBlock.roundUp(footerBytes) }
  /// Blocks with a checksum in the footer: all between the header and the footer.
  var checkedBlocks: Int { (footer - text) / DiskBlock.size }

  func encoded() -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.put(Self.magic)
    bytes.put(Self.version)
    for value in [textBytes, postingsBytes, dictionaryBlocks, footerBytes, positions, documents] {
      bytes.put(UInt64(value))
    }
    bytes.put(footerChecksum)
    bytes.put(bytes.withUnsafeBytes { checksum(of: $0) })
    bytes.append(contentsOf: repeatElement(0, count: DiskBlock.size - bytes.count))
    return bytes
  }

  init() {}

  /// - Parameters:
  ///   - block: the first of a file.
  ///   - fileBytes: the file's length.
  init(decoding block: UnsafeRawBufferPointer, fileBytes size: Int) throws(EngineError) {
    var reader = ByteReader(block)
    let found = try reader.take(UInt64.self)
    guard found != 0 else { throw EngineError(.torn, "the header was never written") }
    guard found == Self.magic else { throw EngineError(.notASegment, "the file does not begin as a segment") }
    let version = try reader.take(UInt32.self)
    guard version == Self.version else {
      throw EngineError(.notASegment, "the segment is of version \(version): expected \(Self.version)")
    }
    func length(_ reader: inout ByteReader) throws(EngineError) -> Int {
      let value = try reader.take(UInt64.self)
      // Sums of these must not overflow, also where the header is damaged.
      guard value < 1 << 48 else { throw EngineError(.corrupt, "a part of \(value) bytes") }
      return Int(value)
    }
    textBytes = try length(&reader)
    postingsBytes = try length(&reader)
    dictionaryBlocks = try length(&reader)
    footerBytes = try length(&reader)
    positions = try length(&reader)
    documents = try length(&reader)
    footerChecksum = try reader.take(UInt32.self)
    let own = checksum(of: UnsafeRawBufferPointer(rebasing: block[..<reader.position]))
    guard try reader.take(UInt32.self) == own else {
      throw EngineError(.corrupt, "the header is not what its checksum says")
    }
    guard fileBytes == size else {
      throw EngineError(.torn, "the file has \(size) bytes: its header says \(fileBytes)")
    }
  }
}

/// One term in a block of the dictionary.
struct TermEntry: Equatable, Sendable {
  /// How often it occurs.
  var count = 0
  /// Of its positions, from the postings' begin.
  var offset = 0
  var bytes = 0
  /// The last of its positions, which a merge goes on from.
  var last = 0

  func encode(term: UnsafeRawBufferPointer, into block: inout [UInt8]) {
    block.append(UInt8(term.count))
    block.append(contentsOf: term)
    for value in [count, offset, bytes, last] { block.putVariable(UInt64(value)) }
  }

  /// The next entry of a block; nil at its end.
  static func next(
    _ reader: inout ByteReader
  ) throws(EngineError) -> (term: UnsafeRawBufferPointer, entry: TermEntry)? {
    guard !reader.isAtEnd else { return nil }
    let length = Int(try reader.take(UInt8.self))
    guard length > 0 else { return nil }
    let term = try reader.take(count: length)
    var entry = TermEntry()
    entry.count = try value(&reader)
    entry.offset = try value(&reader)
    entry.bytes = try value(&reader)
    entry.last = try value(&reader)
    return (term, entry)
  }

  private static func value(_ reader: inout ByteReader) throws(EngineError) -> Int {
    let value = try reader.takeVariable()
    guard value < 1 << 48 else { throw EngineError(.corrupt, "a value of \(value) in the dictionary") }
    return Int(value)
  }
}

/// What a segment says of a document.
struct DocumentEntry: Equatable, Sendable {
  let id: UInt32
  /// The position of its first word.
  let first: UInt32
}

/// The end of a segment's file, which is kept in memory while it is open.
struct SegmentFooter: Equatable, Sendable {
  /// In the order of their positions.
  var documents: [DocumentEntry] = []
  /// Of each block of the dictionary, in order.
  var firstTerms: [[UInt8]] = []
  var checksums: [UInt32] = []

  func encoded() -> [UInt8] {
    var bytes: [UInt8] = []
    for document in documents {
      bytes.put(document.id)
      bytes.put(document.first)
    }
    for term in firstTerms {
      bytes.append(UInt8(term.count))
      bytes += term
    }
    for checksum in checksums { bytes.put(checksum) }
    return bytes
  }

  init() {}

  init(decoding bytes: UnsafeRawBufferPointer, _ layout: SegmentLayout) throws(EngineError) {
    guard bytes.count == layout.footerBytes, checksum(of: bytes) == layout.footerChecksum else {
      throw EngineError(.corrupt, "the footer is not what its checksum says")
    }
    var reader = ByteReader(bytes)
    for _ in 0..<layout.documents {
      documents.append(DocumentEntry(id: try reader.take(), first: try reader.take()))
    }
    for _ in 0..<layout.dictionaryBlocks {
      let length = Int(try reader.take(UInt8.self))
      firstTerms.append([UInt8](try reader.take(count: length)))
    }
    for _ in 0..<layout.checkedBlocks { checksums.append(try reader.take()) }
  }
}
