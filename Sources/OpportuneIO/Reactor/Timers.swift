internal import OpportuneBase

/// What is to happen at a time. It and ``Watch`` name each other: a watch sets timers, and one of the two
/// kinds of timer is the watch's.
///
/// Invariant: timers that nobody wants any more stay in the queue until they are at its top, but never more
/// of them than of the others, or than about 1,000.
///
/// The reactor's alone.
final class Timers {
  enum Timer {
    case deadline(Deadline)
    case heartbeat(Watch)

    /// Whether it still matters at its time.
    func isWanted(at time: UInt64) -> Bool {
      switch self {
      case .deadline(let deadline): deadline.request != nil
      case .heartbeat(let watch): watch.waits(until: time)
      }
    }
  }

  private var queue = TimeQueue<UInt64, Timer>()
  private var countBeforeCompaction = 1024

  var count: Int { queue.count }

  func set(_ timer: Timer, at time: UInt64) {
    queue.add(timer, at: time)
    guard queue.count > countBeforeCompaction else { return }
    queue.compact { $0.isWanted(at: $1) }
    countBeforeCompaction = max(1024, 2 * queue.count)
  }

  /// The earliest that is due at `now`.
  func pop(dueAt now: UInt64) -> Timer? { queue.pop(dueAt: now) }

  /// When the next that is wanted is due.
  func nextTime() -> UInt64 {
    queue.skip { $0.isWanted(at: $1) }
    return queue.next ?? .max
  }
}

/// The time of the reactor's present turn, in nanoseconds: read before a turn and after a sleep, not at each
/// step.
final class ReactorClock {
  private let read: () -> UInt64
  private(set) var now: UInt64

  init(_ read: @escaping () -> UInt64) {
    self.read = read
    now = read()
  }

  func advance() { now = read() }
}
