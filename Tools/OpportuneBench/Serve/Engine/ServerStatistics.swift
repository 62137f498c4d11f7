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

  static let size = 5

  var encoded: [UInt64] {
    guard let share else { return [UInt64](repeating: 0, count: Self.size) }
    return [1, share.workers, share.eighths, share.cuts, share.raises]
  }

  init(share: Share? = nil) { self.share = share }

  init?(_ counters: [UInt64]) {
    guard counters.count == Self.size else { return nil }
    guard counters[0] == 1 else { return }
    share = Share(workers: counters[1], eighths: counters[2], cuts: counters[3], raises: counters[4])
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
