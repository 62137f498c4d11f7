/// What a client may ask, and what the answer must be.
struct ServeQuestion: Sendable, Equatable {
  let kind: ServeRequest.Kind
  let text: String
  var matches: UInt64 = 0
  var documents: UInt32 = 0
  /// Of a fresh question: the matches in each chunk.
  var matchesOfChunk: [UInt64] = []

  /// Why an answer is wrong; nil where it is right.
  func fault(of answer: ServeResponse) -> String? {
    guard answer.status == .answered else { return "it was refused" }
    switch kind {
    case .short, .phrase:
      guard (answer.matches, answer.documents) == (matches, documents) else {
        return
          "\(answer.matches) matches in \(answer.documents) documents: a plain count says \(matches) in \(documents)"
      }
    case .heavy:
      guard answer.matches == matches else {
        return "\(answer.matches) lines: a plain scan says \(matches)"
      }
    case .fresh:
      guard Int(answer.chunk) < matchesOfChunk.count, answer.matches == matchesOfChunk[Int(answer.chunk)]
      else { return "\(answer.matches) matches in chunk \(answer.chunk): a plain count says otherwise" }
    case .statistics: break
    }
    return nil
  }
}

/// The questions of a run.
struct ServeQuestions: Sendable {
  var short: [ServeQuestion] = []
  var phrase: [ServeQuestion] = []
  var heavy: [ServeQuestion] = []
  var fresh: [ServeQuestion] = []

  /// Dates, and phrases of messages and of prose: 0.4 to 0.9 s of CPU each over the ordinary tree.
  static let patterns = [
    "[A-Z][a-z]+ [0-9]+, [0-9]{4}", "(error|warning|failed).*(file|memory|value)",
    "[a-z]*(ing|ed) the [a-z]+(s|es)[.,;]",
  ]
}
