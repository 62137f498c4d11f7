internal import COpportuneHost
internal import Glibc
internal import OpportuneMemory

/// Tells when a control group of version 1 that has a limit comes close to it: by an event of the kernel, so
/// that nothing is polled.
///
/// The kernel ends processes of such a group before the machine's pressure tells of anything, so the group's
/// own words are needed: when its use crosses a share of the limit, or grows beyond, and when it must reclaim
/// with little success, as where files' pages fill it up to the limit anyway. Either is a reason to look, and
/// use without the pages that can be dropped decides.
package final class GroupPressure: Sendable {
  /// Of the limit: from there on memory is short.
  static let share = 0.9

  let descriptor: Int32
  let folder: String

  /// For the host's own group and those above it, which hold its apps as well.
  ///
  /// - Parameter say: is told what is missing, for people.
  package static func all(say: (String) -> Void) -> [GroupPressure] {
    guard let group = MachineMemory.system.cgroups().first(where: { $0.version == .one }) else { return [] }
    var found: [GroupPressure] = []
    var path = group.path
    while true {
      do throws(ProcessHostError) {
        if let one = try GroupPressure(folder: group.point + path) { found.append(one) }
      } catch { say(error.message) }
      guard let slash = path.lastIndex(of: "/") else { return found }
      path = String(path[..<slash])
    }
  }

  /// - Returns: `nil` where the group has no limit.
  /// - Throws: ``ProcessHostError``: `system` where the kernel refuses.
  init?(folder: String) throws(ProcessHostError) {
    guard let reading = MachineMemory.reading(.one, folder) else { return nil }
    self.folder = folder
    descriptor = opp_host_event_open()
    let what = "no warnings of the limit of '\(folder)'"
    guard descriptor >= 0 else { throw ProcessHostError(.system(what, -descriptor)) }
    // Several, since at the first one what is counted as in use may still be behind, or have pages in it that
    // can be dropped: the next tells that it has grown.
    let thresholds = stride(from: Self.share, to: 1, by: 0.01).map {
      ("memory.usage_in_bytes", "\(UInt64(Double(reading.capacity) * $0))")
    }
    for (file, when) in thresholds + [("memory.pressure_level", "medium")] {
      let number = Self.register(descriptor, "\(folder)/\(file)", when, "\(folder)/cgroup.event_control")
      // Not every kernel has the second file, and the first tells of most.
      if number != 0, file == "memory.usage_in_bytes" { throw ProcessHostError(.system(what, number)) }
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// - Returns: 0, or the number of the error.
  private static func register(_ event: Int32, _ path: String, _ when: String, _ control: String) -> Int32 {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return errno }
    defer { close(file) }
    return SystemFile.write("\(event) \(file) \(when)", to: control)
  }

  /// Takes what has come.
  func take() { opp_host_event_take(descriptor) }

  /// Whether it is close to its limit now.
  var isShort: Bool {
    guard let reading = MachineMemory.reading(.one, folder) else { return false }
    return Double(reading.inUse) >= Double(reading.capacity) * Self.share
  }
}
