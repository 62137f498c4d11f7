import Foundation
import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ServeSegmentTests {
  private let folder: ServeTestFolder
  private let cache = BlockCache(memory: LRUBlockMemory(bytes: 1 << 20), runtime: PlainRuntime())

  init() throws { folder = try ServeTestFolder() }

  private func write(_ documents: [SourceDocument], _ name: String) async throws -> SegmentFile {
    try await SegmentBuild.write(
      documents, to: "\(folder.path)/\(name)", on: PlainDisk(), for: .background)
  }

  private func open(_ name: String) async throws -> SegmentFile {
    try await SegmentFile.open("\(folder.path)/\(name)", on: PlainDisk(), for: .foreground)
  }

  /// Positions of each word of a vocabulary, by looking at the documents one by one.
  private func model(_ documents: [SourceDocument]) -> [[UInt8]: Int] {
    var counts: [[UInt8]: Int] = [:]
    for document in documents {
      for word in document.text.split(whereSeparator: { Words.folded[Int($0)] == 0 }) {
        counts[word.map { Words.folded[Int($0)] }, default: 0] += 1
      }
    }
    return counts
  }

  // R-CARD-06: what the server of the main job answers is right.
  @Test func aSegmentIsReadAsItWasWritten() async throws {
    let documents = randomDocuments(40, words: 120, seed: 1)
    let written = try await write(documents, "one")
    let read = try await open("one")
    #expect(read.layout == written.layout && read.footer == written.footer)
    #expect(read.footer.documents.map(\.id) == documents.map(\.id))
    for (word, count) in model(documents) {
      let entry = try #require(try await read.entry(of: word, in: cache))
      let positions = try await read.positions(entry, in: cache)
      #expect(positions.count == count && entry.count == count && positions == positions.sorted())
      #expect(positions.last.map(Int.init) == entry.last)
    }
    for absent in ["", "0", "word", "zzzz"] {
      #expect(try await read.entry(of: Array(absent.utf8), in: cache) == nil)
    }
    var text = PartReader(read, at: read.layout.text, bytes: read.layout.textBytes, for: .foreground)
    var all: [UInt8] = []
    while try await text.fill(1) { text.takeAll { all.append(contentsOf: $0) } }
    #expect(all == documents.flatMap(\.text))
  }

  @Test func aSegmentOfNothingIsOne() async throws {
    let segment = try await write([], "none")
    #expect(segment.layout.positions == 0 && segment.footer == SegmentFooter())
    #expect(try await segment.entry(of: Array("a".utf8), in: cache) == nil)
    _ = try await SegmentMerge.write(
      [segment, segment], to: "\(folder.path)/merged", on: PlainDisk(), for: .background)
  }

  /// Cut anywhere, or without its header, as a crash leaves it.
  @Test func aTornFileIsRefused() async throws {
    let whole = try await write(randomDocuments(40, words: 120, seed: 2), "whole")
    let bytes = try Data(contentsOf: URL(filePath: whole.path))
    for count in [0, 1, 4095, 4096, bytes.count / 2, bytes.count - 1] {
      try bytes.prefix(count).write(to: URL(filePath: "\(folder.path)/cut"))
      let error = await #expect(throws: EngineError.self) { _ = try await open("cut") }
      #expect(error?.code == .torn, "\(count) bytes: \(error?.description ?? "taken")")
    }
    var headless = bytes
    headless.replaceSubrange(0..<4096, with: Data(count: 4096))
    try headless.write(to: URL(filePath: "\(folder.path)/headless"))
    await #expect(throws: EngineError(.torn, "")) { _ = try await open("headless") }
    try (bytes + Data(count: 4096)).write(to: URL(filePath: "\(folder.path)/longer"))
    await #expect(throws: EngineError(.torn, "")) { _ = try await open("longer") }
  }

  /// Each part: what stays in memory is found out as it is opened, all else as it is read.
  @Test func aCorruptFileIsRefused() async throws {
    let whole = try await write(randomDocuments(40, words: 120, seed: 3), "whole")
    let layout = whole.layout
    let bytes = try Data(contentsOf: URL(filePath: whole.path))
    func damage(_ offset: Int) throws {
      var damaged = bytes
      damaged[offset] ^= 0x10
      try damaged.write(to: URL(filePath: "\(folder.path)/damaged"))
    }
    for offset in [8, 9] {  // the version
      try damage(offset)
      await #expect(throws: EngineError(.notASegment, "")) { _ = try await open("damaged") }
    }
    try damage(0)
    await #expect(throws: EngineError(.notASegment, "")) { _ = try await open("damaged") }
    for offset in [12, 19, 30, 60, layout.footer, layout.footer + layout.footerBytes - 1] {
      try damage(offset)
      await #expect(throws: EngineError(.corrupt, ""), "offset \(offset)") { _ = try await open("damaged") }
    }
    for offset in [layout.text, layout.postings, layout.dictionary + 7, layout.footer - 1] {
      try damage(offset)
      let segment = try await open("damaged")
      let block = offset / DiskBlock.size
      await #expect(throws: EngineError(.corrupt, "")) {
        _ = try await segment.readBlocks(block, count: 1, for: .background)
      }
      await #expect(throws: EngineError(.corrupt, "")) { try await cache.scrub(block, count: 1, of: segment) }
    }
    await #expect(throws: EngineError(.corrupt, "")) {
      _ = try await whole.readBlocks(whole.blocks.upperBound, count: 1, for: .background)
    }
  }

  /// A merge has what one segment of all documents has, byte for byte but for the order of its making.
  @Test(arguments: [1, 2, 4])
  func aMergeIsASegmentOfAllDocuments(parts: Int) async throws {
    let documents = randomDocuments(60, words: 150, seed: 4)
    let cut = (0..<parts).map { Array(documents[$0 * 60 / parts..<($0 + 1) * 60 / parts]) }
    var segments: [SegmentFile] = []
    for (number, part) in cut.enumerated() { segments.append(try await write(part, "part\(number)")) }
    let merged = try await SegmentMerge.write(
      segments, to: "\(folder.path)/merged", on: PlainDisk(), for: .background)
    let whole = try await write(documents, "whole")
    #expect(
      try Data(contentsOf: URL(filePath: merged.path)) == Data(contentsOf: URL(filePath: whole.path)))
  }
}

@Suite(.bounded) struct ServeCacheTests {
  private func block(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: DiskBlock.size) }

  /// Against a list in the order of use, shard by shard: what is there has its own content, and no shard has
  /// more than its part.
  @Test func blocksThatWereUsedLastStay() throws {
    let memory = LRUBlockMemory(bytes: 64 * DiskBlock.size)
    var random = SplitMix64(seed: 3)
    var found = 0
    for step in 0..<4000 {
      let number = Int.random(in: 0..<120, using: &random)
      let key = BlockKey(segment: 1, block: number)
      if let byte = try memory.withBlock(key, { $0[17] }) {
        found += 1
        #expect(byte == UInt8(number), "step \(step)")
      } else {
        block(UInt8(number)).withUnsafeBytes { memory.insert($0, for: key) }
        #expect(try memory.withBlock(key) { $0[4095] } == UInt8(number))
      }
    }
    #expect((1000..<3000).contains(found), "\(found)")
    let there = try (0..<120).count {
      try memory.withBlock(BlockKey(segment: 1, block: $0)) { _ in true } == true
    }
    #expect(there <= 64)
  }

  @Test func ofOneShardTheOldestUseGoes() throws {
    // A cache of one block a shard: the second of a shard drives out the first.
    let memory = LRUBlockMemory(bytes: 16 * DiskBlock.size)
    for number in 0..<64 {
      block(UInt8(number)).withUnsafeBytes { memory.insert($0, for: BlockKey(segment: 2, block: number)) }
      #expect(try memory.withBlock(BlockKey(segment: 2, block: number)) { $0[0] } == UInt8(number))
    }
  }

  /// Who needs a block that is being read waits for that read.
  @Test func aBlockIsReadOnceForAllThatWait() async throws {
    let folder = try ServeTestFolder()
    let disk = WatchedDisk()
    _ = try await SegmentBuild.write(
      randomDocuments(30, words: 100, seed: 6), to: "\(folder.path)/one", on: PlainDisk(), for: .background)
    let segment = try await SegmentFile.open("\(folder.path)/one", on: disk, for: .foreground)
    let cache = BlockCache(memory: LRUBlockMemory(bytes: 1 << 20), runtime: PlainRuntime())
    disk.hold(true)
    let before = disk.reads.count
    async let scrubbed: Void = cache.scrub(1, count: 2, of: segment)
    while disk.reads.count == before { await Task.yield() }
    async let first = cache.withBlock(1, of: segment) { $0[0] }
    async let second = cache.withBlock(2, of: segment) { $0[0] }
    while cache.waits.load(ordering: .relaxed) < 2 { await Task.yield() }
    disk.hold(false)
    _ = try await (scrubbed, first, second)
    #expect(disk.reads.count == before + 1)
    #expect(cache.misses.load(ordering: .relaxed) == 2 && cache.hits.load(ordering: .relaxed) == 0)
    _ = try await cache.withBlock(2, of: segment) { $0[0] }
    #expect(cache.hits.load(ordering: .relaxed) == 1 && disk.reads.count == before + 1)
  }
}

@Suite(.bounded) struct ServeQueryTests {
  /// Words, phrases and patterns over several segments, while the index is made anew, against a plain scan.
  @Test func answersAreThoseOfAPlainScan() async throws {
    let folder = try ServeTestFolder()
    let chunks = (0..<9).map { chunk in
      randomDocuments(8, words: 90, seed: UInt64(chunk)).map {
        SourceDocument(id: $0.id + UInt32(chunk * 100), text: $0.text)
      }
    }
    try DocumentSource.write(to: "\(folder.path)/documents", chunks: 9) { chunks[$0] }
    let engine = try await SearchEngine(
      source: "\(folder.path)/documents", folder: folder.path, segments: [], disk: PlainDisk(),
      runtime: PlainRuntime(), cache: LRUBlockMemory(bytes: 64 << 10))
    try await engine.buildAll()
    #expect(engine.segments.count == 3)  // two of four chunks each, and the ninth
    for round in 0..<3 {
      for text in [
        "a", "éclair", "word1_x", "nul", "absent", "a a", "word4_x word9_x", "a word1_x nul",
        "nul nul nul nul",
      ] {
        let query = try #require(Query(text))
        var (matches, documents) = (0, 0)
        for document in chunks.joined() {
          let count = PlainScan.occurrences(of: query, in: Array(document.text))
          matches += count
          documents += count > 0 ? 1 : 0
        }
        let answer = await engine.answer(ServeRequest(id: 7, kind: .phrase, text: text))
        #expect(answer.id == 7 && answer.status == .answered)
        #expect(
          (answer.matches, answer.documents) == (UInt64(matches), UInt32(documents)), "'\(text)', \(round)")
      }
      for pattern in ["word[0-9]+_x a", "^nul", "\\.\\.$", "x{3}"] {
        let lines = chunks.joined().flatMap {
          String(decoding: $0.text, as: UTF8.self).split(separator: "\n")
        }
        let regex = try Regex(pattern)
        let expected = lines.count { $0.contains(regex) }
        let answer = await engine.answer(ServeRequest(id: 8, kind: .heavy, text: pattern))
        #expect(answer.matches == UInt64(expected), "'\(pattern)', \(round)")
      }
      let before = engine.counters.indexes
      while engine.counters.indexes == before { await engine.maintainOnce() }
    }
    let fresh = await engine.answer(ServeRequest(id: 9, kind: .fresh, text: "a"))
    let query = try #require(Query("a"))
    let expected = chunks[Int(fresh.chunk)].reduce(0) { sum, document in
      sum + PlainScan.occurrences(of: query, in: Array(document.text))
    }
    #expect(fresh.status == .answered && fresh.matches == UInt64(expected))
    let counters = engine.counters
    #expect(
      counters.failures == 0 && counters.documents == 4 * 72 && counters.merges == 8 && counters.refused == 0)
    // Replaced segments are gone.
    let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
      $0.hasPrefix("segment")
    }
    #expect(left.count == 3)
  }

  @Test func whatCannotBeAnsweredIsRefused() async throws {
    let folder = try ServeTestFolder()
    try DocumentSource.write(to: "\(folder.path)/documents", chunks: 1) { _ in
      randomDocuments(3, words: 9, seed: 1)
    }
    let engine = try await SearchEngine(
      source: "\(folder.path)/documents", folder: folder.path, segments: [], disk: PlainDisk(),
      runtime: PlainRuntime(), cache: LRUBlockMemory(bytes: 64 << 10))
    for request in [
      ServeRequest(id: 1, kind: .short, text: "..."), ServeRequest(id: 2, kind: .heavy, text: "(["),
      ServeRequest(id: 3, kind: .fresh, text: "a"),
      ServeRequest(id: 4, kind: .phrase, text: String(repeating: "long", count: 20)),
    ] {
      let answer = await engine.answer(request)
      #expect(answer.status == .refused && answer.id == request.id)
    }
    #expect(engine.counters.refused == 4)
  }

  /// Over pieces that end anywhere.
  @Test func linesAreCountedAcrossPieces() throws {
    let text = Array("one\ntwo words\n\nthree words one\nwords\n".utf8)
    for size in 1...text.count {
      var counter = LineCounter(try Pattern("words$|^one"))
      for start in stride(from: 0, to: text.count, by: size) {
        text[start..<min(text.count, start + size)].withUnsafeBytes { counter.add($0) }
      }
      #expect(counter.count == 3, "pieces of \(size)")
    }
    #expect(throws: EngineError(.pattern, "")) { _ = try Pattern("a{2,1}") }
  }

  @Test func theBestDocumentsAreThoseWithMostMatches() {
    var best = BestDocuments()
    for id in 0..<30 { best.add(UInt32(id), matches: (id * 7) % 30 + 1) }
    #expect(best.matches == 465 && best.documents == 30)
    #expect(best.first.map(\.matches) == Array((21...30).reversed()))
  }
}
