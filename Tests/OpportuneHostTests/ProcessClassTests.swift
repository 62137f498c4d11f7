import COpportuneHost
import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// The kernel's classes of apps.
@Suite(.bounded) struct ProcessClassTests {
  private func found(_ pid: Int32) -> opp_host_class {
    var found = opp_host_class()
    _ = opp_host_class_get(pid, &found)
    return found
  }

  private static let hasCPUController =
    CPUShare(key: "test", name: "probe", group: nil).map { $0.remove() } != nil

  /// A program of no host's.
  private struct Sleeping {
    private let process: Process
    var pid: Int32 { process.processIdentifier }

    init() throws { process = try startProgram(["/bin/sleep", "600"]) }

    /// Not by a signal that it may have been started with blocked.
    func end() {
      kill(pid, SIGKILL)
      process.waitUntilExit()
    }
  }

  private func isIdleInIO(_ pid: Int32) -> Bool {
    var found: Int32 = 0
    _ = opp_host_io_class_get(pid, &found)
    return found == opp_host_io_class_idle()
  }

  @Test(.enabled(if: geteuid() == 0, "only with privilege a thread is raised again"))
  func threadsAreLoweredAndRaised() async throws {
    let key = Hosted.newKey()
    var configuration = HostConfiguration()
    configuration.backend = .signals
    configuration.usesClassGroups = false
    let host = try ProcessHost(key: key, configuration: configuration)
    let pid = try host.launch(["/bin/sh", "-c", "sleep 600 & wait"], name: "app")
    try await eventually("both processes") { host.apps().first?.pids.count == 2 }
    let idle = opp_host_class_idle()
    let pids = try #require(host.apps().first).pids
    for pid in pids {
      #expect(found(pid).policy == idle.policy)
      #expect(found(pid).nice == 19)
      #expect(isIdleInIO(pid))
    }
    try host.bringForward("app")
    for pid in pids {
      #expect(found(pid).policy == SCHED_OTHER)
      #expect(found(pid).nice == found(getpid()).nice)
      #expect(!isIdleInIO(pid))
    }
    #expect(host.apps().first?.notes == [])
    try host.terminate("app")
    try await eventually("its end") { host.apps().isEmpty && ProcessStat(of: pid)?.hasEnded != false }
    host.stop()
  }

  @Test(.enabled(if: hasCPUController, "there is no CPU controller here"))
  func aGroupIsLoweredByOneWrite() async throws {
    let hosted = try Hosted(.auto)
    let pid = try hosted.shell("exec sleep 600")
    let line = SystemFile.text("/proc/\(pid)/cgroup")?.split(separator: "\n").first {
      $0.split(separator: ":").count > 2 && $0.split(separator: ":")[1].split(separator: ",").contains("cpu")
    }
    let path = try #require(line).split(separator: ":", maxSplits: 2)[2]
    let file = "/sys/fs/cgroup/cpu\(path)/cpu.idle"
    #expect(SystemFile.text(file) == "1\n")
    #expect(isIdleInIO(pid))
    try hosted.host.bringForward("app")
    #expect(SystemFile.text(file) == "0\n")
    #expect(!isIdleInIO(pid))
    try await hosted.end()
    #expect(!SystemFile.exists(file))
  }

  /// One that its user had in the idle class stays there; what a host before has left is raised, since that
  /// has lowered it.
  @Test(.enabled(if: geteuid() == 0, "only with privilege a thread is raised again"))
  func whatItWasFoundWithComesBack() async throws {
    let sleeping = try Sleeping()
    let pid = sleeping.pid
    defer { sleeping.end() }
    try #require(opp_host_io_class_set(pid, opp_host_io_class_idle()) == 0)
    for isLeft in [false, true] {
      let group = ControlGroup(path: "/nowhere")
      let classes = AppClass(pid, shares: false, key: "test", name: "app", group: group, isLeft: isLeft)
      #expect(classes.set(isBackground: true, of: { [pid] }) == [])
      #expect(found(pid).policy == opp_host_class_idle().policy)
      #expect(classes.set(isBackground: false, of: { [pid] }) == [])
      #expect(isIdleInIO(pid) == !isLeft)
      #expect(found(pid).policy == SCHED_OTHER)
    }
  }

  /// Each of its own, not that of the first.
  @Test(
    .enabled(if: geteuid() == 0, "only with privilege a thread is raised again"), arguments: [true, false])
  func eachProcessHasItsOwnClassesBack(groups: Bool) async throws {
    var configuration = HostConfiguration()
    (configuration.backend, configuration.usesClassGroups) = (.signals, groups)
    let host = try ProcessHost(key: Hosted.newKey(), configuration: configuration)
    let script = "ionice -c 2 -n 7 nice -n 5 sleep 600 & ionice -c 2 -n 1 sleep 600 & wait"
    _ = try host.launch(["/bin/sh", "-c", script], name: "app", foreground: true)
    func pids() -> [Int32] { host.apps().first { $0.id == "app" }?.pids ?? [] }
    func classes() -> [String] {
      pids().map { pid in
        var io: Int32 = 0
        _ = opp_host_io_class_get(pid, &io)
        return "\(ProcessTable.command(of: pid) ?? "") \(io) \(found(pid).nice)"
      }.sorted()
    }
    try await eventually("all three") { classes().count { $0.hasPrefix("sleep ") } == 2 }
    let before = classes()
    #expect(before.count == 3 && Set(before).count == 3)
    _ = try host.launch(["/bin/sleep", "600"], name: "other", foreground: true)
    #expect(pids().allSatisfy(isIdleInIO))
    if !groups { #expect(pids().allSatisfy { found($0).nice == 19 }) }
    try host.bringForward("app")
    #expect(classes() == before)
    for name in ["app", "other"] { try host.terminate(name) }
    try await eventually("their end") { host.apps().isEmpty }
    host.stop()
  }

  /// What limits it there holds again when the host has let go of it.
  @Test(.enabled(if: hasCPUController, "there is no CPU controller here"))
  func whoWasInAGroupComesBackThere() async throws {
    let root = try #require(ControllerGroup.mount(of: "cpu"))
    let folder = root + "/" + Hosted.newKey()
    try #require(mkdir(folder, 0o755) == 0)
    let sleeping = try Sleeping()
    let pid = sleeping.pid
    defer {
      sleeping.end()
      for _ in 0..<1000 where rmdir(folder) != 0 && errno == EBUSY { usleep(1000) }
    }
    try #require(SystemFile.write("\(pid)", to: folder + "/cgroup.procs") == 0)
    let hosted = try Hosted(.signals)
    _ = try hosted.host.adopt(pid, name: "app")
    #expect(SystemFile.text(folder + "/cgroup.procs") == "")
    hosted.host.stop()
    #expect(SystemFile.text(folder + "/cgroup.procs") == "\(pid)\n")
  }

  /// What a host has put somewhere was not found there.
  @Test(.enabled(if: hasCPUController, "there is no CPU controller here"))
  func whatAHostBeforeHasLeftComesBackToTheFirstGroup() throws {
    let sleeping = try Sleeping()
    let pid = sleeping.pid
    defer { sleeping.end() }
    let (key, root) = (Hosted.newKey(), try #require(ControllerGroup.mount(of: "cpu")))
    let first = try #require(CPUShare(key: key, name: "app", group: nil))
    let next = try #require(CPUShare(key: key, name: "app", group: nil))
    for share in [first, next] { #expect(share.adopt(pid) == 0) }
    next.giveBack([pid])
    #expect(SystemFile.text(root + "/cgroup.procs")?.split(separator: "\n").contains("\(pid)") == true)
    #expect(!SystemFile.exists(ControllerGroup.tree(key: key, in: root)))
  }

  /// Whichever of the files a kernel has; a folder stands for the group, as few kernels have the class.
  @Test(arguments: [[], ["io.weight"], ["io.prio.class", "io.weight", "io.bfq.weight"]])
  func storageIsLoweredByTheGroup(files: [String]) throws {
    let place = try Place()
    for file in files + ["io.max"] { try Data().write(to: place.folder.appending(path: file)) }
    let share = try #require(
      StorageShare(key: "test", name: "app", group: ControlGroup(path: place.folder.path)))
    #expect(share.hasClass == files.contains("io.prio.class"))
    for (isBackground, words) in [(true, ["idle", "1", "1"]), (false, ["no-change", "100", "100"])] {
      // As the kernel takes it: a write, whatever was there.
      for file in files { try Data().write(to: place.folder.appending(path: file)) }
      #expect(share.set(isBackground: isBackground) == 0)
      for (file, word) in zip(["io.prio.class", "io.weight", "io.bfq.weight"], words)
      where files.contains(file) {
        #expect(SystemFile.text(place.folder.path + "/" + file) == word)
      }
    }
    try FileManager.default.removeItem(atPath: place.folder.path)
    if !files.isEmpty { #expect(share.set(isBackground: true) == ENOENT) }
  }
}
