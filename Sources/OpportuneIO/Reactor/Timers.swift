internal import OpportuneBase

/// The reactor's timers. This type and ``Watch`` refer to each other: a watch sets timers, and one of the two
/// kinds of timer belongs to a watch.
///
/// Invariant: timers that are no longer wanted stay in the queue until they are at its top, but never more
/// than there are wanted ones, or about 1,000.
///
/// Reactor's thread only.
final class Timers {
  enum Timer {
    case deadline(Deadline)
    case heartbeat(Watch)

    /// Whether the timer is still wanted when it fires.
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

  /// Removes the earliest timer that is due at `now`; nil if there is none.
  func pop(dueAt now: UInt64) -> Timer? { queue.pop(dueAt: now) }

  /// When the next wanted timer is due.
  func nextTime() -> UInt64 {
    queue.skip { $0.isWanted(at: $1) }
    return queue.next ?? .max
  }
}

/// The time of the reactor's current turn, in nanoseconds. Read before a turn and after a sleep, not at each
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
