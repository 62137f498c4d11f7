/// A limit of background requests in flight that keeps foreground latency at a target. It is raised by one
/// after many good answers and halved, to no less than one, at the first late answer without credit.
///
/// One answer in a hundred may be late: each good one earns a hundredth of a late one, up to three in all. A
/// late answer to a request that was sent before the last cut does not cut again, so one congestion cuts
/// once.
struct AdaptiveCap: Sendable, Equatable {
  /// Good answers for each increase.
  static let raiseAfter = 64
  static let priceOfMiss = 100
  static let creditLimit = 300
  /// Without foreground requests the cap rises by one in this time, in nanoseconds.
  static let quietRaise: UInt64 = 5_000_000

  let target: UInt64
  let maximum: Int
  private(set) var value: Int
  private var credit = 0
  private var streak = 0
  private var cutAt: UInt64 = 0
  private var heardAt: UInt64 = 0

  init(targetNanoseconds: UInt64, maximum: Int) {
    target = targetNanoseconds
    self.maximum = max(1, maximum)
    value = min(4, self.maximum)
  }

  /// A foreground request has ended.
  ///
  /// - Parameter wasLimiting: whether background work was held back by the cap. A cap that does not limit is
  ///   not raised.
  mutating func foregroundFinished(sentAt: UInt64, latency: UInt64, now: UInt64, wasLimiting: Bool) {
    heardAt = now
    guard latency <= target else {
      streak = 0
      if credit >= Self.priceOfMiss {
        credit -= Self.priceOfMiss
      } else if sentAt >= cutAt {
        value = max(1, value / 2)
        cutAt = now
      }
      return
    }
    credit = min(credit + 1, Self.creditLimit)
    guard wasLimiting else { return }
    streak += 1
    if streak >= Self.raiseAfter {
      streak = 0
      value = min(maximum, value + 1)
    }
  }

  /// A background request has ended. While there are no foreground requests, the cap rises with time.
  mutating func backgroundFinished(now: UInt64, wasLimiting: Bool) {
    guard wasLimiting, now > heardAt, now - heardAt >= Self.quietRaise else { return }
    heardAt = now
    value = min(maximum, value + 1)
  }
}
