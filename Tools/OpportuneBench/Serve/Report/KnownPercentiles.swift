/// Percentiles as far as there are enough requests for them: of fewer a percentile is one request or two, and
/// reads as if it were more. The longest of them is told where there is any. Times in microseconds.
struct KnownPercentiles: Encodable, Equatable, Sendable {
  /// So many requests have percentiles.
  static let requestsMin = 50

  let p50: Double?
  let p90: Double?
  let p99: Double?
  let p999: Double?
  let max: Double?

  init(_ histogram: TimeHistogram) {
    let all = histogram.percentiles
    let isEnough = histogram.count >= UInt64(Self.requestsMin)
    p50 = isEnough ? all.p50 : nil
    p90 = isEnough ? all.p90 : nil
    p99 = isEnough ? all.p99 : nil
    p999 = isEnough ? all.p999 : nil
    max = histogram.count > 0 ? all.max : nil
  }

  /// From the median to the longest, with a dash for what is not known.
  var cells: [String] { [p50, p90, p99, p999, max].map { $0.map(microseconds) ?? "–" } }

  private enum CodingKeys: CodingKey {
    case p50, p90, p99, p999, max
  }

  /// What is not known is null, and not left out.
  func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encode(p50.map(rounded), forKey: .p50)
    try values.encode(p90.map(rounded), forKey: .p90)
    try values.encode(p99.map(rounded), forKey: .p99)
    try values.encode(p999.map(rounded), forKey: .p999)
    try values.encode(max.map(rounded), forKey: .max)
  }
}
