internal import Glibc
internal import OpportuneBase

/// The group in which the host itself is, below its own: a leaf.
///
/// A group of version 2 with processes of its own hands no controller down ("no internal processes",
/// cgroups(7)), but for the first of all. So where nobody else is in the host's group, as in a systemd unit
/// with `Delegate=yes`, the host moves out of it before it hands controllers down to its apps, and back
/// when it ends: systemd starts the next one in the unit's group, which a group that hands controllers down
/// refuses.
///
/// Used by one thread at a time.
final class HostLeaf {
  /// Not that of any group that another would make: who is in one of this name is taken to be a host.
  static let name = "opportune-host"
  /// What apps are limited by.
  static let controllers: Set<String> = ["cpu", "io", "memory"]

  /// What the kernel tells of a group.
  struct State: Hashable {
    /// Of all groups: it may hand down what it likes.
    var isFirst = false
    var controllers: Set<String>
    var handedDown: Set<String> = []
    var members: Set<pid_t>
  }

  enum Plan: Hashable {
    /// Nobody is in the way, or there is nothing to be handed down.
    case stay
    case move([pid_t])
    /// These are others', and in the way.
    case blocked([pid_t])
  }

  /// Whether controllers could be handed down is not tried: with `cpu` alone a group with members may, which
  /// makes those below it invalid.
  ///
  /// - Parameter ours: the processes of this host.
  static func plan(_ state: State, wanted: Set<String> = controllers, ours: Set<pid_t>) -> Plan {
    guard !state.isFirst, !state.controllers.isDisjoint(with: wanted), !state.members.isDisjoint(with: ours)
    else { return .stay }
    let others = state.members.subtracting(ours)
    return others.isEmpty ? .move(state.members.sorted()) : .blocked(others.sorted())
  }

  /// What is missing, for people; `nil`: nothing.
  private(set) var note: String?
  private let own: String
  private let tree: String
  private let wanted: Set<String>
  private let ours: Set<pid_t>
  /// What the host's group hands down by somebody else's word.
  private let handedDownBefore: Set<String>

  private var leaf: String { own + "/" + Self.name }

  /// Moves the host out of its group where that is needed.
  ///
  /// - Parameters:
  ///   - own: the host's own group.
  ///   - tree: of the groups of its apps, two below.
  ///   - ours: the processes of this host.
  init(below own: String, tree: String, wanted: Set<String> = controllers, ours: Set<pid_t>) {
    (self.own, self.tree, self.wanted, self.ours) = (own, tree, wanted, ours)
    let state = Self.look(at: own)
    // A host that was killed has left its leaf, and what it had handed down.
    handedDownBefore = SystemFile.exists(own + "/" + Self.name) ? [] : state.handedDown
    switch Self.plan(state, wanted: wanted, ours: ours) {
    case .stay: break
    case .blocked(let others):
      let list = others.prefix(5).map(String.init).joined(separator: ", ") + (others.count > 5 ? ", …" : "")
      tell("other processes are in it (\(list))")
    case .move(let pids): enter(pids)
    }
  }

  static func look(at group: String) -> State {
    func words(_ file: String) -> Set<String> {
      let text = SystemFile.text(group + "/" + file) ?? ""
      return Set(text.split { $0 == " " || $0 == "\n" }.map(String.init))
    }
    let members = ControlGroup.processes(in: group).filter { ProcessStat(of: $0)?.hasEnded == false }
    return State(
      isFirst: !SystemFile.exists(group + "/cgroup.type"), controllers: words("cgroup.controllers"),
      handedDown: words("cgroup.subtree_control"), members: Set(members))
  }

  private func tell(_ why: String) {
    note = "the group '\(own)' hands no CPU, memory or storage controller down to apps: \(why)"
  }

  private func enter(_ pids: [pid_t]) {
    guard mkdir(leaf, 0o755) == 0 || errno == EEXIST else {
      return tell("the group '\(leaf)' could not be made: \(errorText(errno))")
    }
    for pid in pids {
      let error = SystemFile.write("\(pid)", to: leaf + "/cgroup.procs")
      // Whoever has ended is in nobody's way.
      guard error != 0, error != ESRCH else { continue }
      tell("process \(pid) could not be moved to '\(leaf)': \(errorText(error))")
      for moved in pids { _ = SystemFile.write("\(moved)", to: own + "/cgroup.procs") }
      ControlGroup(path: leaf).remove()
      return
    }
  }

  /// Takes back what was handed down, and moves the host back into its group.
  func leave() {
    guard SystemFile.exists(own + "/cgroup.type") else { return }
    // Another host of the same group: what it has handed down stays, and so does the leaf. A host that was
    // killed may still be on its way out.
    var others = othersInLeaf()
    for _ in 0..<100 where !others.isEmpty {
      usleep(200)
      others = othersInLeaf()
    }
    guard others.isEmpty else { return }
    // From below: a group hands down what groups below it hand on.
    let folders = [tree, String(tree[..<(tree.lastIndex(of: "/") ?? tree.endIndex)]), own]
    for folder in folders {
      let state = Self.look(at: folder)
      let mine = folder == own ? state.handedDown.subtracting(handedDownBefore) : state.handedDown
      for one in mine.intersection(wanted).sorted() {
        _ = SystemFile.write("-\(one)", to: folder + "/cgroup.subtree_control")
      }
    }
    guard SystemFile.exists(leaf) else { return }
    for pid in ControlGroup.processes(in: leaf) where ours.contains(pid) {
      _ = SystemFile.write("\(pid)", to: own + "/cgroup.procs")
    }
    ControlGroup(path: leaf).remove()
  }

  private func othersInLeaf() -> Set<pid_t> {
    SystemFile.exists(leaf) ? Self.look(at: leaf).members.subtracting(ours) : []
  }
}
