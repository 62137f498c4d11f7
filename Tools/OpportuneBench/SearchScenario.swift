import OpportuneBase
import Synchronization

/// Answer while indexing: what a language server or a mail program does.
///
/// The background indexes a file tree in chunks; simulated typists ask at every keystroke, from what is
/// indexed so far. Answers are checked against a plain scan.
final class SearchWorkload: Sendable {
  /// Typists at 80 to 200 ms a keystroke: about 230 queries a second.
  static let typists = 32
  static let keystroke = (mean: 140_000.0, jitter: 60_000.0)
  /// Chains of indexing jobs.
  static let chains = 10

  let corpus: Corpus
  /// What each typist types, keystroke by keystroke, over and over.
  let keystrokes: [[Query]]

  init(corpus: Corpus, seed: UInt64 = 7) throws(BenchError) {
    self.corpus = corpus
    var random = SplitMix64(seed: seed)
    var phrases: [[[UInt8]]] = []
    var samples: [Segment] = []
    for _ in 0..<min(8, corpus.chunks.count) {
      let chunk = Int.random(in: 0..<corpus.chunks.count, using: &random)
      if let segment = Self.build(corpus, chunk: chunk, while: { true }, progress: { _, _ in }) {
        samples.append(segment)
      }
    }
    for _ in 0..<20_000 where phrases.count < 400 {
      guard let segment = samples.randomElement(using: &random), segment.positions > 0 else { continue }
      let position = Int.random(in: 0..<segment.positions, using: &random)
      let words = segment.words(from: position, count: Int.random(in: 1...3, using: &random))
      let isTypable = !words.isEmpty && words.allSatisfy { (2...16).contains($0.count) }
      if isTypable, words.contains(where: { $0.count >= 4 && $0.allSatisfy { $0 < 128 } }) {
        phrases.append(words)
      }
    }
    guard !phrases.isEmpty else {
      throw .invalid("--tree", corpus.roots.joined(separator: "', '"), expected: "files with words in them")
    }
    var keystrokes: [[Query]] = []
    for _ in 0..<Self.typists {
      var typed: [Query] = []
      while typed.count < 300 {
        if let phrase = phrases.randomElement(using: &random) { typed += Self.typing(phrase) }
      }
      keystrokes.append(typed)
    }
    self.keystrokes = keystrokes
  }

  /// The queries of one phrase: from its second character on, one per keystroke, the last one whole words.
  static func typing(_ words: [[UInt8]]) -> [Query] {
    var queries: [Query] = []
    for (index, word) in words.enumerated() {
      let before = Array(words[..<index])
      for length in (index == 0 ? min(2, word.count) : 1)...word.count {
        if let query = Query(words: before, prefix: Array(word[..<length])) { queries.append(query) }
      }
    }
    if let whole = Query(words: words, prefix: nil) { queries.append(whole) }
    return queries
  }

  /// Reads and tokenises a chunk. Nil where `goesOn` turned false on the way.
  ///
  /// - Parameter progress: bytes tokenised and CPU time in nanoseconds, since the last call.
  static func build(
    _ corpus: Corpus, chunk: Int, while goesOn: () -> Bool, progress: (Int, Nanoseconds) -> Void
  ) -> Segment? {
    var builder = SegmentBuilder(expectedBytes: Corpus.chunkBytes)
    var before = SystemClock.threadCPU()
    for piece in corpus.chunks[chunk] {
      guard goesOn() else { return nil }
      if let read = corpus.read(piece) {
        builder.add(file: piece.file, text: read.text, own: read.own, endsFile: read.endsFile)
      }
      let now = SystemClock.threadCPU()
      progress(piece.count, elapsed(from: before, to: now))
      before = now
    }
    let segment = builder.finish()
    progress(0, elapsed(from: before, to: SystemClock.threadCPU()))
    return segment
  }
}

/// One window of the search: an index, the jobs that fill it, the queries that read it.
final class SearchSession: Sendable {
  let workload: SearchWorkload
  let index: SearchIndex
  private let next = Atomic<Int>(0)
  private let noted = NotedAnswers()

  init(workload: SearchWorkload, begun: Nanoseconds) {
    self.workload = workload
    index = SearchIndex(chunks: workload.corpus.chunks.count, begun: begun)
  }

  var answersToCheck: [(query: Query, answer: Answer)] { noted.all }

  /// Starts the chains that index chunk after chunk. Once the tree is done they go over it again and drop
  /// what they make, so that the load stays.
  func startIndexing(_ state: WindowState, submit: @escaping @Sendable (@escaping Job) -> Bool) {
    for _ in 0..<SearchWorkload.chains { startLink(state, submit: submit) }
  }

  private func startLink(_ state: WindowState, submit: @escaping @Sendable (@escaping Job) -> Bool) {
    state.submit(
      { [self] in
        let count = workload.corpus.chunks.count
        let chunk = next.add(1, ordering: .relaxed).oldValue % count
        let segment = SearchWorkload.build(
          workload.corpus, chunk: chunk, while: { !state.isStopping.load(ordering: .relaxed) },
          progress: { bytes, cpu in
            state.work.add(UInt64(bytes), ordering: .relaxed)
            state.backgroundCPU.add(cpu, ordering: .relaxed)
          })
        if let segment { index.publish(segment, at: chunk) }
        if !state.isStopping.load(ordering: .relaxed) { startLink(state, submit: submit) }
      }, with: submit)
  }

  /// Answers one keystroke of a typist.
  ///
  /// - Parameter publishedBy: only what was published that long after the index was begun, in nanoseconds;
  ///   for asking again on an idle machine what was asked while indexing.
  func ask(typist: Int, keystroke: Int, publishedBy time: Nanoseconds = .max, state: WindowState) {
    let typed = workload.keystrokes[typist]
    let query = typed[keystroke % typed.count]
    let isNoted = (typist + keystroke) % 16 == 0 && time == .max
    let answer = index.answer(query, publishedBy: time, notesChunks: isNoted)
    state.sink.store(UInt64(answer.matches), ordering: .relaxed)
    if isNoted { noted.add(query, answer) }
  }
}

/// Some of the answers that were given, for the referee. Only foreground jobs take its lock.
private final class NotedAnswers: @unchecked Sendable {
  private let lock = Lock()
  private var answers: [(query: Query, answer: Answer)] = []  // protected by `lock`

  func add(_ query: Query, _ answer: Answer) { lock.withLock { answers.append((query, answer)) } }

  var all: [(query: Query, answer: Answer)] { lock.withLock { answers } }
}
