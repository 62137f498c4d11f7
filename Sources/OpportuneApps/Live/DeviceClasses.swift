import Synchronization

/// What an app's ``Restrictions`` say of storage and network, for whoever reads it on any thread. The host
/// writes it, and then has the observers of the app told.
package final class DeviceClasses: Sendable {
  private let word = Atomic<UInt8>(0)

  /// `nil` before the first restrictions. While the app may use neither, what it had before: it executes
  /// nothing then.
  package var value: (storage: Restrictions.Class, network: Restrictions.Class)? {
    let word = word.load(ordering: .acquiring)  // with set(): what came before the restrictions is seen
    guard word & 1 != 0 else { return nil }
    return (word & 2 != 0 ? .background : .foreground, word & 4 != 0 ? .background : .foreground)
  }

  /// Whether that is another than before.
  func set(_ restrictions: Restrictions) -> Bool {
    guard restrictions.storage != .none, restrictions.network != .none else { return false }
    let new: UInt8 =
      1 | (restrictions.storage == .background ? 2 : 0) | (restrictions.network == .background ? 4 : 0)
    return word.exchange(new, ordering: .releasing) != new
  }
}
