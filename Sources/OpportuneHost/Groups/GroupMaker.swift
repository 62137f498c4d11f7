internal import Glibc

/// Makes the groups of one host by the best backend that works here.
///
/// Used by one thread at a time.
final class GroupMaker {
  let tree: ControlGroupTree?
  let warden: Warden?
  let marks = MarkTable()
  /// What is missing here, for people.
  let notes: [String]
  private let key: String
  private let backend: Backend
  private var made = UInt64.random(in: 0 ... .max)
  private let record: HostRecord?
  private let leaf: HostLeaf?

  /// - Parameters:
  ///   - record: what is written down of the apps; `nil`: nothing.
  ///   - controllers: that are to be handed down to groups of version 2.
  ///   - starter: a process that starts programs for the host, which is where the host is.
  /// - Throws: ``ProcessHostError``: `backend`, where the one that is asked for does not work.
  init(
    key: String, backend: Backend, record: HostRecord? = nil, controllers: Set<String> = HostLeaf.controllers,
    starter: pid_t? = nil
  ) throws(ProcessHostError) {
    self.key = key
    self.record = record
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
    warden = Warden(thawing: tree?.path, key: key)
    if warden == nil {
      notes.append("no warden could be started: what is frozen stays so if the host is killed")
    }
    if warden?.isBesideAnother == true {
      notes.append("the warden of a host before has not ended, and may let go on what is suspended")
    }
    // After the warden, which has waited for the one of the host before.
    let ours = Set([getpid()] + [warden?.pid, starter].compactMap(\.self))
    leaf = tree.map { HostLeaf(below: $0.own, tree: $0.path, wanted: controllers, ours: ours) }
    if let note = leaf?.note { notes.append(note) }
    self.notes = notes
  }

  /// Of a host that has no processes: it makes nothing.
  init(ofNone key: String) {
    self.key = key
    (backend, tree, warden, record, leaf, notes) = (.signals, nil, nil, nil, nil, [])
  }

  /// Leaves the groups as they would be without a host; those of apps that go on stay.
  func leave() {
    tree?.remove()
    leaf?.leave()
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
    // Whoever is moved by then is the next host's, if this one is killed meanwhile; and so is the rest.
    func note(_ group: String?) {
      guard isTree else { return }
      let entry = HostRecord.Entry(
        name: name, mark: mark, group: group, known: [HostRecord.Known(root.id)], isTaking: true)
      notes += record?.write(entry) ?? []
    }
    if let tree {
      let group = try tree.group(name)
      note(group.path)
      do throws(ProcessHostError) {
        if isTree { try group.adopt(tree: root) } else { try group.adopt(root.pid) }
        return (group, notes)
      } catch {
        group.remove()
        guard backend == .auto else {
          forget(mark)
          throw error
        }
        notes.append("\(error); it is stopped by signals")
      }
    }
    note(nil)
    let group = SignalledGroup(mark: mark, warden: warden, marks: marks)
    do throws(ProcessHostError) {
      if isTree { try group.adopt(tree: root) } else { try group.adopt(root.pid) }
    } catch {
      forget(mark)
      throw error
    }
    return (group, notes)
  }

  /// Nothing of it is to be known again.
  func forget(_ mark: String) {
    guard var entry = record?.entries[mark] else { return }
    entry.hasEnded = true
    _ = record?.write(entry)
  }

  /// Writes down what the next host would not find.
  ///
  /// - Returns: what could not be done, for people.
  func note(_ name: String, _ mark: String, _ group: any ProcessGroup) -> [String] {
    guard let record else { return [] }
    let known = group.unmarked.map(HostRecord.Known.init)
    return record.write(HostRecord.Entry(name: name, mark: mark, group: group.cgroup, known: known))
  }

  /// Thaws what a host before this one has left. Whose taking it had begun is taken to the end.
  func sweep() -> [Leftover] {
    let recorded = record?.entries ?? [:]
    var groups = tree?.sweep() ?? []
    // A host that was started elsewhere, as in another session of its user, had its groups there.
    var paths = Set(groups.compactMap { $0.group.cgroup })
    for entry in recorded.values {
      guard let path = entry.group, path.hasSuffix("/opportune/\(key)/\(entry.name)"),
        paths.insert(path).inserted, SystemFile.exists(path + "/cgroup.freeze")
      else { continue }
      if let left = ControlGroup(path: path).sweep(named: entry.name) { groups.append(left) }
    }
    let byPath = Dictionary(
      recorded.values.compactMap { entry in entry.group.map { ($0, entry) } }, uniquingKeysWith: { $1 })
    for index in groups.indices {
      guard let group = groups[index].group as? ControlGroup, let entry = byPath[group.path] else { continue }
      groups[index].mark = entry.mark
      group.follow(entry.mark, by: self)
      group.takeBack(entry.known.compactMap { $0.living?.id })
      if entry.isTaking, let root = entry.known.first?.living { try? group.adopt(tree: root) }
    }
    // Members of a control group carry the mark as well.
    let look = ProcessLook()
    let inGroups = Set(groups.flatMap { $0.group.members() })
    let there = Set(groups.compactMap { $0.group.cgroup })
    let gone = recorded.filter { $0.value.group.map { !there.contains($0) } ?? true }
    let signalled = SignalledGroup.sweep(key: key, recorded: gone, warden: warden).filter {
      inGroups.isDisjoint(with: $0.group.members(by: look))
    }
    return groups + signalled
  }
}
