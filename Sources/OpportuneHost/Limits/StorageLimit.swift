/// How fast an app may read and write while it is in background. (R-DISK-02)
package struct StorageLimit: Sendable, Hashable {
  /// That it reads, and that it writes, from and to each block device; `nil`: as fast as it likes.
  package let rate: ByteRate?

  /// No limit.
  package static let none = StorageLimit(rate: nil)
  package static let expected = ByteRate.expected + "; or allow"

  private init(rate: ByteRate?) { self.rate = rate }

  /// Reads `allow`, or a rate.
  ///
  /// - Returns: `nil` where it is neither: ``expected``.
  package init?(_ text: String) {
    if text == "allow" {
      self = .none
      return
    }
    guard let rate = ByteRate(text) else { return nil }
    self.init(rate: rate)
  }
}

extension StorageLimit: CustomStringConvertible {
  /// As it is read.
  package var description: String { rate?.description ?? "allow" }
}
