internal import Glibc

/// The processes of one app where there are no control groups: found in /proc, and stopped by signals.
///
/// A member is who was taken in, who carries the app's mark in the environment that it started with, which
/// children inherit across any number of forks and sessions, and whoever descends from these. Who once was a
/// member stays one. A program that clears its environment, and whose parents have all ended before anyone
/// looked, is not found: this is the limit of what works without privileges.
final class SignalledGroup: ProcessGroup {
  /// In the environment of each member: `OPPORTUNE_APP=KEY:NAME:NUMBER`.
  let mark: String
  private var tree = ProcessTree()
  private var known: Set<ProcessID> { tree.known }
  private let marks: MarkTable
  /// Stopped here. Who had been stopped before stays so when the group is thawed.
  private var stopped: Set<ProcessID> = []
  /// While a tree is taken.
  private var orphansSince: UInt64?
  private var ticksOfEnded: UInt64 = 0
  private var ticks: [ProcessID: UInt64] = [:]
  private let warden: Warden?
  /// Of those that carry the mark or were known, who is a member; `nil`: all are, and all that descend from
  /// them.
  private let choose: (([pid_t]) -> [pid_t])?
  /// Of the latest look.
  private(set) var found: [ProcessID] = []
  /// Of these, who lives.
  var foundMembers: [pid_t] {
    found.compactMap { id in ProcessStat(of: id.pid).flatMap { $0.id == id && !$0.hasEnded ? id.pid : nil } }
  }

  /// The name of the variable that holds the mark.
  static let variable = "OPPORTUNE_APP"

  /// - Parameter marks: that the host has read.
  init(
    mark: String, warden: Warden?, marks: MarkTable = MarkTable(),
    choosing choose: (([pid_t]) -> [pid_t])? = nil
  ) {
    (self.mark, self.warden, self.marks, self.choose) = (mark, warden, marks, choose)
  }

  var cgroup: String? { nil }

  /// An exec may bring the mark, or take it away: all that are known.
  var unmarked: [ProcessID] { known.sorted { ($0.pid, $0.started) < ($1.pid, $1.started) } }

  /// Takes in what a host before had known.
  func insert(_ ids: [ProcessID]) { for id in ids { tree.insert(id) } }

  func adopt(_ pid: pid_t) throws(ProcessHostError) {
    guard let status = ProcessStat(of: pid), !status.hasEnded else {
      throw ProcessHostError(.process(pid, "it has ended"))
    }
    tree.insert(status.id)
  }

  func adopt(tree root: ProcessStat) throws(ProcessHostError) {
    let began = ProcessTable.all().map(\.id.started).max() ?? 0
    orphansSince = began
    defer { orphansSince = nil }
    tree.insert(root.id)
    let first = Set(look().map(\.id))
    guard !first.isEmpty else { throw ProcessHostError(.process(root.pid, "it has ended")) }
    // It forks: stopped, all of it is found.
    guard (0..<2).contains(where: { _ in look().contains { !first.contains($0.id) } }) else { return }
    // Who does not stop in time, as one that waits for a disk, is known by then all the same.
    try? freeze(within: .seconds(1))
    thaw()
  }

  func members(by look: ProcessLook) -> [pid_t] { self.look(look).map(\.pid) }

  /// By a new look.
  func foundAnew() -> [ProcessID] { look().map(\.id) }

  /// One pass over all processes.
  private func look(_ look: ProcessLook = ProcessLook()) -> [ProcessStat] {
    for (id, used) in ticks where look.byID[id] == nil {
      ticksOfEnded &+= used
      ticks[id] = nil
    }
    stopped = stopped.filter { look.byID[$0] != nil }
    for id in look.marked(mark, by: marks) { tree.insert(id) }
    if choose == nil {
      tree.look(at: look.all, orphansSince: orphansSince)
    } else {
      tree.forgetEnded(by: look)
    }
    var members = known.compactMap { look.byID[$0] }.filter { !$0.hasEnded }.sorted { $0.pid < $1.pid }
    if let choose {
      let chosen = Set(choose(members.map(\.pid)))
      members.removeAll { !chosen.contains($0.pid) }
    }
    found = members.map(\.id)
    for one in members { ticks[one.id] = one.ticks }
    return members
  }

  /// That a process carries; empty: none. `nil` in the middle of an exec, in which the new environment is not
  /// there yet.
  static func mark(of process: ProcessStat) -> String? {
    let environment = process.isOfKernel || process.hasEnded ? nil : environment(of: process.pid)
    return environment == [] ? nil : environment.flatMap(mark(in:)) ?? ""
  }

  /// With which a process started; `nil` where it is another user's, or there is no such process.
  private static func environment(of pid: pid_t) -> [UInt8]? { SystemFile.bytes("/proc/\(pid)/environ") }

  /// That a process carries; `nil` where there is none, or it is another user's.
  static func mark(of pid: pid_t) -> String? { environment(of: pid).flatMap(mark(in:)) }

  /// `nil` where there is none.
  private static func mark(in environment: [UInt8]) -> String? {
    let start = Array("\(variable)=".utf8)
    for entry in environment.split(separator: 0) where entry.starts(with: start) {
      return String(decoding: entry.dropFirst(start.count), as: UTF8.self)
    }
    return nil
  }

  func freeze(within limit: Duration) throws(ProcessHostError) {
    let end = ContinuousClock.now + limit
    var cleanPasses = 0
    var late: [pid_t] = []
    /// Who is another user's by now may not be signalled, and stays running.
    var refused: Set<ProcessID> = []
    while ContinuousClock.now < end || cleanPasses == 0 {
      let members = look()
      let new = members.filter {
        !$0.isStopped && !stopped.contains($0.id) && !refused.contains($0.id)
      }
      for one in new {
        warden?.willStop(one.pid)
        let error = one.id.signal(SIGSTOP)
        if error == 0 { stopped.insert(one.id) }
        if error == EPERM { refused.insert(one.id) }
        if error != 0 { warden?.hasContinued(one.pid) }
      }
      // Two passes, since a child may have come into the world behind the back of the first.
      cleanPasses = new.isEmpty ? cleanPasses + 1 : 0
      late = members.filter { !ProcessTable.hasStopped($0.pid) }.map(\.pid)
      if cleanPasses >= 2, late.isEmpty { return }
      // By vfork() a parent waits in the kernel for its child's exec, which must not be stopped until then.
      let waiting = Set(ContinuousClock.now < end ? late.filter(ProcessTable.isInKernel) : [])
      for one in members where waiting.contains(one.parent) && stopped.contains(one.id) {
        one.id.signal(SIGCONT)
        stopped.remove(one.id)
        cleanPasses = 0
      }
      // Time to get there, on a machine that has other work; a wait for a disk is not waited for here.
      for _ in 0..<50 where ContinuousClock.now < end && waiting.contains(where: ProcessTable.isInKernel) {
        usleep(200)
      }
      // Somebody else has continued it.
      for one in members where late.contains(one.pid) && stopped.contains(one.id) { one.id.signal(SIGSTOP) }
      if cleanPasses >= 2 { usleep(200) }
      if ContinuousClock.now >= end, cleanPasses > 0 { break }
    }
    throw ProcessHostError(.notStopped(late, after: limit))
  }

  func thaw() {
    for one in stopped { one.signal(SIGCONT) }
    for one in stopped { warden?.hasContinued(one.pid) }
    stopped = []
  }

  /// Continues whatever of the app is stopped, by whomever: nobody knows any more.
  func thawAll() { for one in look() where one.isStopped { one.id.signal(SIGCONT) } }

  func signal(_ number: Int32) { for one in look() { one.id.signal(number) } }

  func kill() throws(ProcessHostError) {
    // A stopped parent starts nothing more. One that cannot stop is killed all the same.
    try? freeze(within: .milliseconds(200))
    var cleanPasses = 0
    for _ in 0..<1000 where cleanPasses < 2 {
      let members = look()
      let mayNot = members.filter { $0.id.signal(SIGKILL) == EPERM }
      cleanPasses = members.count == mayNot.count ? cleanPasses + 1 : 0
      if !members.isEmpty { usleep(500) }
    }
    for one in stopped { warden?.hasContinued(one.pid) }
    stopped = []
  }

  func cpuTime(by look: ProcessLook) -> Duration {
    let members = self.look(look)
    let total = members.reduce(ticksOfEnded) { $0 &+ $1.ticks }
    return .seconds(Double(total) / Double(max(1, sysconf(Int32(_SC_CLK_TCK)))))
  }

  func remove() {}

  /// What a host of this key has left, continued.
  ///
  /// - Parameter recorded: what it has written down, by mark, of apps whose control group is not there.
  static func sweep(key: String, recorded: [String: HostRecord.Entry] = [:], warden: Warden?) -> [Leftover] {
    var groups: [String: SignalledGroup] = [:]
    for pid in ProcessTable.pids() {
      guard let mark = mark(of: pid), mark.hasPrefix(key + ":"), groups[mark] == nil
      else { continue }
      groups[mark] = SignalledGroup(mark: mark, warden: warden)
    }
    for (mark, entry) in recorded where mark.hasPrefix(key + ":") {
      let group = groups[mark] ?? SignalledGroup(mark: mark, warden: warden)
      group.insert(entry.known.compactMap { $0.living?.id })
      groups[mark] = group
    }
    return groups.compactMap { mark, group in
      group.thawAll()
      let name = mark.split(separator: ":", omittingEmptySubsequences: false).dropFirst().first
      guard let name, !group.members().isEmpty else { return nil }
      return Leftover(name: String(name), group: group, mark: mark)
    }
  }
}
