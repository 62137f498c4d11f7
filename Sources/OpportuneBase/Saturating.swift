extension UInt64 {
  /// The sum, clamped to the maximum.
  @inlinable package func saturatingAdd(_ other: UInt64) -> UInt64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }

  /// The difference, or 0 where `other` is larger.
  @inlinable package func saturatingSubtract(_ other: UInt64) -> UInt64 { self > other ? self - other : 0 }
}

extension Int64 {
  /// The sum, clamped to the range of `Int64`.
  @inlinable package func saturatingAdd(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other < 0 ? .min : .max) : sum
  }
}
