import Glibc
import OpportuneBase

/// The documents of a run, an index of them that all contenders begin with, and what is asked of it.
struct ServeData: Sendable {
  /// So much of the tree makes a segment.
  static let chunkBytes = 1 << 20

  let source: String
  let segments: [String]
  let questions: ServeQuestions
  let textBytes: Int
  let indexBytes: Int
  let chunks: Int

  /// Reads the tree, writes it as one file and builds the index.
  static func prepare(_ corpus: Corpus, in folder: String) throws -> ServeData {
    var nextDocument: UInt32 = 0
    let chunks = corpus.chunks.map { pieces in
      pieces.compactMap { piece -> SourceDocument? in
        guard let read = corpus.read(piece), !read.own.isEmpty else { return nil }
        var text = Array(read.text[read.own])
        if text.last != UInt8(ascii: "\n") { text.append(UInt8(ascii: "\n")) }
        nextDocument += 1
        return SourceDocument(id: nextDocument - 1, text: text[...])
      }
    }
    let source = "\(folder)/documents"
    try DocumentSource.write(to: source, chunks: chunks.count) { chunks[$0] }
    let questions = try ServeReferee(chunks).questions()
    let built = Outcome()
    let thread = try SystemThread(named: "index") {
      ThreadExecutor.run {
        do {
          let engine = try await SearchEngine(
            source: source, folder: folder, segments: [], disk: PlainDisk(), runtime: PlainRuntime(),
            cache: LRUBlockMemory(bytes: 1 << 20))
          try await engine.buildAll()
          built.value = .success(engine.segments)
        } catch {
          built.value = .failure(error)
        }
      }
    }
    thread.join()
    let segments = try built.value.get()
    return ServeData(
      source: source, segments: segments.map(\.path), questions: questions,
      textBytes: segments.reduce(0) { $0 + $1.layout.textBytes },
      indexBytes: segments.reduce(0) { $0 + $1.layout.fileBytes }, chunks: chunks.count)
  }

  /// The index under names of a contender's own, which may remove them: the same files.
  func linkSegments(into folder: String) throws(BenchError) -> [String] {
    var paths: [String] = []
    for (number, segment) in segments.enumerated() {
      let path = "\(folder)/begin-\(number)"
      guard link(segment, path) == 0 else { throw .failed("'\(path)' was not made") }
      paths.append(path)
    }
    return paths
  }

  /// Written by one thread, read when that was joined.
  private final class Outcome: @unchecked Sendable {
    var value: Result<[SegmentFile], any Error> = .failure(BenchError(.workLost, "no index was built"))
  }
}
