internal import Glibc

/// Makes the groups of one host by the best backend that works here.
///
/// Used by one thread at a time.
final class GroupMaker {
  let tree: ControlGroupTree?
  let warden: Warden?
  /// What is missing here, for people.
  let notes: [String]
  private let key: String
  private let backend: Backend
  private var made = UInt64.random(in: 0 ... .max)

  /// - Throws: ``ProcessHostError``: `backend`, where the one that is asked for does not work.
  init(key: String, backend: Backend) throws(ProcessHostError) {
    self.key = key
    self.backend = backend
    var notes: [String] = []
    switch backend {
    case .signals: tree = nil
    case .cgroup: tree = try ControlGroupTree(key: key)
    case .auto:
      do throws(ProcessHostError) {
        tree = try ControlGroupTree(key: key)
      } catch {
        tree = nil
        notes.append("\(error); programs are stopped by signals")
      }
    }
    warden = Warden(thawing: tree?.path)
    if warden == nil {
      notes.append("no warden could be started: what is frozen stays so if the host is killed")
    }
    self.notes = notes
  }

  /// A mark for the environment of an app's processes.
  func mark(of name: String) -> String {
    made &+= 1
    return "\(key):\(name):\(String(made, radix: 36))"
  }

  /// Takes a process into a new group, with or without what descends from it. Where it is in a part of the
  /// hierarchy out of which this user may not move it, signals do, unless control groups were asked for.
  func adopt(
    _ root: ProcessStat, isTree: Bool, name: String, mark: String
  ) throws(ProcessHostError) -> (any ProcessGroup, notes: [String]) {
    var notes: [String] = []
    if let tree {
      let group = try tree.group(name)
      do throws(ProcessHostError) {
        if isTree { try group.adopt(tree: root) } else { try group.adopt(root.pid) }
        return (group, [])
      } catch {
        group.remove()
        guard backend == .auto else { throw error }
        notes.append("\(error); it is stopped by signals")
      }
    }
    let group = SignalledGroup(mark: mark, warden: warden)
    if isTree { try group.adopt(tree: root) } else { try group.adopt(root.pid) }
    return (group, notes)
  }

  /// Thaws what a host before this one has left.
  func sweep() -> [Leftover] {
    let groups = tree?.sweep() ?? []
    // Members of a control group carry the mark as well.
    let inGroups = Set(groups.flatMap { $0.group.members() })
    let signalled = SignalledGroup.sweep(key: key, warden: warden).filter {
      inGroups.isDisjoint(with: $0.group.members())
    }
    return groups + signalled
  }
}
