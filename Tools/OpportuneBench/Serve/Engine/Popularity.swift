/// What is asked for most, as an actor, which queries and background come to.
actor Popularity {
  private static let kept = 512
  private var counts: [[UInt8]: Int] = [:]

  func note(_ term: [UInt8]) { counts[term, default: 0] += 1 }

  /// Halves all, so that what is asked for no more goes; the most popular ones.
  func age(_ count: Int) -> [[UInt8]] {
    let ranked = counts.sorted { $0.value > $1.value }
    counts = Dictionary(uniqueKeysWithValues: ranked.prefix(Self.kept).map { ($0.key, ($0.value + 1) / 2) })
    return ranked.prefix(count).map(\.key)
  }
}
