internal import Glibc

/// Some processes and all that descends from them, as one look at all processes after another shows it.
///
/// Parents tell who descends from whom until they end; then the kernel gives their children to another. So
/// the sessions that members lead count as well: nobody enters a session but by birth.
struct ProcessTree {
  private(set) var known: Set<ProcessID>
  /// Sessions whose leaders are members, or were.
  private var led: Set<pid_t> = []

  /// Never added, whatever session they are in: this process, and those above it.
  private let spared: Set<pid_t>

  init(
    _ known: Set<ProcessID> = [],
    sparing spared: Set<pid_t> = Set([getpid()] + ProcessTable.ancestors(of: getpid()))
  ) {
    self.known = known
    self.spared = spared
  }

  /// Adds those who descend from the members.
  ///
  /// - Parameters:
  ///   - all: all processes of a look.
  ///   - orphansSince: where this is given, whoever has started since then, in ticks since the machine's
  /// start,     in a member's process group, and has lost its parent is added: as a rule a member has made
  /// it. For a     short time only, since another tree of the same group may lose processes too.
  /// - Returns: those that were not known.
  @discardableResult mutating func look(at all: [ProcessStat], orphansSince: UInt64? = nil) -> [ProcessStat] {
    known.formIntersection(all.map(\.id))
    let byPid = Dictionary(all.map { ($0.pid, $0) }, uniquingKeysWith: { first, _ in first })
    // The number of a session that is gone may be another's.
    let sessions = Set(all.map(\.session))
    led = led.filter { id in sessions.contains(id) && byPid[id].map { known.contains($0.id) } != false }
    var pids = Set(known.map(\.pid))
    var groups: Set<pid_t> = []
    for one in all where known.contains(one.id) {
      groups.insert(one.group)
      if one.session == one.pid { led.insert(one.pid) }
    }
    func isOrphan(_ one: ProcessStat) -> Bool {
      guard let since = orphansSince, one.id.started >= since, groups.contains(one.group) else {
        return false
      }
      // Born in the session of its first parent.
      return one.parent <= 1 || byPid[one.parent].map { $0.session != one.session } != false
    }
    var found: [ProcessStat] = []
    // A parent may come later in the list than its child.
    var hasGrown = true
    while hasGrown {
      hasGrown = false
      for one in all where !known.contains(one.id) && !spared.contains(one.pid) {
        guard pids.contains(one.parent) || led.contains(one.session) || isOrphan(one) else { continue }
        known.insert(one.id)
        pids.insert(one.pid)
        groups.insert(one.group)
        if one.session == one.pid { led.insert(one.pid) }
        found.append(one)
        hasGrown = true
      }
    }
    return found
  }

  mutating func forgetEnded(by look: ProcessLook) { known = known.filter { look.byID[$0] != nil } }

  mutating func insert(_ id: ProcessID) { known.insert(id) }
}
