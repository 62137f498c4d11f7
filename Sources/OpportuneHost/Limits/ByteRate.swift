internal import OpportuneBase

/// How fast background may move bytes, in bytes a second.
package struct ByteRate: Sendable, Hashable {
  package let bytesPerSecond: UInt64

  /// Less would hold a single request, or 64 KiB that a socket sends at once, for seconds.
  private static let possible: ClosedRange<UInt64> = 64 << 10...1 << 40
  static let least = ByteRate(possible.lowerBound)
  package static let expected = "bytes a second, as 500K, 20M or 1G, 64K to 1024G"

  private init(_ bytesPerSecond: UInt64) { self.bytesPerSecond = bytesPerSecond }

  /// Reads a rate as `20M`; K, M and G are powers of 1024.
  ///
  /// - Returns: `nil` where it is none: ``expected``.
  package init?(_ text: String) {
    guard let rate = byteCount(of: text), Self.possible.contains(rate) else { return nil }
    bytesPerSecond = rate
  }
}

extension ByteRate: CustomStringConvertible {
  /// As it is read.
  package var description: String {
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] where bytesPerSecond % (1 << shift) == 0 {
      return "\(bytesPerSecond >> shift)\(unit)"
    }
    return "\(bytesPerSecond)"
  }
}
