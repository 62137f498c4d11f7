import Synchronization

/// The inline calls of one app: who is inside, and how much was done.
///
/// The app's end closes the gate for good. A suspension does not: its moment is that of the app's state,
/// which a caller reads once it is inside. It holds from the time when the reactor, which has seen it, counts
/// nobody inside.
final class InlineCalls: Sendable {
  let gate = InlineGate()
  private let requests = Atomic<UInt64>(0)
  private let failures = Atomic<UInt64>(0)
  private let bytesRead = Atomic<UInt64>(0)
  private let bytesWritten = Atomic<UInt64>(0)

  /// - Parameter isWhole: else the reactor does the rest, and counts the request.
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

  /// What was done, at about one moment.
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
