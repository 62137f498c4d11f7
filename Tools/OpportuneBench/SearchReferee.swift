import OpportuneBase

/// Checks answers of the index against a plain scan of the files.
struct SearchReferee: Sendable {
  let corpus: Corpus

  /// Answers that were given while the index was growing: the total over the chunks that were indexed then.
  ///
  /// Scans the ones with the fewest chunks, until `bytesMax` bytes have been scanned. Returns how many.
  func check(
    _ answers: [(query: Query, answer: Answer)], bytesMax: Int
  ) throws(BenchError) -> Int {
    var scanned = 0
    var checked = 0
    let candidates = answers.filter { !$0.answer.chunks.isEmpty }
      .sorted { $0.answer.chunks.count < $1.answer.chunks.count }
    for (query, answer) in candidates {
      scanned += answer.chunks.count * Corpus.chunkBytes
      if checked > 0 && scanned > bytesMax { break }
      var expected = 0
      for chunk in answer.chunks {
        for piece in corpus.chunks[chunk] { expected += occurrences(of: query, in: piece) }
      }
      guard expected == answer.matches else {
        throw BenchError(
          .wrongAnswer,
          "query \(query) over \(answer.chunks.count) chunks: the index says \(answer.matches), a scan \(expected)"
        )
      }
      checked += 1
    }
    return checked
  }

  /// What the index knows of whole files: `queries` against a sample of files that are indexed completely.
  func check(_ index: SearchIndex, queries: [Query], files count: Int, seed: UInt64) throws(BenchError) -> Int
  {
    var missing: Set<Int> = []
    for chunk in corpus.chunks.indices where !index.has(chunk) {
      for piece in corpus.chunks[chunk] { missing.insert(piece.file) }
    }
    var random = SplitMix64(seed: seed)
    let sample = corpus.files.indices.filter { !missing.contains($0) && corpus.files[$0].bytes <= 1 << 20 }
      .shuffled(using: &random).prefix(count)
    var checked = 0
    for query in queries {
      let tally = index.tally(query)
      for file in sample {
        let piece = Corpus.Piece(file: file, offset: 0, count: corpus.files[file].bytes)
        let expected = occurrences(of: query, in: piece)
        guard expected == tally[file, default: 0] else {
          throw BenchError(
            .wrongAnswer,
            "query \(query) in \(corpus.files[file].path): the index says \(tally[file, default: 0]), "
              + "a scan \(expected)")
        }
        checked += 1
      }
    }
    return checked
  }

  private func occurrences(of query: Query, in piece: Corpus.Piece) -> Int {
    guard let read = corpus.read(piece) else { return 0 }
    return PlainScan.occurrences(of: query, in: read.text, startingIn: read.own)
  }
}
