internal import OpportuneBase

/// How fast an app may read and write while it is in background. (R-DISK-02)
package struct StorageLimit: Sendable, Hashable {
  /// Bytes a second that it reads, and as many that it writes, from and to each block device; `nil`: as fast
  /// as it likes.
  package let rate: UInt64?

  /// No limit.
  package static let none = StorageLimit()

  /// In bytes a second. Less would hold a single request for seconds.
  private static let possible: ClosedRange<UInt64> = 64 << 10...1 << 40
  package static let expected = "bytes a second, as 500K, 20M or 1G, 64K to 1024G; or allow"

  private init() { rate = nil }

  /// Reads `allow`, or a rate as `20M`; K, M and G are powers of 1024.
  ///
  /// - Returns: `nil` where it is neither: ``expected``.
  package init?(_ text: String) {
    if text == "allow" {
      self = .none
      return
    }
    guard let rate = byteCount(of: text), Self.possible.contains(rate) else { return nil }
    self.rate = rate
  }
}

extension StorageLimit: CustomStringConvertible {
  /// As it is read.
  package var description: String {
    guard let rate else { return "allow" }
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] where rate % (1 << shift) == 0 {
      return "\(rate >> shift)\(unit)"
    }
    return "\(rate)"
  }
}
