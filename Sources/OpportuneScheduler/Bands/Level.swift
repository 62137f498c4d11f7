/// A priority from 0 to 63; a higher level runs first.
///
/// A plain value, safe to use from any thread. (R-CPU-01)
public struct Level: RawRepresentable, Comparable, Hashable, Sendable, Codable {
  /// 0 (runs last) to 63 (runs first).
  public let rawValue: UInt8

  /// The lowest level, 0.
  public static let lowest = Level(known: 0)

  /// The highest level, 63.
  public static let highest = Level(known: UInt8(count - 1))

  /// The number of levels: 64, one bit each in the run queue's masks.
  public static let count = 64

  /// Makes a level, or nil where `rawValue` is above 63.
  public init?(rawValue: UInt8) {
    guard rawValue < Level.count else { return nil }
    self.rawValue = rawValue
  }

  /// - Precondition: the caller has brought `rawValue` into range.
  init(known rawValue: UInt8) {
    assert(rawValue < Level.count)
    self.rawValue = rawValue
  }

  /// Whether `rhs` runs before `lhs`.
  public static func < (lhs: Level, rhs: Level) -> Bool { lhs.rawValue < rhs.rawValue }

  /// The level `steps` below this one, but never below `floor`. Negative steps count as 0.
  func lowered(by steps: Int, floor: Level) -> Level {
    let room = max(0, Int(rawValue) - Int(floor.rawValue))
    return Level(known: rawValue - UInt8(min(max(0, steps), room)))
  }
}

extension Level: ExpressibleByIntegerLiteral {
  /// Makes a level from a literal, so that ranges can be written as `20...50`. A literal above 63 is a
  /// programming error and traps. For values from outside use ``init(rawValue:)``, which returns nil.
  public init(integerLiteral value: UInt8) {
    precondition(value < Level.count, "a level is 0 to 63, not \(value)")
    rawValue = value
  }
}

extension Level: CustomStringConvertible {
  /// The raw value, 0 to 63.
  public var description: String { String(rawValue) }
}
