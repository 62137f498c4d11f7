import Synchronization

/// A gate that inline calls pass on their callers' threads. The reactor closes it before it ends an app or
/// closes a descriptor.
///
/// One atomic word: the number of callers inside (bits 0 to 19), how often the gate was closed (bits 20 to
/// 62), and whether the reactor waits for the callers inside (bit 63). The modification order of that word
/// decides between a caller and the reactor:
///  - A caller adds itself. If the word shows that the gate was closed since the call began, the caller
///    subtracts itself again, and its request goes through the reactor. So new callers never delay the
///    reactor.
///  - The reactor closes the gate and waits for the callers that were inside. It does not block: the last
///    caller to leave posts a message.
///
/// Invariants: each caller that has entered leaves once. `close()` is called on the reactor's thread only. If
/// no caller is inside after `close()`, nothing is done inside until a caller enters with the new count of
/// closes.
struct InlineGate: ~Copyable {
  /// The result of `enter`. `refusedAsLast`: the caller must notify the reactor, as after `leave()`.
  enum Entry { case inside, refused, refusedAsLast }

  private static let waiting: UInt64 = 1 << 63
  private static let oneClose: UInt64 = 1 << 20
  private static let callersMask = oneClose - 1

  private let word = Atomic<UInt64>(0)

  // MARK: Callers, any thread

  /// How often the gate was closed. Pass it to ``enter(since:)`` later.
  var closes: UInt64 {
    // Relaxed: a thread that has a descriptor's number from an open after a close has seen that close.
    word.load(ordering: .relaxed) & ~(Self.waiting | Self.callersMask)
  }

  /// The same, in an order with what the caller did before: see `close()`.
  var closesNow: UInt64 {
    word.load(ordering: .sequentiallyConsistent) & ~(Self.waiting | Self.callersMask)
  }

  /// Enters, unless the gate was closed since.
  ///
  /// - Parameter closes: the value of ``closes`` when the call began.
  func enter(since closes: UInt64) -> Entry {
    // An early exit where the gate was closed; it decides nothing.
    guard word.load(ordering: .relaxed) & ~Self.callersMask == closes else { return .refused }
    // [gate-look] acquire: pairs with `callers`. The caller reads its app's state next, and sees what the
    // reactor had seen before it counted the callers.
    guard word.wrappingAdd(1, ordering: .acquiring).oldValue & ~Self.callersMask == closes else {
      return leave() ? .refusedAsLast : .refused
    }
    return .inside
  }

  /// Leaves. Returns whether the reactor waits and no caller is inside any more; the caller must then notify
  /// it.
  func leave() -> Bool {
    // [gate-left] release: pairs with `isBusy`. What was done inside happens before the close or the end that
    // waited for it.
    let left = word.wrappingSubtract(1, ordering: .releasing).newValue
    return left & (Self.waiting | Self.callersMask) == Self.waiting
  }

  // MARK: The reactor

  /// Closes the gate: from now on no caller enters that has read ``closes`` before. Returns the new count.
  func close() -> UInt64 {
    word.bitwiseOr(Self.waiting, ordering: .relaxed)  // first: no caller may enter with the new count
    // seqCst: pairs with `closesNow`. The reactor looks for waits next, and a wait looks here once it is
    // there to be found.
    let word = word.wrappingAdd(Self.oneClose, ordering: .sequentiallyConsistent).newValue
    return word & ~(Self.waiting | Self.callersMask)
  }

  /// The reactor no longer waits.
  func stopWaiting() { word.bitwiseAnd(~Self.waiting, ordering: .relaxed) }

  /// Whether a caller is inside. If this is false after ``close()``, no caller can enter.
  var isBusy: Bool { word.load(ordering: .acquiring) & Self.callersMask != 0 }  // [gate-left]

  /// The number of callers inside. A call that has not ended and is not counted here will see the state that
  /// the reactor has seen, or a later one. If that state is suspended, the call does nothing.
  var callers: Int {
    // [gate-look] release: pairs with enter(). It must be a read-modify-write, so that a caller that enters
    // later reads its value and acquires.
    Int(word.wrappingAdd(0, ordering: .acquiringAndReleasing).newValue & Self.callersMask)
  }
}
