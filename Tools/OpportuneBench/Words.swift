/// What a word is, for the index and for who checks it: a run of ASCII letters and digits, underscores and
/// bytes above 127, compared without regard to ASCII case.
enum Words {
  /// Longest run of other bytes between two words of one phrase.
  static let gapMax = 64
  /// Longest word of a query; the index keeps the first `indexedMax` bytes of a word.
  static let queryMax = 24
  static let indexedMax = 64
  /// Most words of a query.
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

/// A phrase query: whole words in a row.
struct Query: Sendable, Equatable {
  let words: [[UInt8]]

  /// Nil where there is no word, a word longer than 24 bytes, or more than four.
  init?(_ text: String) {
    words = text.utf8.map { Words.folded[Int($0)] }.split(separator: 0).map(Array.init)
    guard (1...Words.phraseMax).contains(words.count), words.allSatisfy({ $0.count <= Words.queryMax }) else {
      return nil
    }
  }
}
