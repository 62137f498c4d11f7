internal import OpportuneBase
import Synchronization

/// How much memory was handed out to the broker's apps, as sums, and when a walk or a look is due as it
/// grows.
///
/// A walk over the regions is exact but takes microseconds; an allocation should take none. The sums show
/// when a walk may matter. Invariants:
///
///  - U1. `handedOut` is at least what is in use: taken memory still counts as handed out.
///  - U2. `grown` never decreases; it counts each byte that is handed out, or filled again after it was
///    taken.
///  - U3. The critical point is not reached before `grown` reaches `walkAt`, according to the last walk.
///  - U4. If `grown` has reached `lookAt`, the monitor was woken, or will see it.
///
/// All accesses are relaxed unless stated otherwise: a sum publishes no other data.
final class MemoryUse: Sendable {
  private let handedOut = Atomic<UInt64>(0)
  private let grown = Atomic<UInt64>(0)
  private let walkAt: Atomic<UInt64>
  /// Bytes for which room is being made.
  private let wanted = Atomic<UInt64>(0)
  /// The value of `grown` at which to wake the monitor; `.max` while it need not be woken.
  private let lookAt = Atomic<UInt64>(.max)

  /// - Parameter walkAt: how many bytes may be handed out before the first walk.
  init(walkAt: UInt64) { self.walkAt = Atomic(walkAt) }

  /// Bytes that are handed out: an upper bound of what is in use.
  var total: UInt64 { handedOut.load(ordering: .relaxed) }

  // MARK: Allocating threads

  /// Counts bytes that are handed out. Returns whether the caller must wake the monitor.
  func add(_ bytes: UInt64) -> Bool {
    handedOut.wrappingAdd(bytes, ordering: .relaxed)
    return grow(bytes)
  }

  /// Subtracts bytes that were released. A change of an app's outside memory may be subtracted by one thread
  /// before another has added it. The sum wraps until then; a reader takes it for a large value, and walks.
  func subtract(_ bytes: UInt64) { handedOut.wrappingSubtract(bytes, ordering: .relaxed) }

  /// Counts bytes that are filled again after they were taken. Returns whether the caller must wake the
  /// monitor.
  func grow(_ bytes: UInt64) -> Bool {
    // Releasing: pairs with readGrowth(). A walk by a thread that has read this value finds what it counts.
    // [look] seq_cst: pairs with look(at:), whose two accesses are seq_cst too. Either this thread sees the
    // monitor's `lookAt`, or the monitor sees this sum.
    let sum = grown.add(bytes, ordering: .sequentiallyConsistent).newValue
    guard sum >= lookAt.load(ordering: .sequentiallyConsistent) else { return false }
    // Exactly one thread wakes the monitor, until the monitor has looked again.
    return lookAt.exchange(.max, ordering: .relaxed) != .max
  }

  /// Whether a walk is due before `bytes` more are handed out.
  func isWalkDue(with bytes: UInt64) -> Bool {
    grown.load(ordering: .relaxed).saturatingAdd(bytes) >= walkAt.load(ordering: .relaxed)
  }

  /// Calls `body` with the bytes that this thread and all others making room now need: room must be found for
  /// all of them.
  func wanting<Result>(_ bytes: UInt64, _ body: (UInt64) -> Result) -> Result {
    let needed = wanted.add(bytes, ordering: .relaxed).newValue
    defer { wanted.subtract(bytes, ordering: .relaxed) }
    return body(needed)
  }

  // MARK: Walking threads

  /// Reads `grown` before a walk. Acquiring: pairs with grow().
  func readGrowth() -> UInt64 { grown.load(ordering: .acquiring) }

  /// Records that a walk which began at `growth` has found room for so many bytes.
  func setRoom(_ bytes: UInt64, since growth: UInt64) {
    walkAt.store(growth.saturatingAdd(bytes), ordering: .relaxed)
  }

  // MARK: Monitor

  /// Has the monitor woken once `grown` reaches `due`. Returns whether it has reached it already.
  func look(at due: UInt64) -> Bool {
    lookAt.store(due, ordering: .sequentiallyConsistent)  // [look]
    return grown.load(ordering: .sequentiallyConsistent) >= due
  }

  /// The value at which the monitor is woken; `nil` where it was woken, or has not looked yet. For tests.
  var awaited: UInt64? {
    let due = lookAt.load(ordering: .relaxed)
    return due == .max ? nil : due
  }
}
