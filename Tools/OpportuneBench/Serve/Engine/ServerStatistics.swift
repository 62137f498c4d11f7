import Opportune

/// What the scheduler of a server says of itself, of those servers that have one.
struct SchedulerStanding: Equatable, Sendable {
  /// What a target, or a level that is held, leaves the background.
  struct Share: Equatable, Sendable {
    /// Workers of background that may run at once.
    var workers: UInt64 = 0
    /// Of the storage device.
    var eighths: UInt64 = 0
    /// How often it was lowered and raised since the server began.
    var cuts: UInt64 = 0
    var raises: UInt64 = 0
  }

  /// nil where there is neither a target nor a level.
  var share: Share?
  /// Who may be in the real-time class; nil where the server does not ask for it.
  var realTime: Access?

  typealias Access = RealTimeForegroundStatistics.Access

  static let size = 6

  var encoded: [UInt64] {
    let access = realTime.flatMap { Access.allCases.firstIndex(of: $0) }.map { UInt64($0) + 1 } ?? 0
    guard let share else { return [access] + [UInt64](repeating: 0, count: Self.size - 1) }
    return [access, 1, share.workers, share.eighths, share.cuts, share.raises]
  }

  init(share: Share? = nil, realTime: Access? = nil) {
    self.share = share
    self.realTime = realTime
  }

  init?(_ counters: [UInt64]) {
    guard counters.count == Self.size, counters[0] <= UInt64(Access.allCases.count) else { return nil }
    if counters[0] > 0 { realTime = Access.allCases[Int(counters[0]) - 1] }
    guard counters[1] == 1 else { return }
    share = Share(workers: counters[2], eighths: counters[3], cuts: counters[4], raises: counters[5])
  }
}

/// What a server answers to the bench's own question.
struct ServerStatistics: Equatable, Sendable {
  var count = EngineCount()
  /// nil where the server has no scheduler of its own.
  var standing: SchedulerStanding?

  var encoded: [UInt64] { count.encoded + (standing?.encoded ?? []) }

  init(count: EngineCount, standing: SchedulerStanding?) {
    self.count = count
    self.standing = standing
  }

  init?(_ counters: [UInt64]) {
    guard let count = EngineCount(Array(counters.prefix(EngineCount.size))) else { return nil }
    self.count = count
    let rest = Array(counters.dropFirst(EngineCount.size))
    guard !rest.isEmpty else { return }
    guard let standing = SchedulerStanding(rest) else { return nil }
    self.standing = standing
  }
}
