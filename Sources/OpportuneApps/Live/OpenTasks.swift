internal import OpportuneBase
import Synchronization

/// The tasks of one life of an app, so that its end can cancel them.
///
/// The host cancels, and must not wait for a thread of the app, which the kernel may have stopped at any
/// instruction: so this is a list that is pushed to and taken whole, and never locked.
///
/// Invariants: an entry's closure is called at most once, and by nobody once `close()` was called first. An
/// entry that was armed is in the list, or in the hands of one thread that will put it back or let it go.
/// Whoever has put something back looks afterwards whether the life is over; see `HostedApp.task`.
final class OpenTasks: Sendable {
  final class Entry: Linked, @unchecked Sendable {
    fileprivate enum State: UInt8, AtomicRepresentable { case new, armed, closed, cancelled }

    fileprivate let state = Atomic<State>(.new)
    // Owned by who moved the state away from `new`, then by who moves it away from `armed`.
    private var cancel: (@Sendable () -> Void)?
    // Owned by who holds the entry outside of the list; read only in the list.
    package var below: UInt = 0

    /// The task has ended.
    func close() {
      // acquiringAndReleasing: sees the closure that arm() wrote, to let it go.
      if state.exchange(.closed, ordering: .acquiringAndReleasing) == .armed { cancel = nil }
    }

    /// False if the task has ended already.
    fileprivate func arm(_ cancel: @escaping @Sendable () -> Void) -> Bool {
      self.cancel = cancel
      // releasing: whoever finds it armed sees the closure. acquiring, as it may be the only one left to drop
      // it.
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

  // A push comes before the pusher's look at the end of the life, which the one who ends it sets before it
  // takes the list.
  private let entries = LinkedStack<Entry>()
  /// How many entries were pushed since ended ones were last let go, and how many make it worth doing again.
  private let pushed = Atomic<Int>(0)
  private let worthwhile = Atomic<Int>(64)

  func add(_ entry: Entry, cancel: @escaping @Sendable () -> Void) {
    guard entry.arm(cancel) else { return }
    entries.push(entry)
    // relaxed: when to trim is a matter of memory alone.
    if pushed.add(1, ordering: .relaxed).newValue >= worthwhile.load(ordering: .relaxed) { trim() }
  }

  /// Calls each closure that neither ran nor was closed.
  func cancelAll() { for entry in entries.takeAll() { entry.cancelOnce() } }

  private func trim() {
    pushed.store(0, ordering: .relaxed)
    let live = entries.takeAll().filter(\.isArmed)
    for entry in live { entries.push(entry) }
    worthwhile.store(max(64, live.count), ordering: .relaxed)
  }
}
