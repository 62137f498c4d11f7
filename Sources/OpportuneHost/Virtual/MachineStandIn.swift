internal import Glibc
internal import OpportuneApps

/// What stands in for the machine where the host's core is tried without processes: a clock that is moved by
/// hand, and programs that are made up. See ``VirtualPrograms``.
struct MachineStandIn {
  let now: () -> Moment
  /// Starts a program of this name.
  let start: (String) -> any ProcessGroup
}

/// The processes of an app of which there are none.
final class VirtualGroup: ProcessGroup {
  /// Above all that the kernel gives.
  static let firstPid: pid_t = 1 << 23

  let cgroup: String? = nil
  private(set) var pid: pid_t?
  private(set) var isFrozen = false
  /// Whether it was asked to end.
  private(set) var isAskedToEnd = false

  init(_ pid: pid_t) { self.pid = pid }

  func adopt(_ pid: pid_t) throws(ProcessHostError) {}
  func adopt(tree root: ProcessStat) throws(ProcessHostError) {}
  var unmarked: [ProcessID] { [] }
  func members(by look: ProcessLook) -> [pid_t] { pid.map { [$0] } ?? [] }
  func freeze(within limit: Duration) throws(ProcessHostError) { isFrozen = true }
  func thaw() throws(ProcessHostError) { isFrozen = false }
  func signal(_ number: Int32) { isAskedToEnd = isAskedToEnd || number == SIGTERM }
  func kill() throws(ProcessHostError) { pid = nil }
  func cpuTime(by look: ProcessLook) -> Duration { .zero }
  func remove() {}

  /// It ends by itself.
  func exit() { pid = nil }
}
