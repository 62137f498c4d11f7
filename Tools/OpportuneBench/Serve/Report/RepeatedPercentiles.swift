/// Percentiles of each repeat: how far they lie apart says what a difference of contenders is worth. Times in
/// microseconds; nil where a repeat has too few requests for one.
struct RepeatedPercentiles: Encodable, Equatable, Sendable {
  let p50: [Double?]
  let p90: [Double?]
  let p99: [Double?]
  let p999: [Double?]
  let max: [Double?]

  init(_ repeats: [TimeHistogram]) {
    let known = repeats.map { KnownPercentiles($0) }
    func of(_ figure: KeyPath<KnownPercentiles, Double?>) -> [Double?] {
      known.map { $0[keyPath: figure].map(rounded) }
    }
    (p50, p90, p99, p999, max) = (of(\.p50), of(\.p90), of(\.p99), of(\.p999), of(\.max))
  }

  /// Median, least and most of each figure, with a dash where fewer than two repeats have it.
  var cells: [String] { [p50, p90, p99, p999, max].map { Self.cell($0.compactMap { $0 }) } }

  private static func cell(_ values: [Double]) -> String {
    guard values.count >= 2, let least = values.min(), let most = values.max() else { return "–" }
    return "\(microseconds(median(values))) (\(microseconds(least))–\(microseconds(most)))"
  }
}
