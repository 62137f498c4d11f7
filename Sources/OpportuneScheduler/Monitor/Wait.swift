import Synchronization

/// One wait of a task. It ends exactly once: by the event, by cancellation or by the shutdown.
class Wait: @unchecked Sendable {
  private enum State: UInt8, AtomicRepresentable { case new, waiting, over }
  private let state = Atomic<State>(.new)
  // Written before `waiting` is published; taken by the thread that changes the state from `waiting`.
  private var continuation: CheckedContinuation<Void, Never>?

  /// Returns false if the wait is over already.
  func begin(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
    self.continuation = continuation
    // releasing: publishes the continuation to end().
    let (exchanged, _) = state.compareExchange(
      expected: .new, desired: .waiting, ordering: .acquiringAndReleasing)
    if !exchanged { self.continuation = nil }
    return exchanged
  }

  // relaxed: a wait that ends a moment later is only kept a little longer.
  var isOver: Bool { state.load(ordering: .relaxed) == .over }

  func end() {
    // acquiring: pairs with begin().
    guard state.exchange(.over, ordering: .acquiringAndReleasing) == .waiting else { return }
    let continuation = continuation
    self.continuation = nil
    continuation?.resume()
  }
}
