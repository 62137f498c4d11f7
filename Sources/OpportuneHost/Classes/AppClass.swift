internal import COpportuneHost
internal import Glibc
internal import OpportuneBase

/// The kernel's classes of one app: shares of the CPU and of storage by its group where that may be, else
/// classes of each thread.
///
/// Used by one thread at a time.
final class AppClass {
  private let share: CPUShare?
  private let storage: StorageShare?
  /// What its first process was found with, for threads that began in background.
  private let found: opp_host_class
  private let foundIO: Int32
  /// What each thread had before it was lowered, and gets back.
  private var before: [pid_t: opp_host_class] = [:]
  private var beforeIO: [pid_t: Int32] = [:]
  /// Whether who is idle is so by its own choice: as it comes to background, unless a host had lowered it.
  private var keepsIdle = false
  private var isLeft: Bool
  /// The session's share of the CPU is lowered too where the session is the app's own; with what it had.
  private let autogroup: (file: String, nice: String)?
  private var isBackground = false

  /// - Parameters:
  ///   - pid: the app's first process.
  ///   - shares: whether control groups are used.
  ///   - key: of the host.
  ///   - name: of the app.
  ///   - group: all its processes.
  ///   - isLeft: whether it has what a host had set, which could not put it back: one before, or this one
  ///     before its checkpoint.
  init(_ pid: pid_t, shares: Bool, key: String, name: String, group: any ProcessGroup, isLeft: Bool) {
    let controlGroup = group as? ControlGroup
    let share = shares ? CPUShare(key: key, name: name, group: controlGroup) : nil
    self.share = share?.adopt(pid) == 0 ? share : nil
    self.share?.adopt(all: group.members)
    storage = shares ? controlGroup.flatMap { StorageShare(key: key, name: name, group: $0) } : nil
    self.isLeft = isLeft
    let ordinary = opp_host_class(policy: SCHED_OTHER, nice: 0)
    var found = opp_host_class()
    if opp_host_class_get(pid, &found) != 0 || found.policy == SCHED_FIFO || found.policy == SCHED_RR {
      found = ordinary
    }
    let idle = opp_host_class_idle()
    self.found = isLeft && found.policy == idle.policy && found.nice == idle.nice ? ordinary : found
    var foundIO: Int32 = 0
    if opp_host_io_class_get(pid, &foundIO) != 0 || isLeft && foundIO == opp_host_io_class_idle() {
      foundIO = 0
    }
    self.foundIO = foundIO
    let isLeader = ProcessStat(of: pid)?.session == pid
    let file = "/proc/\(pid)/autogroup"
    // As `/autogroup-25 nice 0`.
    let nice = isLeader ? SystemFile.text(file)?.split(whereSeparator: \.isWhitespace).last : nil
    autogroup = nice.map { (file, isLeft && $0 == "19" ? "0" : String($0)) }
  }

  /// - Returns: what was refused, for people.
  func set(isBackground: Bool, of members: () -> [pid_t]) -> [String] {
    keepsIdle = isBackground && !self.isBackground && !isLeft
    (self.isBackground, isLeft) = (isBackground, false)
    var notes: [String] = []
    for (what, error) in [
      ("the CPU", share?.set(isBackground: isBackground)),
      ("storage", storage?.set(isBackground: isBackground)),
    ] {
      guard let error, error != 0 else { continue }
      notes.append("its share of \(what) could not be changed: \(errorText(error))")
    }
    if share == nil, let autogroup {
      _ = SystemFile.write(isBackground ? "19" : autogroup.nice, to: autogroup.file)
    }
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
    // Some kernels derive a class of I/O from that of the CPU, so it is asked for first.
    let changes = (storage?.hasClass == true ? [] : [changeIO]) + (share == nil ? [changeCPU] : [])
    guard !changes.isEmpty else { return 0 }
    var refused: Set<pid_t> = []
    for _ in 0..<20 {
      var hasChanged = false
      for pid in members() {
        for thread in ProcessTable.threads(of: pid) where !refused.contains(thread) {
          for change in changes {
            switch change(thread) {
            case .some(0): hasChanged = true
            case .some(EPERM): refused.insert(thread)
            default: break
            }
          }
        }
      }
      if !hasChanged { break }
      keepsIdle = false
    }
    // Numbers of threads that have ended come again.
    if !isBackground { (before, beforeIO) = ([:], [:]) }
    return refused.count
  }

  /// What the program has set itself is left alone.
  ///
  /// - Returns: `nil` where there was nothing to change; 0, or the number of the error.
  private func changeCPU(_ thread: pid_t) -> Int32? {
    var now = opp_host_class()
    guard opp_host_class_get(thread, &now) == 0 else { return nil }
    let idle = opp_host_class_idle()
    let isIdle = now.policy == idle.policy && now.nice == idle.nice
    if keepsIdle, isIdle { before[thread] = now }
    guard isIdle != isBackground else { return nil }
    // Real-time threads are audio's, as a rule, and few: they keep theirs.
    // 6 is SCHED_DEADLINE, which Glibc does not export.
    if [SCHED_FIFO, SCHED_RR, 6].contains(now.policy) { return nil }
    if isBackground { before[thread] = now }
    var wanted = isBackground ? idle : before.removeValue(forKey: thread) ?? found
    guard wanted.policy != now.policy || wanted.nice != now.nice else { return nil }
    return -opp_host_class_set(thread, &wanted)
  }

  /// The same.
  private func changeIO(_ thread: pid_t) -> Int32? {
    var now: Int32 = 0
    guard opp_host_io_class_get(thread, &now) == 0 else { return nil }
    let idle = opp_host_io_class_idle()
    if keepsIdle, now == idle { beforeIO[thread] = now }
    guard (now == idle) != isBackground else { return nil }
    if isBackground { beforeIO[thread] = now }
    let wanted = isBackground ? idle : beforeIO.removeValue(forKey: thread) ?? foundIO
    return now == wanted ? nil : -opp_host_io_class_set(thread, wanted)
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
