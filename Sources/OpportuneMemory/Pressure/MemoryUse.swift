internal import OpportuneBase
import Synchronization

/// How much memory the broker's apps were handed out, as sums, and who is to look when it grows.
///
/// A sum tells when a walk over the regions, which knows better, may matter: a walk takes microseconds, an
/// allocation should take none. Invariants:
///
///  U1  `handedOut` is at least what is in use: taken memory still counts as handed out.
///  U2  `grown` only grows, by each byte that is handed out, or filled again after it was taken.
///  U3  The critical point is not reached before `grown` reaches `walkAt`, by what the last walk found.
///  U4  If `grown` has reached `lookAt`, the monitor was rung, or will find it so.
///
/// All accesses are relaxed where nothing else is said: a sum publishes nothing.
final class MemoryUse: Sendable {
  private let handedOut = Atomic<UInt64>(0)
  private let grown = Atomic<UInt64>(0)
  private let walkAt: Atomic<UInt64>
  /// Bytes that room is being made for.
  private let wanted = Atomic<UInt64>(0)
  /// `.max` while the monitor need not be rung.
  private let lookAt = Atomic<UInt64>(.max)

  /// - Parameter walkAt: how many bytes may be handed out before the first walk.
  init(walkAt: UInt64) { self.walkAt = Atomic(walkAt) }

  /// Bytes that are handed out: an upper bound of what is in use.
  var total: UInt64 { handedOut.load(ordering: .relaxed) }

  // MARK: Whoever allocates

  /// So many bytes are handed out. Returns whether the monitor is to be rung.
  func add(_ bytes: UInt64) -> Bool {
    handedOut.wrappingAdd(bytes, ordering: .relaxed)
    return grow(bytes)
  }

  /// What an app says of its memory outside may be taken back by another thread before it is added: the sum
  /// wraps until then, which whoever reads it takes for much, and walks.
  func subtract(_ bytes: UInt64) { handedOut.wrappingSubtract(bytes, ordering: .relaxed) }

  /// So many bytes are filled again after they were taken. Returns whether the monitor is to be rung.
  func grow(_ bytes: UInt64) -> Bool {
    // Releasing: the walk of who has read it (acquiring in readGrowth) finds what is counted.
    // [look] seq_cst, both: with the two of look(at:) they have one order. Either this thread finds where the
    // monitor wants to be rung, or the monitor finds that so much was handed out.
    let sum = grown.add(bytes, ordering: .sequentiallyConsistent).newValue
    guard sum >= lookAt.load(ordering: .sequentiallyConsistent) else { return false }
    // One rings, until the monitor has looked.
    return lookAt.exchange(.max, ordering: .relaxed) != .max
  }

  /// Whether a walk is due before so many bytes more.
  func isWalkDue(with bytes: UInt64) -> Bool {
    grown.load(ordering: .relaxed).saturatingAdd(bytes) >= walkAt.load(ordering: .relaxed)
  }

  /// Runs `body` with what it needs and all others that make room at the same time: they are to find theirs
  /// as well.
  func wanting<Result>(_ bytes: UInt64, _ body: (UInt64) -> Result) -> Result {
    let needed = wanted.add(bytes, ordering: .relaxed).newValue
    defer { wanted.subtract(bytes, ordering: .relaxed) }
    return body(needed)
  }

  // MARK: Whoever walks

  /// How much there was before the walk that now begins.
  func readGrowth() -> UInt64 { grown.load(ordering: .acquiring) }

  /// A walk that began at `growth` has found room for so many bytes.
  func setRoom(_ bytes: UInt64, since growth: UInt64) {
    walkAt.store(growth.saturatingAdd(bytes), ordering: .relaxed)
  }

  // MARK: The monitor

  /// It is to be rung once there is as much as `due`. Returns whether there is by now.
  func look(at due: UInt64) -> Bool {
    lookAt.store(due, ordering: .sequentiallyConsistent)  // [look]
    return grown.load(ordering: .sequentiallyConsistent) >= due
  }

  /// Where it is to be rung; `nil` where it was, or has not looked yet. For tests.
  var awaited: UInt64? {
    let due = lookAt.load(ordering: .relaxed)
    return due == .max ? nil : due
  }
}
