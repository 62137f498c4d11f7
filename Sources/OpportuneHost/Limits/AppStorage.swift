internal import Glibc

/// Holds what one app reads from and writes to block devices while it is in background to a rate.
///
/// Used by one thread at a time.
final class AppStorage {
  private let limit: StorageLimit
  private let key: String
  private let name: String
  private let controlGroup: ControlGroup?
  private let support: StorageSupport
  private var made: StorageGroup?
  private(set) var isLimited = false
  /// Why it is not limited though it is to be.
  private(set) var lack: LimitLack?

  /// - Parameters:
  ///   - key: of the host.
  ///   - name: of the app.
  ///   - group: its control group of version 2; `nil`: it has none.
  init(_ limit: StorageLimit, key: String, name: String, group: String?, support: StorageSupport = .system) {
    (self.limit, self.key, self.name, self.support) = (limit, key, name, support)
    controlGroup = group.map(ControlGroup.init)
  }

  /// - Parameters:
  ///   - isLimited: whether it is to be.
  ///   - members: its processes.
  func set(isLimited wanted: Bool, members: () -> [pid_t]) {
    lack = nil
    guard wanted, let rate = limit.rate else {
      if isLimited { made?.unlimit() }
      isLimited = false
      return
    }
    func fail(_ why: String) {
      lack = support.lack(limit, why)
      made?.unlimit()
      isLimited = false
    }
    let devices = support.devices
    guard !devices.isEmpty else { return fail(support.noDevices) }
    if made == nil {
      made = StorageGroup.make(key: key, name: name, group: controlGroup, root: support.blkio)
    }
    guard let made else { return fail(StorageSupport.noGroup) }
    if let why = made.limit(to: rate, devices, members: members) { return fail(why) }
    isLimited = true
  }

  /// As without a host.
  func lift(_ members: [pid_t]) {
    made?.giveBack(members)
    (made, isLimited, lack) = (nil, false, nil)
  }
}
