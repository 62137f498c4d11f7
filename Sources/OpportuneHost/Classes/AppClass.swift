internal import COpportuneHost
internal import Glibc
internal import OpportuneBase

/// The kernel's classes of one app: a share of the CPU by its group where that may be, else a class of each
/// thread; of I/O a class of each thread in both cases.
///
/// Used by one thread at a time.
final class AppClass {
  private let share: CPUShare?
  /// What it was found with, and gets back.
  private let found: opp_host_class
  /// The session's share of the CPU is lowered too where the session is the app's own.
  private let autogroup: String?
  private var isBackground = false

  /// - Parameter members: all processes of the app; asked until there are none that were not moved.
  init(_ pid: pid_t, share: CPUShare?, of members: () -> [pid_t]) {
    self.share = share?.adopt(pid) == 0 ? share : nil
    self.share?.adopt(all: members)
    var found = opp_host_class()
    if opp_host_class_get(pid, &found) != 0 || found.policy == SCHED_FIFO || found.policy == SCHED_RR {
      found = opp_host_class(policy: SCHED_OTHER, nice: 0, io: 0)
    }
    // Of a host that has ended before it could put back what it had set.
    let idle = opp_host_class_idle()
    if found.policy == idle.policy, found.nice == idle.nice, found.io == idle.io {
      found = opp_host_class(policy: SCHED_OTHER, nice: 0, io: 0)
    }
    self.found = found
    let isLeader = ProcessStat(of: pid)?.session == pid
    autogroup = isLeader && SystemFile.exists("/proc/\(pid)/autogroup") ? "/proc/\(pid)/autogroup" : nil
  }

  /// - Returns: what was refused, for people.
  func set(isBackground: Bool, of members: () -> [pid_t]) -> [String] {
    self.isBackground = isBackground
    var notes: [String] = []
    let error = share?.set(isBackground: isBackground) ?? 0
    if error != 0 { notes.append("its share of the CPU could not be changed: \(errorText(error))") }
    if share == nil, let autogroup { _ = SystemFile.write(isBackground ? "19" : "0", to: autogroup) }
    let refused = setThreads(of: members)
    if refused > 0 {
      notes.append(
        isBackground
          ? "\(refused) of its threads could not be lowered"
          : "\(refused) of its threads could not be raised again, which needs CAP_SYS_NICE or RLIMIT_NICE")
    }
    return notes
  }

  /// Repeats until a pass finds nothing to change: a thread may have started another meanwhile.
  private func setThreads(of members: () -> [pid_t]) -> Int {
    var refused: Set<pid_t> = []
    for _ in 0..<20 {
      var hasChanged = false
      for pid in members() {
        for thread in ProcessTable.threads(of: pid) where !refused.contains(thread) {
          switch change(thread) {
          case .some(0): hasChanged = true
          case .some(EPERM): refused.insert(thread)
          default: break
          }
        }
      }
      if !hasChanged { break }
    }
    return refused.count
  }

  /// - Returns: `nil` where there was nothing to change; 0, or the number of the error.
  private func change(_ thread: pid_t) -> Int32? {
    var now = opp_host_class()
    guard opp_host_class_get(thread, &now) == 0 else { return nil }
    let idle = opp_host_class_idle()
    var wanted = now
    if isBackground {
      // Real-time threads are audio's, as a rule, and few: they keep theirs.
      // 6 is SCHED_DEADLINE, which Glibc does not export.
      if share == nil, now.policy != SCHED_FIFO, now.policy != SCHED_RR, now.policy != 6 {
        (wanted.policy, wanted.nice) = (idle.policy, idle.nice)
      }
      wanted.io = idle.io
    } else {
      // What the program has set itself is left alone.
      if now.policy == idle.policy, now.nice == idle.nice {
        (wanted.policy, wanted.nice) = (found.policy, found.nice)
      }
      if now.io == idle.io { wanted.io = found.io }
    }
    guard wanted.policy != now.policy || wanted.nice != now.nice || wanted.io != now.io else { return nil }
    return -opp_host_class_set(thread, &wanted)
  }

  /// Runs `body`, which stops everything, with the share of an app in front: a thread has to run to stop, and
  /// in the idle class it may wait for a CPU for a second.
  func hurrying<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
    guard isBackground, let share, share.set(isBackground: false) == 0 else { return try body() }
    defer { _ = share.set(isBackground: true) }
    try body()
  }

  /// As it would be without a host.
  func giveBack(_ members: () -> [pid_t]) {
    _ = set(isBackground: false, of: members)
    share?.giveBack(members())
  }

  func remove() { share?.remove() }
}
