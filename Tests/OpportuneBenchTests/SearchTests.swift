import Foundation
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct PlainScanTests {
  private func count(_ query: String, in text: String) throws -> Int {
    let bytes = Array(text.utf8)
    return PlainScan.occurrences(of: try #require(Query(query)), in: bytes, startingIn: 0..<bytes.count)
  }

  @Test func prefixesBeginAtWords() throws {
    #expect(try count("foo", in: "Foo food xfoo _foo foo") == 3)
    #expect(try count("foo ", in: "Foo food xfoo _foo foo") == 2)
  }

  @Test func phrasesRunAcrossOtherBytes() throws {
    #expect(try count("open the do", in: "open the door. Open, the\n  DOG; open a door") == 2)
    #expect(try count("a b ", in: "a" + String(repeating: " ", count: 65) + "b a-b") == 1)
  }

  @Test func queriesAreChecked() {
    #expect(Query("") == nil)
    #expect(Query("  ,, ") == nil)
    #expect(Query("a b c d e") == nil)
    #expect(Query(String(repeating: "x", count: 25)) == nil)
  }
}

@Suite(.bounded) struct SearchIndexTests {
  /// A folder with files of a small vocabulary, so that phrases recur and run across pieces.
  private func withTree(_ body: (String) throws -> Void) throws {
    let root = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: root) }
    var random = SplitMix64(seed: 42)
    let words = [
      "a", "an", "Ant", "the", "them", "theme", "x_1", "größe", String(repeating: "long", count: 40),
    ]
    let gaps = [" ", "\n", " -- ", String(repeating: ".", count: 64), String(repeating: " ", count: 65)]
    for file in 0..<12 {
      var text = ""
      for _ in 0..<Int.random(in: 1...80, using: &random) {
        text += (words.randomElement(using: &random) ?? "") + (gaps.randomElement(using: &random) ?? "")
      }
      try Data(text.utf8).write(to: root.appendingPathComponent("file\(file).txt"))
    }
    try Data("compressed".utf8).write(to: root.appendingPathComponent("skip.gz"))
    try Data([1, 0, 2]).write(to: root.appendingPathComponent("binary"))
    try body(root.path)
  }

  private let queries = [
    "a", "an", "th", "the ", "a the", "the them ", "x", "the a an", "gr", "ant a ", "lo", "nowhere",
  ]

  // R-CARD-06: the foreground's answers are right.
  @Test(arguments: [97, 512, 4096, 1 << 20])
  func everyAnswerEqualsAPlainScan(chunkBytes: Int) throws {
    try withTree { root in
      let corpus = try Corpus(roots: [root], bytesMax: 1 << 20, chunkBytes: chunkBytes)
      #expect(corpus.compressedSkipped == 1 && corpus.binarySkipped == 1 && corpus.fileCount == 12)
      let index = SearchIndex(chunks: corpus.chunks.count, begun: 0)
      let referee = SearchReferee(corpus: corpus)
      let queries = try self.queries.map { try #require(Query($0)) }
      var random = SplitMix64(seed: 1)
      var given: [(query: Query, answer: Answer)] = []
      for (turn, chunk) in corpus.chunks.indices.shuffled(using: &random).enumerated() {
        let segment = SearchWorkload.build(corpus, chunk: chunk, while: { true }, progress: { _, _ in })
        index.publish(try #require(segment), at: chunk)
        if turn % max(1, corpus.chunks.count / 8) == 0 {
          for query in queries { given.append((query, index.answer(query, notesChunks: true))) }
        }
      }
      // While it grew, and at the end, file by file.
      #expect(try referee.check(given, bytesMax: .max) == given.count)
      #expect(try referee.check(index, queries: queries, files: 12, seed: 3) == queries.count * 12)
      for query in queries {
        #expect(index.answer(query).matches == index.tally(query).values.reduce(0, +))
      }
    }
  }

  @Test func aWrongAnswerIsFound() throws {
    try withTree { root in
      let corpus = try Corpus(roots: [root], bytesMax: 1 << 20, chunkBytes: 4096)
      let query = try #require(Query("the"))
      let wrong = Answer(matches: -1, files: [], chunks: [0])
      let error = #expect(throws: BenchError.self) {
        try SearchReferee(corpus: corpus).check([(query, wrong)], bytesMax: .max)
      }
      #expect(error?.code == .wrongAnswer)
    }
  }

  @Test func nothingIsSeenBeforeItIsPublished() throws {
    try withTree { root in
      let corpus = try Corpus(roots: [root], bytesMax: 1 << 20, chunkBytes: 1 << 20)
      let index = SearchIndex(chunks: corpus.chunks.count, begun: SystemClock.now())
      let query = try #require(Query("a"))
      #expect(index.answer(query) == Answer())
      let build = { SearchWorkload.build(corpus, chunk: 0, while: { true }, progress: { _, _ in }) }
      index.publish(try #require(build()), at: 0)
      let matches = index.answer(query).matches
      #expect(matches > 0)
      // A second segment for the same chunk changes nothing, nor does one out of range.
      index.publish(try #require(build()), at: 0)
      index.publish(try #require(build()), at: 7)
      #expect(index.answer(query).matches == matches)
      #expect(index.answer(query, publishedBy: 0).matches == 0)
    }
  }

  @Test func aStoppedBuildGivesNothing() throws {
    try withTree { root in
      let corpus = try Corpus(roots: [root], bytesMax: 1 << 20, chunkBytes: 1 << 20)
      #expect(SearchWorkload.build(corpus, chunk: 0, while: { false }, progress: { _, _ in }) == nil)
    }
  }

  @Test func typingGrowsByOneCharacter() {
    let typed = SearchWorkload.typing([Array("the".utf8), Array("ant".utf8)])
    #expect(
      typed.map(\.description) == [
        "\"th…\"", "\"the…\"", "\"the a…\"", "\"the an…\"", "\"the ant…\"", "\"the ant\"",
      ])
  }

  @Test func aTreeThatIsNoneIsNamed() {
    let error = #expect(throws: BenchError.self) { try Corpus(roots: ["/nonexistent-tree"]) }
    #expect(error?.description.contains("--tree '/nonexistent-tree'") == true)
  }
}
