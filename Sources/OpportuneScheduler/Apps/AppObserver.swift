internal import OpportuneBase

/// Receives a call when an app changes band, is suspended or is resumed. Other layers, such as I/O, follow
/// the app through it.
package protocol AppObserver: AnyObject, Sendable {
  /// Called after the change, on the thread that made it; must not block. The calls for two changes may
  /// arrive in either order, or concurrently. So do not store a state from within the call: let one thread
  /// read the app's current state afterwards.
  func appDidChange()
}

extension App {
  /// Registers `observer` for changes from now on, for as long as it lives. The reference is weak. Its list
  /// entry, about 50 bytes, is kept as long as the app.
  package func addObserver(_ observer: any AppObserver) { core.observers.add(observer) }

  /// Calls all observers, for another layer that has changed its own state of the app.
  package func tellObservers() { core.observers.tell() }
}

/// Weak references to observers, in a push-only stack: neither adding nor notifying ever waits.
final class AppObservers {
  private final class Registration: Linked {
    private(set) weak var observer: (any AppObserver)?
    // Written before the entry is published.
    var below: UInt = 0

    init(_ observer: any AppObserver) { self.observer = observer }
  }

  private let registrations = LinkedStack<Registration>()

  func add(_ observer: any AppObserver) { registrations.push(Registration(observer)) }

  func tell() { registrations.visit { $0.observer?.appDidChange() } }
}
