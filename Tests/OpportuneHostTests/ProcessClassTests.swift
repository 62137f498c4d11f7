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

  @Test(
    .enabled(
      if: CPUShare(key: "test", name: "probe", group: nil).map { $0.remove() } != nil,
      "there is no CPU controller here"))
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
    let sleeping = Process()
    sleeping.executableURL = URL(filePath: "/bin/sleep")
    sleeping.arguments = ["600"]
    try sleeping.run()
    let pid = sleeping.processIdentifier
    defer {
      kill(pid, SIGKILL)
      sleeping.waitUntilExit()
    }
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
