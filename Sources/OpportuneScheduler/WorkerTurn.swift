/// How long a worker goes on with one app, and with its own queue, before others have their turn. (R-CPU-01)
///
/// Jobs shorter than a turn stay together, which keeps caches warm and saves looking at all queues between two of them. A
/// turn of the own queue ends with the first job that reaches ``shortest``; a turn of others lasts as long as the own turn
/// before it, so that after 5 ms of the worker's own the outside queues have 5 ms too, and not one short job of
/// the many that may wait there. A value: the caller has the clock.
struct WorkerTurn {
  /// Some hundred looks at all queues would fit into it.
  static let shortest: UInt64 = 32_000
  /// What a job may take by default before it counts as a hog.
  static let longest: UInt64 = 10_000_000

  /// Whether the last job came from the worker's own queue.
  var servesOwn = true
  /// nil before the first job.
  private var began: UInt64?
  /// How long others may have, now or next.
  private var credit = shortest

  /// Whether the turn is over at `now`, in nanoseconds of a monotonic clock, between two jobs. If so the next begins then.
  mutating func isOver(at now: UInt64) -> Bool {
    let lasted = now.saturatingSubtract(began ?? now)
    let isOver = lasted >= (servesOwn ? Self.shortest : credit)
    if isOver, servesOwn { credit = min(lasted, Self.longest) }
    if isOver || began == nil { began = now }
    return isOver
  }
}
