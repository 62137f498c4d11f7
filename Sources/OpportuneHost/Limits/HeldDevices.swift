internal import COpportuneHost
internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// Devices that processes have open. The kernel takes none away: what is open stays of use.
package enum HeldDevices {
  /// What becomes of an app in background that has a device open which it may not open there.
  package enum Answer: String, Sendable, Hashable, CaseIterable {
    /// Lists name the device.
    case tell
    /// It is suspended.
    case suspend
    /// It is terminated.
    case terminate
  }

  private struct Held: Hashable {
    let hardware: Hardware
    let path: String
  }

  /// - Returns: what is of `list`, sorted, each once.
  private static func look(at pids: [pid_t], _ list: DeviceList) -> [Held] {
    var found: Set<Held> = []
    for pid in pids {
      let folder = "/proc/\(pid)/fd"
      for name in SystemFile.names(in: folder) {
        // Not what has no name, as sockets and pipes.
        guard let path = SystemFile.target(of: folder + "/" + name), path.hasPrefix("/"),
          let device = DeviceList.Device(of: folder + "/" + name), let hardware = list.hardware(of: device)
        else { continue }
        found.insert(Held(hardware: hardware, path: path))
      }
    }
    return found.sorted { ($0.hardware, $0.path) < ($1.hardware, $1.path) }
  }

  /// What of `list` they have open, for people; `nil`: nothing.
  ///
  /// - Parameter list: `nil`: nothing is taken from them.
  static func text(of pids: [pid_t], _ list: DeviceList?) -> String? {
    list.flatMap { text(look(at: pids, $0)) }
  }

  private static func text(_ held: [Held]) -> String? {
    guard !held.isEmpty else { return nil }
    let shown = held.prefix(5).map { "\($0.hardware) ('\($0.path.printable)')" }
    let more = held.count > shown.count ? " and \(held.count - shown.count) more" : ""
    return "it has open what background may not open: \(shown.joined(separator: ", "))\(more)"
  }
}

extension DeviceList.Device {
  /// The device that a path leads to; `nil` where that is none.
  fileprivate init?(of path: String) {
    var found = opp_host_device()
    guard opp_host_device_at(path, &found) == 0 else { return nil }
    self.init(isBlock: found.is_block != 0, major: found.major, minor: found.minor)
  }
}
