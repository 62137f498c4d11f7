import Synchronization

/// What is done for an app at once, on callers' threads: who is at it, and how much was done.
///
/// Each such call either comes before the app's end, which then waits for it, or is refused. Who is at it and whether it is
/// over are one word, so the order of that word decides between the two:
///  - a caller adds itself, and takes itself off again where the word said that it is over. Then it looks at the app's
///    state, and does what it came for only where that lets it;
///  - the reactor thread sets the highest bit, for good. Where nobody is there then, nobody will be. Else it goes on with other
///    work, and whoever leaves the bare bit behind tells it: the last has, so nobody is left inside, whoever looked in since.
///
/// A suspension is no part of the word, since its moment is that of the state. It holds from the time when the reactor, which
/// has seen it, counts nobody: see ``callers``.
final class InlineCalls: Sendable {
  private static let over: UInt64 = 1 << 63

  private let word = Atomic<UInt64>(0)
  private let requests = Atomic<UInt64>(0)
  private let failures = Atomic<UInt64>(0)
  private let bytesRead = Atomic<UInt64>(0)
  private let bytesWritten = Atomic<UInt64>(0)

  enum Entry { case inside, refused, refusedAsLast }

  /// After ``Entry/inside`` the caller leaves; after ``Entry/refusedAsLast`` it tells the reactor, as one that leaves.
  func enter() -> Entry {
    guard word.load(ordering: .relaxed) & Self.over == 0 else { return .refused }  // saves the rest; decides nothing
    // [callers] acquire: the state that is looked at next is what the reactor saw before it counted, or later.
    guard word.wrappingAdd(1, ordering: .acquiring).oldValue & Self.over != 0 else { return .inside }
    return leave() ? .refusedAsLast : .refused
  }

  /// Whether nobody is left of an app whose end waits for that, so that the reactor is to be told.
  func leave() -> Bool {
    // [left] release: what was done comes before the end that waited for it.
    word.wrappingSubtract(1, ordering: .releasing).newValue == Self.over
  }

  /// Nothing is done at once from now on. Whether somebody is at it still.
  func end() -> Bool {
    word.bitwiseOr(Self.over, ordering: .acquiringAndReleasing).newValue != Self.over  // [left]
  }

  /// How many are at it. A call that this does not count, and that has not ended, sees the state that the caller of this has
  /// seen, or a later one: where that was a suspension it does nothing.
  var callers: Int {
    // [callers] release, so it has to be a write: a call that adds itself later reads from it, and acquires.
    Int(word.wrappingAdd(0, ordering: .acquiringAndReleasing).newValue & ~Self.over)
  }

  // MARK: How much

  /// - Parameter isWhole: else the queue does the rest, and counts the request.
  func count(_ moved: Int, writes: Bool, isWhole: Bool) {
    if isWhole { requests.wrappingAdd(1, ordering: .relaxed) }
    if writes {
      bytesWritten.wrappingAdd(UInt64(moved), ordering: .relaxed)
    } else {
      bytesRead.wrappingAdd(UInt64(moved), ordering: .relaxed)
    }
  }

  func countFailure() { failures.wrappingAdd(1, ordering: .relaxed) }

  struct Done {
    let requests: UInt64
    let failures: UInt64
    let bytesRead: UInt64
    let bytesWritten: UInt64
  }

  var done: Done {
    Done(
      requests: requests.load(ordering: .relaxed), failures: failures.load(ordering: .relaxed),
      bytesRead: bytesRead.load(ordering: .relaxed), bytesWritten: bytesWritten.load(ordering: .relaxed))
  }
}
