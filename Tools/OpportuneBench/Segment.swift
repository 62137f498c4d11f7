/// An immutable index, with positions, of some documents.
///
/// A position is a word, or a gap that no phrase runs across: between documents, and where more than
/// `Words.gapMax` other bytes lie between two words. Terms are sorted by their bytes.
struct Segment: Sendable {
  /// Each document, and the position of its first word.
  let documents: [(id: Int, first: Int)]
  /// How many there are, gaps among them.
  let positions: Int
  private let text: [UInt8]
  private let textStart: [UInt32]
  private let postingsStart: [UInt32]
  private let postings: [UInt32]

  init(
    documents: [(id: Int, first: Int)], positions: Int, text: [UInt8], textStart: [UInt32],
    postingsStart: [UInt32], postings: [UInt32]
  ) {
    self.documents = documents
    self.positions = positions
    self.text = text
    self.textStart = textStart
    self.postingsStart = postingsStart
    self.postings = postings
  }

  var termCount: Int { textStart.count - 1 }

  /// Where the term of a rank occurs, in order.
  func positions(of rank: Int) -> ArraySlice<UInt32> {
    postings[Int(postingsStart[rank])..<Int(postingsStart[rank + 1])]
  }

  /// The bytes of the term of a rank.
  func withTerm<Value>(_ rank: Int, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
    text[Int(textStart[rank])..<Int(textStart[rank + 1])].withUnsafeBytes(body)
  }
}
