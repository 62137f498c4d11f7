import Synchronization

/// What inline calls pass through on their callers' threads, and what the reactor closes before it ends an
/// app or closes a descriptor.
///
/// One atomic word: the callers inside (bits 0 to 19), how often the gate was closed (bits 20 to 62), and
/// whether the reactor waits for those inside (bit 63). The order of changes of that word decides between a
/// caller and the reactor:
///  - A caller adds itself. If the word says that the gate was closed since the call began, it takes itself
///    off again, and its request goes through the reactor. So new callers never hold the reactor up.
///  - The reactor closes the gate. Callers that were inside by then are waited for, but not by blocking: the
///    last one to leave posts a message.
///
/// Invariants: who has entered leaves once; `close()` happens only on the reactor's thread; where nobody is
/// inside after `close()`, nobody does anything inside until the gate is entered with the new count of
/// closes.
struct InlineGate: ~Copyable {
  /// `refusedAsLast`: the caller has to tell the reactor, as after `leave()`.
  enum Entry { case inside, refused, refusedAsLast }

  private static let waiting: UInt64 = 1 << 63
  private static let oneClose: UInt64 = 1 << 20
  private static let callersMask = oneClose - 1

  private let word = Atomic<UInt64>(0)

  // MARK: Callers, any thread

  /// How often it was closed; grows with each close. Pass it to ``enter(since:)`` later.
  var closes: UInt64 {
    // Relaxed: who has a descriptor's number from an open after a close has seen that close.
    word.load(ordering: .relaxed) & ~(Self.waiting | Self.callersMask)
  }

  /// - Parameter closes: as read when the call began.
  func enter(since closes: UInt64) -> Entry {
    // Saves the rest where the gate was closed; decides nothing.
    guard word.load(ordering: .relaxed) & ~Self.callersMask == closes else { return .refused }
    // [gate-look] acquire: the caller reads its app's state next, and sees what the reactor saw before it
    // counted callers. Pairs with `callers`.
    guard word.wrappingAdd(1, ordering: .acquiring).oldValue & ~Self.callersMask == closes else {
      return leave() ? .refusedAsLast : .refused
    }
    return .inside
  }

  /// Whether the reactor waits, and nobody is inside any more: then the caller has to tell it.
  func leave() -> Bool {
    // [gate-left] release: what was done inside comes before the close or the end that waited. Pairs with
    // `isBusy`.
    let left = word.wrappingSubtract(1, ordering: .releasing).newValue
    return left & (Self.waiting | Self.callersMask) == Self.waiting
  }

  // MARK: The reactor

  /// Nobody enters from now on who has read ``closes`` before. Returns the new count.
  func close() -> UInt64 {
    word.bitwiseOr(Self.waiting, ordering: .relaxed)  // first: nobody may enter with the new count meanwhile
    let word = word.wrappingAdd(Self.oneClose, ordering: .relaxed).newValue
    return word & ~(Self.waiting | Self.callersMask)
  }

  /// The reactor does not wait any more.
  func stopWaiting() { word.bitwiseAnd(~Self.waiting, ordering: .relaxed) }

  /// Whether somebody is inside. After ``close()``, nobody comes in once this is false.
  var isBusy: Bool { word.load(ordering: .acquiring) & Self.callersMask != 0 }  // [gate-left]

  /// How many are inside. A call that this does not count, and that has not ended, sees the state that the
  /// caller of this has seen, or a later one: where that was a suspension it does nothing.
  var callers: Int {
    // [gate-look] release, so it has to be a write: a caller that enters later reads from it, and acquires.
    Int(word.wrappingAdd(0, ordering: .acquiringAndReleasing).newValue & Self.callersMask)
  }
}
