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

/// How much memory there is, and how much of it is in use, in bytes.
public struct MemoryReading: Sendable, Hashable {
  /// The amount of memory in bytes.
  public var capacity: UInt64
  /// Bytes in use, without those that the kernel can take without writing. May exceed `capacity`.
  public var inUse: UInt64

  /// Makes a reading; both values in bytes.
  public init(capacity: UInt64, inUse: UInt64) {
    self.capacity = capacity
    self.inUse = inUse
  }

  /// Bytes not in use.
  public var free: UInt64 { capacity > inUse ? capacity - inUse : 0 }
}

/// Derives levels from readings: a pure value. (R-MEM-01, R-MEM-02)
///
/// A level is entered as soon as its point is reached. It is left only when use is below the point by the
/// margin, so use that swings about a point raises one alarm, not many.
public struct PressureGauge: Sendable, Hashable {
  /// The point at which apps are warned.
  public let warning: CriticalPoint
  /// The point at which memory is taken.
  public let critical: CriticalPoint
  /// The hysteresis, as a share of the capacity: 0 up to less than `warning`.
  public let margin: Double
  /// The level after the last reading.
  public private(set) var level = PressureLevel.normal

  /// Makes a gauge.
  ///
  /// - Throws: ``MemoryError`` with code `configuration` where `warning` is above `critical`, or `margin` is
  ///   out of range.
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

  /// Warning at 50 %, critical at 75 %; each is left at 5 % less.
  public static let standard = PressureGauge(unchecked: .half, .threeQuarters, 0.05)

  /// Adds a reading. A broker does so for its own gauge; a test may, to see which readings change the level.
  ///
  /// - Returns: the new level if it has changed.
  @discardableResult
  public mutating func update(_ reading: MemoryReading) -> PressureLevel? {
    // With no memory in use the level is normal, whatever the margin.
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

  /// Whether a reading makes the level critical, or keeps it critical.
  func isCritical(_ reading: MemoryReading) -> Bool {
    reading.inUse >= threshold(.critical, reading.capacity) && reading.inUse > 0
  }

  /// The bytes to release so that the level leaves critical with the margin; 0 where it is not critical.
  package func excess(_ reading: MemoryReading) -> UInt64 {
    guard isCritical(reading) else { return 0 }
    let bytes = critical.bytes(of: reading.capacity)
    return (reading.inUse - (bytes - min(slack(reading.capacity), bytes))).saturatingAdd(1)
  }

  /// The bytes in use from which on a level holds; less if it holds already, by the margin.
  private func threshold(_ level: PressureLevel, _ capacity: UInt64) -> UInt64 {
    let bytes = (level == .critical ? critical : warning).bytes(of: capacity)
    return self.level >= level ? bytes - min(slack(capacity), bytes) : bytes
  }

  private func slack(_ capacity: UInt64) -> UInt64 {
    UInt64(exactly: (Double(capacity) * margin).rounded()) ?? 0
  }
}
