internal import OpportuneBase

/// How short memory is.
public enum PressureLevel: UInt8, Sendable, Hashable, CaseIterable, Comparable, Codable {
  /// There is enough.
  case normal
  /// Apps should release what they can make again.
  case warning
  /// The critical point is reached: memory is taken, and apps are removed. (R-MEM-01)
  case critical

  public static func < (left: PressureLevel, right: PressureLevel) -> Bool { left.rawValue < right.rawValue }
}

/// How much memory there is, and how much of it is in use.
public struct MemoryReading: Sendable, Hashable {
  /// In bytes.
  public var capacity: UInt64
  /// In bytes; what the kernel can take back without writing anything does not count. May exceed `capacity`.
  public var inUse: UInt64

  /// Both in bytes.
  public init(capacity: UInt64, inUse: UInt64) {
    self.capacity = capacity
    self.inUse = inUse
  }

  /// In bytes.
  public var free: UInt64 { capacity > inUse ? capacity - inUse : 0 }
}

/// From readings to levels: a pure value. (R-MEM-01, R-MEM-02)
///
/// A level is entered as soon as its point is reached, and left only once use is below the point by the
/// margin: what swings about a point raises one alarm, not many.
public struct PressureGauge: Sendable, Hashable {
  /// From here on apps are warned.
  public let warning: CriticalPoint
  /// From here on memory is taken.
  public let critical: CriticalPoint
  /// Share of the capacity, 0 up to less than `warning`.
  public let margin: Double
  /// The level as of the last reading.
  package private(set) var level = PressureLevel.normal

  /// - Throws: ``MemoryError`` with code `configuration` where `warning` is above `critical`, or `margin` out
  ///   of range.
  public init(
    warning: CriticalPoint = .half, critical: CriticalPoint = .threeQuarters, margin: Double = 0.05
  ) throws(MemoryError) {
    guard warning <= critical else {
      throw .range("the warning point", warning, "at most the critical \(critical)")
    }
    guard margin >= 0, margin < warning.share else {
      throw .range("the margin", margin, "0 or more, less than the warning point \(warning.share)")
    }
    self.warning = warning
    self.critical = critical
    self.margin = margin
  }

  private init(unchecked warning: CriticalPoint, _ critical: CriticalPoint, _ margin: Double) {
    self.warning = warning
    self.critical = critical
    self.margin = margin
  }

  /// Warning at 50 %, critical at 75 %, each left 5 % below.
  public static let standard = PressureGauge(unchecked: .half, .threeQuarters, 0.05)

  /// Takes a reading. Returns the new level where it has changed.
  @discardableResult
  package mutating func update(_ reading: MemoryReading) -> PressureLevel? {
    // Without any memory in use nothing is short, whatever the margin.
    let next: PressureLevel
    if reading.inUse == 0 {
      next = .normal
    } else if reading.inUse >= threshold(.critical, reading.capacity) {
      next = .critical
    } else {
      next = reading.inUse >= threshold(.warning, reading.capacity) ? .warning : .normal
    }
    guard next != level else { return nil }
    level = next
    return next
  }

  /// Whether a reading makes the level critical, or keeps it so.
  func isCritical(_ reading: MemoryReading) -> Bool {
    reading.inUse >= threshold(.critical, reading.capacity) && reading.inUse > 0
  }

  /// What must go so that the level is not critical, and does not soon become so: 0 where it is not.
  package func excess(_ reading: MemoryReading) -> UInt64 {
    guard isCritical(reading) else { return 0 }
    let bytes = critical.bytes(of: reading.capacity)
    return (reading.inUse - (bytes - min(slack(reading.capacity), bytes))).saturatingAdd(1)
  }

  /// The bytes in use from which on a level holds: less where it holds already.
  private func threshold(_ level: PressureLevel, _ capacity: UInt64) -> UInt64 {
    let bytes = (level == .critical ? critical : warning).bytes(of: capacity)
    return self.level >= level ? bytes - min(slack(capacity), bytes) : bytes
  }

  private func slack(_ capacity: UInt64) -> UInt64 {
    UInt64(exactly: (Double(capacity) * margin).rounded()) ?? 0
  }
}
