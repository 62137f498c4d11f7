import OpportuneBase

/// Chooses what is asked, and counts what the answers must be: by looking at all words of all documents, with
/// nothing of the engine but what a word is.
struct ServeReferee {
  private static let questions = 400
  private static let freshWords = 4

  private struct Word {
    var bytes: [UInt8]
    var count = 0
    var documents: UInt32 = 0
    var lastDocument = UInt32.max
  }

  private let chunks: [[SourceDocument]]

  init(_ chunks: [[SourceDocument]]) { self.chunks = chunks }

  /// - Parameter goesOn: asked between two passes over the documents; where not, there are fewer questions.
  func questions(seed: UInt64 = 11, while goesOn: () -> Bool = { true }) throws -> ServeQuestions {
    var words: [UInt64: Word] = [:]
    var total = 0
    for document in chunks.joined() {
      Self.forEachWord(of: document.text) { hash, range, _ in
        total += 1
        var word = words[hash] ?? Word(bytes: document.text[range].map { Words.folded[Int($0)] })
        word.count += 1
        if word.lastDocument != document.id {
          word.lastDocument = document.id
          word.documents += 1
        }
        words[hash] = word
      }
    }
    // The order of a dictionary differs from run to run.
    let known = words.values.filter { Self.isTypable($0.bytes) }
      .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    guard !known.isEmpty else {
      throw BenchError.invalid("--tree", "these folders", expected: "files with words in them")
    }
    var random = SplitMix64(seed: seed)
    var questions = ServeQuestions()
    // As often as makes a query of some 100 us where the tree is the ordinary one.
    let ordinary = known.filter { (max(1, total / 50_000)...max(2, total / 5000)).contains($0.count) }
    for word in (ordinary.isEmpty ? known : ordinary).shuffled(using: &random).prefix(Self.questions) {
      questions.short.append(
        ServeQuestion(
          kind: .short, text: Self.text(word.bytes), matches: UInt64(word.count), documents: word.documents))
    }
    guard goesOn() else { return questions }
    let common = Set(known.filter { $0.count >= max(1, total / 500) }.map(\.bytes))
    questions.phrase = phrases(of: common, using: &random)
    guard goesOn() else { return questions }
    let frequent = known.sorted { $0.count > $1.count }.prefix(Self.freshWords)
    questions.fresh = frequent.map { word in
      ServeQuestion(kind: .fresh, text: Self.text(word.bytes), matchesOfChunk: matchesOfChunk(word.bytes))
    }
    for pattern in ServeQuestions.patterns where goesOn() { questions.heavy.append(try heavy(pattern)) }
    return questions
  }

  /// Pairs of common words that are somewhere in a row, and how often they are.
  private func phrases(of common: Set<[UInt8]>, using random: inout SplitMix64) -> [ServeQuestion] {
    let hashes = Set(common.map(Self.hash))
    var pairs: [UInt64: (text: String, count: UInt64, documents: UInt32, last: UInt32)] = [:]
    for document in chunks.joined().shuffled(using: &random) where pairs.count < Self.questions / 4 {
      var taken = 0
      Self.forEachPair(of: document.text) { first, second, words in
        guard taken < 4, hashes.contains(first), hashes.contains(second) else { return }
        pairs[Self.pair(first, second)] = (
          words.map { Self.text(document.text[$0].map { Words.folded[Int($0)] }) }.joined(separator: " "), 0,
          0,
          .max
        )
        taken += 1
      }
    }
    for document in chunks.joined() {
      Self.forEachPair(of: document.text) { first, second, _ in
        let key = Self.pair(first, second)
        guard var pair = pairs[key] else { return }
        pair.count += 1
        if pair.last != document.id {
          pair.last = document.id
          pair.documents += 1
        }
        pairs[key] = pair
      }
    }
    return pairs.values.sorted { $0.text < $1.text }.map {
      ServeQuestion(kind: .phrase, text: $0.text, matches: $0.count, documents: $0.documents)
    }
  }

  private func matchesOfChunk(_ word: [UInt8]) -> [UInt64] {
    let wanted = Self.hash(word)
    return chunks.map { chunk in
      var count: UInt64 = 0
      for document in chunk {
        Self.forEachWord(of: document.text) { hash, _, _ in count += hash == wanted ? 1 : 0 }
      }
      return count
    }
  }

  private func heavy(_ text: String) throws -> ServeQuestion {
    let pattern = try Pattern(text)
    var lines = 0
    for document in chunks.joined() { lines += document.text.withUnsafeBytes(pattern.lines) }
    return ServeQuestion(kind: .heavy, text: text, matches: UInt64(lines))
  }

  private static func isTypable(_ word: [UInt8]) -> Bool {
    (3...Words.queryMax).contains(word.count) && word.allSatisfy { $0 < 128 }
  }

  private static func text(_ word: some Sequence<UInt8>) -> String {
    String(decoding: Array(word), as: UTF8.self)
  }

  private static func pair(_ first: UInt64, _ second: UInt64) -> UInt64 { (first &* 31) ^ (second << 1) }

  private static func hash(_ word: [UInt8]) -> UInt64 {
    word.reduce(14_695_981_039_346_656_037) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
  }

  /// Each word: its hash, where it is, and whether it goes on with the phrase of the one before.
  private static func forEachWord(
    of text: ArraySlice<UInt8>, _ body: (_ hash: UInt64, _ range: Range<Int>, _ follows: Bool) -> Void
  ) {
    let start = text.startIndex
    text.withUnsafeBufferPointer { bytes in
      Words.folded.withUnsafeBufferPointer { folded in
        var index = 0
        var before: Int?
        while index < bytes.count {
          guard folded[Int(bytes[index])] != 0 else {
            index += 1
            continue
          }
          let first = index
          var hash: UInt64 = 14_695_981_039_346_656_037
          while index < bytes.count, folded[Int(bytes[index])] != 0 {
            if index - first < Words.indexedMax {
              hash = (hash ^ UInt64(folded[Int(bytes[index])])) &* 1_099_511_628_211
            }
            index += 1
          }
          body(hash, start + first..<start + index, before.map { first - $0 <= Words.gapMax } ?? false)
          before = index
        }
      }
    }
  }

  private static func forEachPair(
    of text: ArraySlice<UInt8>, _ body: (_ first: UInt64, _ second: UInt64, _ words: [Range<Int>]) -> Void
  ) {
    var last: (hash: UInt64, range: Range<Int>)?
    forEachWord(of: text) { hash, range, follows in
      if follows, let last { body(last.hash, hash, [last.range, range]) }
      last = (hash, range)
    }
  }
}
