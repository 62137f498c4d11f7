import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// The host moves out of the group that is to hand controllers down to its apps.
@Suite(.bounded) struct HostLeafTests {
  // R-CPU-01, R-DISK-02
  @Test func whoIsInTheWayIsDecidedByWhatTheGroupIs() {
    typealias State = HostLeaf.State
    let group = State(controllers: ["cpu", "io", "pids"], members: [7, 8])
    #expect(HostLeaf.plan(group, ours: [7, 8, 9]) == .move([7, 8]))
    #expect(HostLeaf.plan(group, ours: [8]) == .blocked([7]))
    // In its leaf, or beside the service: nobody of the host's is in the way.
    #expect(HostLeaf.plan(group, ours: [9]) == .stay)
    var none = group
    none.members = []
    #expect(HostLeaf.plan(none, ours: [7]) == .stay)
    // Of a hybrid machine, where version 1 has the controllers.
    #expect(HostLeaf.plan(State(controllers: ["hugetlb"], members: [7]), ours: [7]) == .stay)
    #expect(
      HostLeaf.plan(State(controllers: ["hugetlb"], members: [7]), wanted: ["hugetlb"], ours: [7])
        == .move([7]))
    var first = group
    first.isFirst = true
    #expect(HostLeaf.plan(first, ours: [7, 8]) == .stay)
  }

  // R-CPU-01
  @Test func itMovesAndIsBackOnAFakeTree() throws {
    let own = try FakeGroup(members: [getpid()])
    let leaf = HostLeaf(below: own.path, tree: own.path + "/opportune/key", ours: [getpid()])
    // A made folder has no files of the kernel's, so the move fails, and all is as before.
    #expect(leaf.note?.contains("could not be moved to '\(own.path)/opportune-host'") == true)
    #expect(leaf.note?.contains("hands no CPU, memory or storage controller down") == true)
    #expect(!SystemFile.exists(own.path + "/opportune-host"))
    #expect(own.text("cgroup.procs") == "\(getpid())")

    try own.write("opportune-host/cgroup.procs", "")
    let moved = HostLeaf(below: own.path, tree: own.path + "/opportune/key", ours: [getpid()])
    #expect(moved.note == nil)
    #expect(own.text("opportune-host/cgroup.procs") == "\(getpid())")
    try own.write("cgroup.procs", "")
    try own.write("cgroup.subtree_control", "pids")
    moved.leave()
    #expect(own.text("cgroup.procs") == "\(getpid())")
    #expect(own.text("cgroup.subtree_control") == "pids")
  }

  @Test func othersInTheGroupAreNotMovedAndAreTold() throws {
    let own = try FakeGroup(members: [getpid(), 1])
    let leaf = HostLeaf(below: own.path, tree: own.path + "/opportune/key", ours: [getpid()])
    #expect(leaf.note?.hasSuffix("other processes are in it (1)") == true, "\(leaf.note ?? "")")
    #expect(!SystemFile.exists(own.path + "/opportune-host"))
  }

  @Test func whatTheHostHasNotHandedDownStays() throws {
    let own = try FakeGroup(members: [])
    try own.write("cgroup.subtree_control", "cpu")
    let stays = HostLeaf(below: own.path, tree: own.path + "/opportune/key", ours: [getpid()])
    stays.leave()
    #expect(own.text("cgroup.subtree_control") == "cpu")
    // A host that was killed had handed it down: its leaf is there.
    try own.write("opportune-host/cgroup.procs", "")
    let next = HostLeaf(below: own.path, tree: own.path + "/opportune/key", ours: [getpid()])
    next.leave()
    #expect(own.text("cgroup.subtree_control") == "-cpu")
    // Another host is in the leaf: it needs what is handed down.
    try own.write("cgroup.subtree_control", "cpu")
    try own.write("opportune-host/cgroup.procs", "1\n")
    HostLeaf(below: own.path, tree: own.path + "/opportune/key", ours: [getpid()]).leave()
    #expect(own.text("cgroup.subtree_control") == "cpu")
  }

  // R-CPU-01, R-DISK-02
  @Test(.enabled(if: Delegated.isPossible, Delegated.why)) func theKernelHandsDownWhatItRefusedBefore()
    async throws
  {
    let group = try Delegated()
    defer { group.end() }
    let control = group.path + "/cgroup.subtree_control"
    try group.enter()
    let key = Hosted.newKey()
    // Not twice as deep at the next start.
    for _ in 0..<2 {
      // A populated group beside it, as an app's, without which some controllers are handed down all the
      // same.
      #expect(SystemFile.write("+hugetlb", to: control) == EBUSY)
      let hosted = try Hosted(.cgroup, key: key, controllers: ["hugetlb"])
      #expect(hosted.host.notes.allSatisfy { !$0.contains("controller") }, "\(hosted.host.notes)")
      #expect(hosted.host.controlGroups == group.path + "/opportune/" + key)
      #expect(ControlGroupTree.group(of: getpid()) == group.path + "/opportune-host")
      // The host, and its warden.
      #expect(ControlGroup(path: group.path + "/opportune-host").members().count == 2)
      let pid = try hosted.shell("exec sleep 600")
      let app = group.path + "/opportune/\(key)/app"
      #expect(ControlGroup(path: app).members() == [pid])
      // From the first of all down, at once.
      let limited = ControllerGroup.make(
        "hugetlb", files: (Delegated.file, Delegated.file), key: key, name: "app",
        group: ControlGroup(path: app), root: { nil })
      #expect(limited?.path == app)
      try await hosted.end()
      #expect(ControlGroupTree.group(of: getpid()) == group.path)
      #expect(HostLeaf.look(at: group.path).handedDown.isEmpty)
      #expect(!SystemFile.exists(group.path + "/opportune-host"))
      #expect(!SystemFile.exists(group.path + "/opportune"))
    }
  }

  /// A unit's next start is in its group, which must not hand anything down then; apps may live on.
  @Test(.enabled(if: Delegated.isPossible, Delegated.why)) func theNextHostMayBeginInTheGroupWhereAppsLiveOn()
    async throws
  {
    let group = try Delegated()
    defer { group.end() }
    try group.enter()
    let key = Hosted.newKey()
    var pid: Int32 = 0
    let app = group.path + "/opportune/\(key)/app"
    do {
      let hosted = try Hosted(.cgroup, key: key, controllers: ["hugetlb"])
      pid = try hosted.shell("exec sleep 600")
      _ = ControllerGroup.make(
        "hugetlb", files: (Delegated.file, Delegated.file), key: key, name: "app",
        group: ControlGroup(path: app), root: { nil })
      #expect(HostLeaf.look(at: group.path).handedDown == ["hugetlb"])
      hosted.host.stop()
    }
    #expect(ControlGroup(path: app).members() == [pid])
    #expect(ControlGroupTree.group(of: getpid()) == group.path)
    #expect(HostLeaf.look(at: group.path).handedDown.isEmpty)
    let next = try Hosted(.cgroup, key: key, controllers: ["hugetlb"])
    #expect(ControlGroupTree.group(of: getpid()) == group.path + "/opportune-host")
    #expect(next.entry()?.pids == [pid])
    try await next.end()
    #expect(!SystemFile.exists(group.path + "/opportune-host"))
  }

  /// As the unit's `opportune host --sweep`, which runs beside the service's group.
  @Test(.enabled(if: Delegated.isPossible, Delegated.why)) func whatAKilledHostHasHandedDownIsTakenBack()
    throws
  {
    let group = try Delegated()
    defer { group.end() }
    let (tree, leaf) = (group.path + "/opportune/key", group.path + "/opportune-host")
    for folder in [leaf, group.path + "/opportune", tree, tree + "/app"] {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }
    for folder in [group.path, group.path + "/opportune", tree] {
      #expect(SystemFile.write("+hugetlb", to: folder + "/cgroup.subtree_control") == 0)
    }
    #expect(SystemFile.write("\(getpid())", to: group.path + "/cgroup.procs") == EBUSY)
    HostLeaf(below: group.path, tree: tree, wanted: ["hugetlb"], ours: [getpid()]).leave()
    #expect(!SystemFile.exists(leaf))
    #expect(SystemFile.exists(tree + "/app"))
    #expect(SystemFile.write("\(getpid())", to: group.path + "/cgroup.procs") == 0)
  }
}

/// A group as it looks to who reads and writes its files.
private final class FakeGroup: FakeTree {
  init(members: [Int32]) throws {
    try super.init()
    try write("cgroup.type", "domain\n")
    try write("cgroup.controllers", "cpu memory io\n")
    try write("cgroup.subtree_control", "")
    try write("cgroup.procs", members.map { "\($0)\n" }.joined())
  }

  /// The first line.
  func text(_ name: String) -> String? {
    SystemFile.text(path + "/" + name)?.split(separator: "\n").first.map(String.init)
  }
}

/// A group of version 2 to which the machine's first hands a controller down that nobody here needs.
private final class Delegated {
  /// Of the group that the tests are in: the machine's first.
  private static let first: String? = ControlGroupTree.ownGroup().flatMap { own in
    let state = HostLeaf.look(at: own)
    return state.isFirst && state.controllers.contains("hugetlb") && access(own, W_OK) == 0 ? own : nil
  }
  static let isPossible = first != nil
  static let why: Comment =
    "the tests are not in the first group of version 2, or it may not be written or has no controller hugetlb"
  /// Tells that the controller works in a group.
  static let file = "hugetlb.2MB.current"

  let path: String
  private let first: String
  private let hadIt: Bool

  init() throws {
    first = try #require(Self.first)
    path = (first.hasSuffix("/") ? String(first.dropLast()) : first) + "/" + Hosted.newKey()
    hadIt = HostLeaf.look(at: first).handedDown.contains("hugetlb")
    _ = SystemFile.write("+hugetlb", to: first + "/cgroup.subtree_control")
    try #require(mkdir(path, 0o755) == 0)
  }

  /// This process goes to it, as systemd starts a service in its.
  func enter() throws { try #require(SystemFile.write("\(getpid())", to: path + "/cgroup.procs") == 0) }

  func end() {
    _ = SystemFile.write("\(getpid())", to: first + "/cgroup.procs")
    for folder in ["opportune-host", ""] { ControlGroup(path: path + "/" + folder).remove() }
    if SystemFile.exists(path) {
      for folder in FileManager.default.enumerator(atPath: path)?.allObjects.compactMap({ $0 as? String })
        .sorted(by: { $0.count > $1.count }) ?? []
      where SystemFile.exists(path + "/" + folder + "/cgroup.procs") { rmdir(path + "/" + folder) }
      rmdir(path)
    }
    if !hadIt { _ = SystemFile.write("-hugetlb", to: first + "/cgroup.subtree_control") }
  }
}
