import Synchronization

/// The storage and network classes of an app's ``Restrictions``, readable on any thread. The host writes
/// them, and then notifies the app's observers.
package final class DeviceClasses: Sendable {
  private let word = Atomic<UInt8>(0)

  /// `nil` before the first restrictions. While the app may use neither, the previous classes: the app
  /// executes nothing then.
  package var value: (storage: Restrictions.Class, network: Restrictions.Class)? {
    let word = word.load(ordering: .acquiring)  // pairs with set()
    guard word & 1 != 0 else { return nil }
    return (word & 2 != 0 ? .background : .foreground, word & 4 != 0 ? .background : .foreground)
  }

  /// Stores the classes. Returns whether they have changed.
  func set(_ restrictions: Restrictions) -> Bool {
    guard restrictions.storage != .none, restrictions.network != .none else { return false }
    let new: UInt8 =
      1 | (restrictions.storage == .background ? 2 : 0) | (restrictions.network == .background ? 4 : 0)
    return word.exchange(new, ordering: .releasing) != new
  }
}
