import Synchronization

/// Told when an app changes band, or is suspended or resumed: the hook by which other layers, such as I/O, follow it.
public protocol AppObserver: AnyObject, Sendable {
  /// Called on the thread that made the change, after it; must not block. Two changes may be told of in either order, or
  /// at once, and who keeps what it has seen may keep what is older. So have one thread look at what the app is then.
  func appDidChange()
}

extension App {
  /// Has `observer` told of changes from now on, for as long as it lives. It is not held; its
  /// place in the list, some 50 bytes, is kept as long as the app.
  public func addObserver(_ observer: any AppObserver) { core.observers.add(observer) }

  /// Has them told of what another layer knows of the app and has changed.
  package func tellObservers() { core.observers.tell() }
}

/// Weak references to observers, in a list that only grows, so that neither side ever waits for the other.
final class AppObservers: @unchecked Sendable {
  private final class Node {
    weak var observer: (any AppObserver)?
    let next: Node?

    init(_ observer: any AppObserver, _ next: Node?) {
      self.observer = observer
      self.next = next
    }
  }

  // Sendable: nodes are not changed once they are in the list, and the list holds them until it goes itself.
  private let first = Atomic<UInt>(0)

  deinit {
    let pointer = UnsafeRawPointer(bitPattern: first.load(ordering: .relaxed))
    if let pointer { Unmanaged<Node>.fromOpaque(pointer).release() }
  }

  private static func node(_ address: UInt) -> Node? {
    UnsafeRawPointer(bitPattern: address).map { Unmanaged<Node>.fromOpaque($0).takeUnretainedValue() }
  }

  func add(_ observer: any AppObserver) {
    var seen = first.load(ordering: .acquiring)
    while true {
      // The new node holds the one before it, as the list held that.
      let node = Node(observer, Self.node(seen))
      let fresh = Unmanaged.passRetained(node)
      // [observers] release: the node is seen whole by tell()'s acquire.
      let (exchanged, original) = first.compareExchange(
        expected: seen, desired: UInt(bitPattern: fresh.toOpaque()), ordering: .acquiringAndReleasing)
      if exchanged {
        // The list's own hold on the node before has passed to the new one's.
        if let before = UnsafeRawPointer(bitPattern: seen) { Unmanaged<Node>.fromOpaque(before).release() }
        return
      }
      fresh.release()
      seen = original
    }
  }

  func tell() {
    var node = Self.node(first.load(ordering: .acquiring))
    while let current = node {
      current.observer?.appDidChange()
      node = current.next
    }
  }
}
