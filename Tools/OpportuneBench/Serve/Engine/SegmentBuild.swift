/// Makes a segment's file from documents, in the tokeniser's and sorter's form of `Segment`.
enum SegmentBuild {
  static func write(
    _ documents: [SourceDocument], to path: String, on disk: any Disk, for side: Side
  ) async throws -> SegmentFile {
    var builder = SegmentBuilder(expectedBytes: documents.reduce(0) { $0 + $1.text.count })
    for document in documents { builder.add(document: Int(document.id), text: Array(document.text)) }
    let segment = builder.finish()
    var writer = try await SegmentWriter(path, on: disk, for: side)
    for document in documents {
      document.text.withUnsafeBytes { writer.putText($0) }
      try await writer.drain()
    }
    writer.endText()
    for rank in 0..<segment.termCount {
      put(rank, of: segment, into: &writer)
      if rank % 4096 == 0 { try await writer.drain() }
    }
    for (id, first) in segment.documents {
      writer.putDocument(DocumentEntry(id: UInt32(id), first: UInt32(first)))
    }
    return try await writer.finish(positions: segment.positions)
  }

  private static func put(_ rank: Int, of segment: Segment, into writer: inout SegmentWriter) {
    let positions = segment.positions(of: rank)
    var encoded: [UInt8] = []
    encoded.reserveCapacity(positions.count * 2)
    var before: UInt32 = 0
    for position in positions {
      encoded.putVariable(UInt64(position - before))
      before = position
    }
    let entry = TermEntry(
      count: positions.count, offset: writer.postingsBytes, bytes: encoded.count, last: Int(before))
    encoded.withUnsafeBytes { writer.putPostings($0) }
    segment.withTerm(rank) { writer.putTerm($0, entry) }
  }
}
