@testable import OpportuneBench

/// Finds a query in bytes one by one, without any index: the referee of the engine.
enum PlainScan {
  /// How often `query` occurs in `bytes`.
  static func occurrences(of query: Query, in bytes: [UInt8]) -> Int {
    bytes.indices.count { start in
      isWord(bytes[start]) && (start == 0 || !isWord(bytes[start - 1])) && matches(query, bytes, at: start)
    }
  }

  private static func isWord(_ byte: UInt8) -> Bool { Words.folded[Int(byte)] != 0 }

  private static func matches(_ query: Query, _ bytes: [UInt8], at start: Int) -> Bool {
    var position = start
    for (index, word) in query.words.enumerated() {
      if index > 0 {
        let end = position
        while position < bytes.count && !isWord(bytes[position]) { position += 1 }
        guard position < bytes.count, position - end <= Words.gapMax else { return false }
      }
      guard position + word.count <= bytes.count else { return false }
      for offset in word.indices where Words.folded[Int(bytes[position + offset])] != word[offset] {
        return false
      }
      position += word.count
      guard position == bytes.count || !isWord(bytes[position]) else { return false }
    }
    return true
  }
}
