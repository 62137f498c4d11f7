import OpportuneScheduler

/// A token bucket, a rate with a burst, in exact integers. Over any span of t nanoseconds at most `burst +
/// rate * t / 1e9` units are taken, and no fraction is lost however often it is updated.
///
/// The level is kept in billionths of a unit. It is never negative, nor above the burst. (R-DISK-02)
struct TokenBucket: Sendable, Equatable {
  static let scale: UInt64 = 1_000_000_000
  /// The accepted bursts, such that `burst * scale` fits into 64 bits.
  static let burstRange: ClosedRange<UInt64> = 1...8_000_000_000
  static let rateRange: ClosedRange<UInt64> = 1...1_000_000_000_000

  /// Units per second.
  let rate: UInt64
  /// Units.
  let burst: UInt64
  /// How much of the rate holds, 1 to 8 eighths. A change counts from the last ``advance(to:)`` on.
  var eighths = DeviceShare.whole
  private(set) var level: UInt64
  private var readAt: UInt64

  /// Makes a bucket that is full at `now`. Values out of range are clamped.
  init(rate: UInt64, burst: UInt64, now: UInt64) {
    self.rate = min(max(rate, Self.rateRange.lowerBound), Self.rateRange.upperBound)
    self.burst = min(max(burst, Self.burstRange.lowerBound), Self.burstRange.upperBound)
    level = self.burst * Self.scale
    readAt = now
  }

  /// Does not overflow, by ``rateRange``.
  private var rateNow: UInt64 { max(1, rate * UInt64(eighths) / UInt64(DeviceShare.whole)) }

  private var full: UInt64 { burst * Self.scale }

  /// Whole units that may be taken.
  var available: UInt64 { level / Self.scale }

  /// Adds the units that have accrued since the last call. A clock that went back adds nothing.
  mutating func advance(to now: UInt64) {
    guard now > readAt else { return }
    let elapsed = now - readAt
    readAt = now
    let missing = full - level
    // rateNow * elapsed may overflow; it is not needed once it would fill the bucket.
    level = elapsed >= nanoseconds(for: missing) ? full : level + rateNow * elapsed
  }

  /// Takes `units` and returns true; or takes nothing and returns false.
  mutating func take(_ units: UInt64) -> Bool {
    guard units <= available else { return false }
    level -= units * Self.scale
    return true
  }

  /// Takes up to `units`; returns how many were taken.
  mutating func takeUp(to units: UInt64) -> UInt64 {
    let taken = min(units, available)
    level -= taken * Self.scale
    return taken
  }

  /// Returns units that were taken and not used.
  mutating func giveBack(_ units: UInt64) {
    level = units >= (full - level) / Self.scale + 1 ? full : min(full, level + units * Self.scale)
  }

  /// Nanoseconds from the last ``advance(to:)`` until `units` (at most the burst) are available.
  func wait(for units: UInt64) -> UInt64 {
    let wanted = min(units, burst) * Self.scale
    return wanted <= level ? 0 : nanoseconds(for: wanted - level)
  }

  private func nanoseconds(for amount: UInt64) -> UInt64 {
    amount / rateNow + (amount % rateNow == 0 ? 0 : 1)
  }
}
