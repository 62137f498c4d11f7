import Synchronization

/// One wait of a task. It ends once, whoever ends it: who was waited for, a cancellation, or the shutdown.
class Wait: @unchecked Sendable {
  private enum State: UInt8, AtomicRepresentable { case new, waiting, over }
  private let state = Atomic<State>(.new)
  // Written before `waiting` is published, taken by whoever moves it from there.
  private var continuation: CheckedContinuation<Void, Never>?

  /// False if it is over already.
  func begin(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
    self.continuation = continuation
    // releasing: publishes the continuation to end().
    let (exchanged, _) = state.compareExchange(
      expected: .new, desired: .waiting, ordering: .acquiringAndReleasing)
    if !exchanged { self.continuation = nil }
    return exchanged
  }

  // relaxed: one that is over a moment later is only kept for longer.
  var isOver: Bool { state.load(ordering: .relaxed) == .over }

  func end() {
    // acquiring: pairs with begin().
    guard state.exchange(.over, ordering: .acquiringAndReleasing) == .waiting else { return }
    let continuation = continuation
    self.continuation = nil
    continuation?.resume()
  }
}
