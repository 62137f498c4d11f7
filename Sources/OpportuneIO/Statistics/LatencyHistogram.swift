/// Counts of times in buckets, eight an octave from 1 µs to 18 minutes: a quantile is at most an eighth too
/// long.
public struct LatencyHistogram: Sendable {
  private static let bucketCount = 8 * 31
  private var counts = [UInt64](repeating: 0, count: LatencyHistogram.bucketCount)
  /// How many times were counted.
  public private(set) var count: UInt64 = 0

  mutating func record(_ nanoseconds: UInt64) {
    count += 1
    counts[Self.bucket(of: nanoseconds)] += 1
  }

  mutating func add(_ other: LatencyHistogram) {
    count += other.count
    for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
  }

  /// Takes out what was there before.
  mutating func subtract(_ before: LatencyHistogram) {
    count -= min(count, before.count)
    for bucket in counts.indices { counts[bucket] -= min(counts[bucket], before.counts[bucket]) }
  }

  /// The middle of each bucket that is not empty, in nanoseconds: at most a sixteenth from what was counted
  /// there, of 1 µs and more.
  var middles: [(nanoseconds: UInt64, count: UInt64)] {
    counts.indices.filter { counts[$0] > 0 }.map {
      (Self.end(of: $0) - UInt64(1) << UInt64($0 / 8 + 6), counts[$0])
    }
  }

  /// The time that a share (0 to 1) of all did not exceed, to the upper end of its bucket; nil where none was
  /// counted, or `share` is no number.
  public func quantile(_ share: Double) -> Duration? {
    guard count > 0, !share.isNaN else { return nil }
    let wanted = max(1, UInt64((Double(count) * min(max(share, 0), 1)).rounded(.up)))
    var seen: UInt64 = 0
    for bucket in counts.indices {
      seen += counts[bucket]
      if seen >= wanted { return .nanoseconds(Int64(clamping: Self.end(of: bucket))) }
    }
    return nil
  }

  /// Below 1024 ns all is one bucket's; above, the three bits behind the leading one choose among eight.
  static func bucket(of nanoseconds: UInt64) -> Int {
    let value = max(nanoseconds, 1024)
    let octave = 63 - value.leadingZeroBitCount
    let eighth = Int(value >> UInt64(octave - 3)) & 7
    return min((octave - 10) * 8 + eighth, bucketCount - 1)
  }

  static func end(of bucket: Int) -> UInt64 {
    let octave = UInt64(bucket / 8 + 10)
    return (1 << octave) + UInt64(bucket % 8 + 1) << (octave - 3)
  }
}
