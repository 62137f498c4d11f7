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

  /// Reads the tree, writes it as one file, and builds the index while it counts what answers must be.
  ///
  /// - Returns: nil where it was interrupted.
  static func prepare(
    _ corpus: Corpus, in folder: String, isInterrupted: @escaping @Sendable () -> Bool
  ) throws -> ServeData? {
    var nextDocument: UInt32 = 0
    let chunks = corpus.chunks.map { pieces in
      pieces.compactMap { piece -> SourceDocument? in
        guard !isInterrupted(), var text = corpus.read(piece), !text.isEmpty else { return nil }
        if text.last != UInt8(ascii: "\n") { text.append(UInt8(ascii: "\n")) }
        nextDocument += 1
        return SourceDocument(id: nextDocument - 1, text: text[...])
      }
    }
    if isInterrupted() { return nil }
    let source = "\(folder)/documents"
    try DocumentSource.write(to: source, chunks: chunks.count) { chunks[$0] }
    let built = Outcome()
    let thread = try SystemThread(named: "index") {
      ThreadExecutor.run {
        do {
          let engine = try await SearchEngine(
            source: source, folder: folder, segments: [], disk: PlainDisk(), runtime: PlainRuntime(),
            cache: LRUBlockMemory(bytes: 1 << 20))
          try await engine.buildAll(while: { !isInterrupted() })
          built.value = .success(engine.segments)
        } catch {
          built.value = .failure(error)
        }
      }
    }
    let questions = Result { try ServeReferee(chunks).questions(while: { !isInterrupted() }) }
    thread.join()
    if isInterrupted() { return nil }
    let segments = try built.value.get()
    return ServeData(
      source: source, segments: segments.map(\.path), questions: try questions.get(),
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
