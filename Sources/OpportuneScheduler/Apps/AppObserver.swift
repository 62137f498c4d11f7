internal import OpportuneBase

/// Told when an app changes band, or is suspended or resumed: the hook by which other layers, such as I/O,
/// follow it.
package protocol AppObserver: AnyObject, Sendable {
  /// Called on the thread that made the change, after it; must not block. Two changes may be told of in
  /// either order, or at once, and who keeps what it has seen may keep what is older. So have one thread look
  /// at what the app is then.
  func appDidChange()
}

extension App {
  /// Has `observer` told of changes from now on, for as long as it lives. It is not held; its
  /// place, some 50 bytes, is kept as long as the app.
  package func addObserver(_ observer: any AppObserver) { core.observers.add(observer) }

  /// Has them told of what another layer knows of the app and has changed.
  package func tellObservers() { core.observers.tell() }
}

/// Weak references to observers, in a stack that is never emptied, so that neither side ever waits for the
/// other.
final class AppObservers {
  private final class Place: Linked {
    private(set) weak var observer: (any AppObserver)?
    // Set before it is published.
    var below: UInt = 0

    init(_ observer: any AppObserver) { self.observer = observer }
  }

  private let places = LinkedStack<Place>()

  func add(_ observer: any AppObserver) { places.push(Place(observer)) }

  func tell() { places.visit { $0.observer?.appDidChange() } }
}
