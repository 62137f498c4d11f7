/// What is asked for most, which queries and background come to.
protocol Popularity: Sendable {
  func note(_ term: [UInt8]) async

  /// Halves all, so that what is asked for no more goes; the most popular ones.
  func age(_ count: Int) async -> [[UInt8]]
}

/// As an actor, which runs where its sender does.
actor PlainPopularity: Popularity {
  private var terms = PopularTerms()

  func note(_ term: [UInt8]) { terms.note(term) }
  func age(_ count: Int) -> [[UInt8]] { terms.age(count) }
}

/// How often each term was asked for.
struct PopularTerms: Sendable {
  private static let kept = 512
  private var counts: [[UInt8]: Int] = [:]

  mutating func note(_ term: [UInt8]) { counts[term, default: 0] += 1 }

  mutating func age(_ count: Int) -> [[UInt8]] {
    let ranked = counts.sorted { $0.value > $1.value }
    counts = Dictionary(uniqueKeysWithValues: ranked.prefix(Self.kept).map { ($0.key, ($0.value + 1) / 2) })
    return ranked.prefix(count).map(\.key)
  }
}
