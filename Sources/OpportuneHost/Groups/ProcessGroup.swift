internal import Glibc

/// The processes of one app, as a whole: what its effects are carried out on.
///
/// Used by one thread at a time.
protocol ProcessGroup: AnyObject {
  /// The control group, as a path for people; `nil` where there is none.
  var cgroup: String? { get }

  /// Takes a process in, and all that it starts from then on.
  func adopt(_ pid: pid_t) throws(ProcessHostError)

  /// Takes a process in with all that descends from it, also where that forks meanwhile: then it is stopped
  /// until nothing new is found.
  ///
  /// - Throws: ``ProcessHostError``; then none of them is a member.
  func adopt(tree root: ProcessStat) throws(ProcessHostError)

  /// What is not as in other groups, for people.
  var notes: [String] { get }

  /// Those that the next host would not find without being told.
  var unmarked: [ProcessID] { get }

  /// The processes that have not ended.
  func members() -> [pid_t]

  /// The same, where they are looked for by that look.
  func members(by look: ProcessLook) -> [pid_t]

  /// Stops all of them, those included that appear meanwhile. When this returns, none executes.
  ///
  /// - Throws: ``ProcessHostError``: `notStopped` where some did not in time, as those that wait for a disk;
  ///   they will stop all the same.
  func freeze(within limit: Duration) throws(ProcessHostError)

  /// Lets them go on.
  func thaw() throws(ProcessHostError)

  /// Sends a signal to all of them.
  func signal(_ number: Int32)

  /// Ends all of them at once, stopped or not, those included that appear meanwhile.
  func kill() throws(ProcessHostError)

  /// CPU time of the group, that of ended members included as far as it is known.
  func cpuTime(by look: ProcessLook) -> Duration

  /// Deletes what was made for the group; it has no members any more.
  func remove()
}

extension ProcessGroup {
  var notes: [String] { [] }

  func members() -> [pid_t] { members(by: ProcessLook()) }
}

/// How groups are made.
package enum Backend: String, Sendable, Hashable, CaseIterable {
  /// Control groups of version 2 where they may be used, else signals.
  case auto
  /// Control groups of version 2: freezing and killing are the kernel's.
  case cgroup
  /// SIGSTOP, SIGCONT and SIGKILL to all processes of the tree; needs no privilege.
  case signals
}

/// A group with members that a host before this one has left.
struct Leftover {
  let name: String
  let group: any ProcessGroup
  /// As its host had written it down, or its processes carry it; `nil`: neither.
  var mark: String?
}
