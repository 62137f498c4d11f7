internal import OpportuneBase
import Synchronization

/// The tasks of one life of an app, so that its end can cancel them.
///
/// The host cancels. It must not wait for a thread of the app, which the kernel may have stopped at any
/// instruction. So this list is only pushed to and taken as a whole, and has no lock.
///
/// Invariants: an entry's closure is called at most once, and never after `close()`. An armed entry is in the
/// list, or held by one thread that will put it back or drop it. A thread that has put an entry back checks
/// afterwards whether the life is over; see `HostedApp.task`.
final class OpenTasks: Sendable {
  final class Entry: Linked, @unchecked Sendable {
    fileprivate enum State: UInt8, AtomicRepresentable { case new, armed, closed, cancelled }

    fileprivate let state = Atomic<State>(.new)
    // Owned by the thread that changed the state from `new`, then by the one that changes it from `armed`.
    private var cancel: (@Sendable () -> Void)?
    // Owned by the thread that holds the entry outside of the list; only read inside the list.
    package var below: UInt = 0

    /// The task has ended.
    func close() {
      // acquiringAndReleasing: pairs with arm(); sees the closure, in order to release it.
      if state.exchange(.closed, ordering: .acquiringAndReleasing) == .armed { cancel = nil }
    }

    /// Stores the closure. Returns false if the task has ended already.
    fileprivate func arm(_ cancel: @escaping @Sendable () -> Void) -> Bool {
      self.cancel = cancel
      // releasing: a thread that finds the entry armed sees the closure. acquiring: this thread may be the
      // last to release it.
      if state.compareExchange(expected: .new, desired: .armed, ordering: .acquiringAndReleasing).exchanged {
        return true
      }
      self.cancel = nil
      return false
    }

    fileprivate func cancelOnce() {
      // acquiring: pairs with arm().
      guard state.compareExchange(expected: .armed, desired: .cancelled, ordering: .acquiring).exchanged
      else { return }
      cancel?()
      cancel = nil
    }

    fileprivate var isArmed: Bool { state.load(ordering: .relaxed) == .armed }
  }

  // A pusher checks for the end of the life after its push. The thread that ends the life sets that before it
  // takes the list.
  private let entries = LinkedStack<Entry>()
  /// How many entries were pushed since the last trim, and how many make a trim worthwhile.
  private let pushed = Atomic<Int>(0)
  private let worthwhile = Atomic<Int>(64)

  func add(_ entry: Entry, cancel: @escaping @Sendable () -> Void) {
    guard entry.arm(cancel) else { return }
    entries.push(entry)
    // relaxed: the time of a trim affects memory only.
    if pushed.add(1, ordering: .relaxed).newValue >= worthwhile.load(ordering: .relaxed) { trim() }
  }

  /// Calls each closure that was neither called nor closed.
  func cancelAll() { for entry in entries.takeAll() { entry.cancelOnce() } }

  private func trim() {
    pushed.store(0, ordering: .relaxed)
    let live = entries.takeAll().filter(\.isArmed)
    for entry in live { entries.push(entry) }
    worthwhile.store(max(64, live.count), ordering: .relaxed)
  }
}
