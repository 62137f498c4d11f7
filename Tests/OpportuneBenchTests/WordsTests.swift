import Foundation
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct WordsTests {
  private func count(_ query: String, in text: String) throws -> Int {
    PlainScan.occurrences(of: try #require(Query(query)), in: Array(text.utf8))
  }

  @Test func wordsAreWholeAndPhrasesRunAcrossOtherBytes() throws {
    #expect(try count("foo", in: "Foo food xfoo _foo foo") == 2)
    #expect(try count("open the door", in: "open the door. Open, the\n  DOOR; open a door") == 2)
    #expect(try count("a b", in: "a" + String(repeating: " ", count: 65) + "b a-b") == 1)
  }

  @Test func queriesAreChecked() {
    #expect(Query("") == nil)
    #expect(Query("  ,, ") == nil)
    #expect(Query("a b c d e") == nil)
    #expect(Query(String(repeating: "x", count: 25)) == nil)
    #expect(Query(" Größe,A ")?.words == [Array("größe".utf8), Array("a".utf8)])
  }
}

@Suite(.bounded) struct CorpusTests {
  /// Pieces are the files' bytes, each once, however they are cut; what is no text is counted.
  @Test(arguments: [97, 4096]) func aTreeIsCutIntoPieces(chunkBytes: Int) throws {
    let root = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: root) }
    var written: Set<String> = []
    for file in 0..<12 {
      let text = (0...file * 9).map { "word\($0) of \(file)\n" }.joined()
      written.insert(text)
      try Data(text.utf8).write(to: root.appendingPathComponent("file\(file).txt"))
    }
    try Data("compressed".utf8).write(to: root.appendingPathComponent("skip.gz"))
    try Data([1, 0, 2]).write(to: root.appendingPathComponent("binary"))
    let corpus = try Corpus(roots: [root.path], bytesMax: 1 << 20, chunkBytes: chunkBytes)
    #expect(corpus.compressedSkipped == 1 && corpus.binarySkipped == 1 && corpus.fileCount == 12)
    var read: [Int: [UInt8]] = [:]
    for piece in corpus.chunks.joined() { read[piece.file, default: []] += try #require(corpus.read(piece)) }
    #expect(Set(read.values.map { String(decoding: $0, as: UTF8.self) }) == written)
    #expect(corpus.chunks.allSatisfy { $0.reduce(0) { $0 + $1.count } <= chunkBytes })
  }

  @Test func aTreeThatIsNoneIsNamed() {
    let error = #expect(throws: BenchError.self) { try Corpus(roots: ["/nonexistent-tree"]) }
    #expect(error?.description.contains("--tree '/nonexistent-tree'") == true)
  }
}
