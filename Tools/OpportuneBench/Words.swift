/// What a word is, for the index and for the plain scan alike: a run of ASCII letters and digits, underscores
/// and bytes above 127, compared without regard to ASCII case.
enum Words {
  /// Longest run of other bytes between two words of one phrase.
  static let gapMax = 64
  /// Longest word of a query; the index keeps the first `indexedMax` bytes of a word.
  static let queryMax = 24
  static let indexedMax = 64
  /// Most words of a query, the last prefix included.
  static let phraseMax = 4

  /// The lower-case form of a word byte, 0 for any other byte.
  static let folded: [UInt8] = (0..<256).map { byte in
    switch UInt8(byte) {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt8(byte + 32)
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"),
      128...255:
      UInt8(byte)
    default: 0
    }
  }
}

/// A phrase query: whole words in a row, then perhaps the beginning of a word.
struct Query: Sendable, Equatable, CustomStringConvertible {
  let words: [[UInt8]]
  let prefix: [UInt8]?

  /// A query as typed: a trailing space ends the last word, else it is a prefix. Nil where there is no word,
  /// a word longer than 24 bytes, or more than four.
  init?(_ text: String) {
    var words: [[UInt8]] = []
    var current: [UInt8] = []
    for byte in text.utf8 {
      let folded = Words.folded[Int(byte)]
      if folded != 0 {
        current.append(folded)
      } else if !current.isEmpty {
        words.append(current)
        current = []
      }
    }
    self.init(words: words, prefix: current.isEmpty ? nil : current)
  }

  init?(words: [[UInt8]], prefix: [UInt8]?) {
    let all = words + (prefix.map { [$0] } ?? [])
    guard !all.isEmpty, all.count <= Words.phraseMax,
      all.allSatisfy({ !$0.isEmpty && $0.count <= Words.queryMax })
    else { return nil }
    self.words = words
    self.prefix = prefix
  }

  var length: Int { words.count + (prefix == nil ? 0 : 1) }

  var description: String {
    let text = words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
    guard let prefix else { return "\"\(text)\"" }
    return "\"\(text.isEmpty ? "" : text + " ")\(String(decoding: prefix, as: UTF8.self))…\""
  }
}

/// Finds a query in bytes one by one, without any index: the referee.
enum PlainScan {
  /// How often `query` begins at a word that begins in `range` of `bytes`.
  static func occurrences(of query: Query, in bytes: [UInt8], startingIn range: Range<Int>) -> Int {
    var count = 0
    for start in range where isWord(bytes[start]) && (start == 0 || !isWord(bytes[start - 1])) {
      if matches(query, bytes, at: start) { count += 1 }
    }
    return count
  }

  private static func isWord(_ byte: UInt8) -> Bool { Words.folded[Int(byte)] != 0 }

  private static func matches(_ query: Query, _ bytes: [UInt8], at start: Int) -> Bool {
    var position = start
    for (index, word) in query.words.enumerated() {
      guard let end = end(of: word, bytes, at: position), end == bytes.count || !isWord(bytes[end]) else {
        return false
      }
      if index == query.words.count - 1 && query.prefix == nil { return true }
      position = end
      while position < bytes.count && !isWord(bytes[position]) { position += 1 }
      guard position < bytes.count, position - end <= Words.gapMax else { return false }
    }
    guard let prefix = query.prefix else { return true }
    return end(of: prefix, bytes, at: position) != nil
  }

  private static func end(of word: [UInt8], _ bytes: [UInt8], at start: Int) -> Int? {
    guard start + word.count <= bytes.count else { return nil }
    for offset in word.indices where Words.folded[Int(bytes[start + offset])] != word[offset] { return nil }
    return start + word.count
  }
}
