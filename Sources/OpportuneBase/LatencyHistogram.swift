/// A histogram of times. Each octave has the same number of buckets. From 1 µs on a quantile is at most an
/// eighth too long; for the queueing times of jobs, at most a quarter.
public struct LatencyHistogram: Sendable {
  // Log-linear: the first `1 << bits` buckets are `1 << unit` nanoseconds wide, and so are those of the first
  // octave after them. In each further octave they are twice as wide as in the one before. The last bucket
  // has all larger times.
  @usableFromInline let bits: Int
  @usableFromInline let unit: Int
  @usableFromInline var counts: [UInt64]

  @usableFromInline var total: UInt64 = 0

  /// The number of times counted.
  public var count: UInt64 { total }

  /// Makes an empty histogram, with eight buckets an octave, up to 36 minutes.
  package init() { (bits, unit, counts) = (3, 7, [UInt64](repeating: 0, count: 256)) }

  /// Makes a histogram of existing counts, in buckets of the same kind.
  package init(counts: [UInt64], bits: Int, unit: Int) {
    (self.bits, self.unit, self.counts) = (bits, unit, counts)
    total = counts.reduce(0, &+)
  }

  @inlinable
  package mutating func record(_ nanoseconds: UInt64) {
    total += 1
    counts[bucket(of: nanoseconds)] += 1
  }

  /// Adds the counts of a histogram of the same kind.
  package mutating func add(_ other: LatencyHistogram) {
    total += other.total
    for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
  }

  /// Subtracts earlier counts.
  package mutating func subtract(_ before: LatencyHistogram) {
    total -= min(total, before.total)
    for bucket in counts.indices { counts[bucket] -= min(counts[bucket], before.counts[bucket]) }
  }

  /// The middle of each non-empty bucket, in nanoseconds. With eight buckets an octave it differs by at most
  /// a sixteenth from the times counted there, from 1 µs on.
  package var middles: [(nanoseconds: UInt64, count: UInt64)] {
    counts.indices.filter { counts[$0] > 0 }.map { (end(of: $0) - width(of: $0) / 2, counts[$0]) }
  }

  /// The time that a share (0 to 1) of all times did not exceed, rounded up to the end of its bucket. nil
  /// where none was counted, or `share` is not a number.
  ///
  /// - Parameter share: 0.99 is the 99th percentile.
  public func quantile(_ share: Double) -> Duration? {
    guard count > 0, !share.isNaN else { return nil }
    let wanted = max(1, UInt64((Double(count) * min(max(share, 0), 1)).rounded(.up)))
    var seen: UInt64 = 0
    for bucket in counts.indices {
      seen += counts[bucket]
      if seen >= wanted { return .nanoseconds(Int64(clamping: end(of: bucket))) }
    }
    return nil
  }

  /// The leading bit selects the octave, the next `bits` bits the bucket in it.
  @inlinable
  func bucket(of nanoseconds: UInt64) -> Int {
    let value = nanoseconds &>> UInt64(unit)
    let shift = 63 - bits - (value | 1 &<< UInt64(bits)).leadingZeroBitCount
    return min(shift &<< bits + Int(value &>> UInt64(shift)), counts.count - 1)
  }

  private func width(of bucket: Int) -> UInt64 { 1 << (max(0, bucket >> bits - 1) + unit) }

  private func end(of bucket: Int) -> UInt64 {
    let octave = max(0, bucket >> bits - 1)
    return UInt64(bucket - octave << bits + 1) << (octave + unit)
  }
}

extension LatencyHistogram: CustomStringConvertible {
  /// The count and three quantiles, as "200 times: p50 12 µs, p99 229 µs, max 14336 µs".
  public var description: String {
    guard count > 0 else { return "0 times" }
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("max", 1)].map { name, share in
      "\(name) \((quantile(share)?.unsignedNanoseconds ?? 0) / 1000) µs"
    }
    return "\(count) \(count == 1 ? "time" : "times"): \(quantiles.joined(separator: ", "))"
  }
}
