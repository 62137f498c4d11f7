import Glibc

/// An immutable index, with positions, of one chunk of the tree.
///
/// Position n is the n-th word of the chunk. `forward` tells the term at each position, or `Segment.gap`
/// where no phrase may run across; `postings` tells the positions of each term, terms sorted by their bytes.
final class Segment: Sendable {
  /// No term: between files, and where more than `Words.gapMax` other bytes lie between two words.
  static let gap = UInt32.max

  /// The words of one piece. Those from `ownEnd` on begin in the next piece of the file and are here only so
  /// that a phrase may run across.
  struct Span: Sendable {
    let file: Int
    let first: Int
    let ownEnd: Int
    let end: Int
  }

  let bytes: Int
  private let text: [UInt8]
  private let textStart: [UInt32]
  private let postingsStart: [UInt32]
  private let postings: [UInt32]
  private let forward: [UInt32]
  private let spans: [Span]
  private let hasTails: Bool

  init(
    bytes: Int, text: [UInt8], textStart: [UInt32], postingsStart: [UInt32], postings: [UInt32],
    forward: [UInt32], spans: [Span]
  ) {
    self.bytes = bytes
    self.text = text
    self.textStart = textStart
    self.postingsStart = postingsStart
    self.postings = postings
    self.forward = forward
    self.spans = spans
    hasTails = spans.contains { $0.ownEnd != $0.end }
  }

  var termCount: Int { textStart.count - 1 }

  /// Where the term of a rank occurs, in order.
  func positions(of rank: Int) -> ArraySlice<UInt32> { postings[postings(of: rank..<rank + 1)] }

  /// The bytes of the term of a rank.
  func withTerm<Value>(_ rank: Int, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
    text[Int(textStart[rank])..<Int(textStart[rank + 1])].withUnsafeBytes(body)
  }

  /// Each file and the position of its first word.
  var documents: [(file: Int, first: Int)] { spans.map { ($0.file, $0.first) } }

  /// How often the query occurs; appends the first files in which it does until there are `filesMax`.
  func count(_ query: Query, files: inout [Int], filesMax: Int) -> Int {
    if query.words.isEmpty, let prefix = query.prefix, !hasTails {
      let range = postings(of: ranks(prefix: prefix))
      var index = range.lowerBound
      while index < range.upperBound && files.count < filesMax {
        note(Int(postings[index]), in: &files)
        index += 1
      }
      return range.count
    }
    var total = 0
    forEachMatch(query) { position in
      total += 1
      if files.count < filesMax { note(position, in: &files) }
    }
    return total
  }

  /// Adds the query's occurrences to those of each file.
  func tally(_ query: Query, into counts: inout [Int: Int]) {
    forEachMatch(query) { position in
      if let span = span(of: position) { counts[span.file, default: 0] += 1 }
    }
  }

  /// Words in a row from a position on, at most `count`, up to a gap.
  func words(from position: Int, count: Int) -> [[UInt8]] {
    var found: [[UInt8]] = []
    var index = position
    while found.count < count, index < forward.count, forward[index] != Self.gap {
      let rank = Int(forward[index])
      found.append(Array(text[Int(textStart[rank])..<Int(textStart[rank + 1])]))
      index += 1
    }
    return found
  }

  var positions: Int { forward.count }

  private func note(_ position: Int, in files: inout [Int]) {
    if let file = span(of: position)?.file, !files.contains(file) { files.append(file) }
  }

  /// Calls `body` with the position of each occurrence's first word.
  private func forEachMatch(_ query: Query, _ body: (Int) -> Void) {
    var exact: [UInt32] = []
    for word in query.words {
      let range = ranks(of: word)
      guard let rank = range.first else { return }
      exact.append(UInt32(rank))
    }
    let last = query.prefix.map { ranks(prefix: $0) }
    if let last, last.isEmpty { return }
    // The rarest whole word leads; forward[] answers for its neighbours.
    let lead = exact.indices.min { frequency(exact[$0]) < frequency(exact[$1]) }
    let candidates = postings(of: lead.map { Int(exact[$0])..<Int(exact[$0]) + 1 } ?? last ?? 0..<0)
    for index in candidates {
      let start = Int(postings[index]) - (lead ?? 0)
      guard start >= 0, start + query.length <= forward.count else { continue }
      var holds = true
      for offset in exact.indices where forward[start + offset] != exact[offset] {
        holds = false
        break
      }
      if holds, let last {
        let rank = forward[start + exact.count]
        holds = rank != Self.gap && last.contains(Int(rank))
      }
      if holds, !hasTails || isOwn(start) { body(start) }
    }
  }

  private func frequency(_ rank: UInt32) -> UInt32 { postingsStart[Int(rank) + 1] - postingsStart[Int(rank)] }

  private func postings(of ranks: Range<Int>) -> Range<Int> {
    Int(postingsStart[ranks.lowerBound])..<Int(postingsStart[ranks.upperBound])
  }

  private func isOwn(_ position: Int) -> Bool { span(of: position).map { position < $0.ownEnd } ?? false }

  private func span(of position: Int) -> Span? {
    var low = 0
    var high = spans.count
    while low < high {
      let middle = (low + high) / 2
      if spans[middle].end <= position { low = middle + 1 } else { high = middle }
    }
    return low < spans.count && spans[low].first <= position ? spans[low] : nil
  }

  private func ranks(of word: [UInt8]) -> Range<Int> {
    let low = lowerBound(word, countingPrefixesAsLess: false)
    guard low < termCount, compare(low, word) == 0, length(low) == word.count else { return 0..<0 }
    return low..<low + 1
  }

  private func ranks(prefix: [UInt8]) -> Range<Int> {
    let low = lowerBound(prefix, countingPrefixesAsLess: false)
    return low..<max(low, lowerBound(prefix, countingPrefixesAsLess: true))
  }

  private func lowerBound(_ word: [UInt8], countingPrefixesAsLess: Bool) -> Int {
    var low = 0
    var high = termCount
    while low < high {
      let middle = (low + high) / 2
      let order = compare(middle, word)
      if order < 0 || (order == 0 && countingPrefixesAsLess) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func length(_ rank: Int) -> Int { Int(textStart[rank + 1] - textStart[rank]) }

  /// Compares a term's beginning with `word`: 0 where the term begins with it.
  private func compare(_ rank: Int, _ word: [UInt8]) -> Int {
    let start = Int(textStart[rank])
    let common = min(length(rank), word.count)
    let order = text.withUnsafeBufferPointer { text in
      word.withUnsafeBufferPointer { word in
        guard let left = text.baseAddress, let right = word.baseAddress, common > 0 else { return Int32(0) }
        return memcmp(left + start, right, common)
      }
    }
    if order != 0 { return Int(order) }
    return common < word.count ? -1 : 0
  }
}
