internal import Glibc

/// What a machine has to hold background to a rate at its block devices.
package struct StorageSupport: Sendable {
  /// Where the controller `blkio` of version 1 is mounted; `nil`: nowhere.
  let blkio: String?
  /// Has a folder for each block device.
  let blocks: String

  static var system: StorageSupport {
    StorageSupport(blkio: ControllerGroup.mount(of: "blkio"), blocks: "/sys/block")
  }

  static let noGroup =
    "that needs control groups with the controller io (version 2) or blkio (version 1) that may be written"
  var noDevices: String { "there is no block device in '\(blocks)'" }

  /// Those by now, as `MAJOR:MINOR`.
  var devices: [String] { BlockDevices.physical(in: blocks) }

  func lack(_ limit: StorageLimit, _ why: String) -> LimitLack {
    LimitLack(what: "reading and writing more than \(limit) a second", why: why)
  }

  /// Nothing is changed.
  ///
  /// - Parameter group: the host's own of version 2, out of which it has moved if it could; `nil`: its apps
  ///   have none.
  /// - Returns: why apps of this process could not be held to a rate; `nil`: they could.
  func lack(_ limit: StorageLimit, inGroup group: String?) -> LimitLack? {
    lack(inGroup: group).map { lack(limit, $0) }
  }

  /// Nothing is changed.
  ///
  /// - Returns: why this process could not, for people; `nil`: it could.
  package static func lack() -> String? {
    system.lack(inGroup: ControlGroupTree.ownGroup(), ours: [getpid()])
  }

  /// - Parameters:
  ///   - group: the host's own of version 2; `nil`: its apps have none.
  ///   - ours: who would move out of it.
  func lack(inGroup group: String?, ours: Set<pid_t> = []) -> String? {
    if devices.isEmpty { return noDevices }
    if let group, handsDown(group, ours) { return nil }
    if let blkio, access(blkio, W_OK) == 0 { return nil }
    return Self.noGroup
  }

  /// Whether groups below one of version 2 may have the controller.
  private func handsDown(_ group: String, _ ours: Set<pid_t>) -> Bool {
    let state = HostLeaf.look(at: group)
    guard access(group, W_OK) == 0, state.controllers.contains("io") else { return false }
    // But for the first of all, a group with processes of its own begins with none.
    return state.handedDown.contains("io") || state.isFirst || state.members.isSubset(of: ours)
  }
}
