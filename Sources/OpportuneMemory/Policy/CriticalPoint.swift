/// A share of memory in use at which action is taken: above 0, at most 1. (R-MEM-02)
public struct CriticalPoint: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The share; above 0, at most 1.
  public let share: Double

  private init(unchecked share: Double) { self.share = share }

  /// - Throws: ``MemoryError`` with code `configuration` where `share` is not above 0 and at most 1.
  public init(share: Double) throws(MemoryError) {
    guard share > 0, share <= 1 else { throw .range("a critical point", share, "above 0, at most 1") }
    self.share = share
  }

  /// 50 %.
  public static let half = CriticalPoint(unchecked: 0.5)
  /// 75 %.
  public static let threeQuarters = CriticalPoint(unchecked: 0.75)
  /// 90 %.
  public static let nineTenths = CriticalPoint(unchecked: 0.9)

  /// The bytes in use at which the point is reached, of `capacity` bytes. (R-MEM-03)
  package func bytes(of capacity: UInt64) -> UInt64 {
    // A product just below 2^64 may round up to it.
    UInt64(exactly: (Double(capacity) * share).rounded()) ?? capacity
  }

  public static func < (left: CriticalPoint, right: CriticalPoint) -> Bool { left.share < right.share }
  public var description: String { "\(share * 100) %" }
}
