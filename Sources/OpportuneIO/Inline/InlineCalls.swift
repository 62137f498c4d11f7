import Synchronization

/// The inline calls of one app: how many are inside the gate, and how much was done.
///
/// The app's end closes the gate permanently. A suspension does not: it takes effect through the app's state,
/// which a caller reads once it is inside. The suspension is complete when the reactor, having seen it,
/// counts no callers inside.
final class InlineCalls: Sendable {
  // The counters are beside the gate, and not on cache lines of their own: whoever counts is inside the gate,
  // and so has its line already.
  let gate = InlineGate()
  private let requests = Atomic<UInt64>(0)
  private let failures = Atomic<UInt64>(0)
  private let bytesRead = Atomic<UInt64>(0)
  private let bytesWritten = Atomic<UInt64>(0)

  /// - Parameter isWhole: whether the call is complete; otherwise the reactor does the rest and counts the
  ///   request.
  func count(_ moved: Int, writes: Bool, isWhole: Bool) {
    // All of these relaxed: statistics.
    if isWhole { requests.wrappingAdd(1, ordering: .relaxed) }
    if writes {
      bytesWritten.wrappingAdd(UInt64(moved), ordering: .relaxed)
    } else {
      bytesRead.wrappingAdd(UInt64(moved), ordering: .relaxed)
    }
  }

  func countFailure() { failures.wrappingAdd(1, ordering: .relaxed) }

  /// A snapshot of the counters; they are read one after the other.
  struct Counts {
    let requests: UInt64
    let failures: UInt64
    let bytesRead: UInt64
    let bytesWritten: UInt64
  }

  var counts: Counts {
    Counts(
      requests: requests.load(ordering: .relaxed), failures: failures.load(ordering: .relaxed),
      bytesRead: bytesRead.load(ordering: .relaxed), bytesWritten: bytesWritten.load(ordering: .relaxed))
  }
}
