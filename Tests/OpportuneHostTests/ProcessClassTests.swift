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

  @Test(.enabled(if: geteuid() == 0, "only with privilege a thread is raised again"))
  func threadsAreLoweredAndRaised() async throws {
    let key = Hosted.newKey()
    var configuration = HostConfiguration()
    configuration.backend = .signals
    configuration.usesCPUGroups = false
    let host = try ProcessHost(key: key, configuration: configuration)
    let pid = try host.launch(["/bin/sh", "-c", "sleep 600 & wait"], name: "app")
    try await eventually("both processes") { host.apps().first?.pids.count == 2 }
    let idle = opp_host_class_idle()
    let pids = try #require(host.apps().first).pids
    for pid in pids {
      #expect(found(pid).policy == idle.policy)
      #expect(found(pid).nice == 19)
      #expect(found(pid).io == idle.io)
    }
    try host.bringForward("app")
    for pid in pids {
      #expect(found(pid).policy == SCHED_OTHER)
      #expect(found(pid).nice == found(getpid()).nice)
      #expect(found(pid).io != idle.io)
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
    try hosted.host.bringForward("app")
    #expect(SystemFile.text(file) == "0\n")
    try await hosted.end()
    #expect(!SystemFile.exists(file))
  }
}
