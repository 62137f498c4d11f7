import Glibc
import OpportuneHost
import OpportuneMemory

/// A memory cgroup for a moment: below the one that the program is in or, in version 2, where a group with
/// processes has no limited ones below, beside it.
struct MemoryGroup {
  private let folder: String
  private let home: String
  private let version: MachineMemory.CgroupVersion

  init() throws(BenchError) {
    let groups = MachineMemory.system.cgroups()
    if let group = groups.first(where: { $0.version == .one }) {
      version = .one
      home = group.point + group.path
      folder = "\(home)/opportune-bench-\(getpid())"
    } else if let group = groups.first {
      version = .two
      home = group.point + group.path
      let above = group.point + (group.path.lastIndex(of: "/").map { group.path[..<$0] } ?? "")
      guard TextFile.read("\(above)/cgroup.subtree_control")?.contains("memory") == true else {
        throw BenchError(.unavailable, "'\(above)' has no memory controller for the groups below it")
      }
      folder = "\(above)/opportune-bench-\(getpid())"
    } else {
      throw BenchError(.unavailable, "no memory cgroups are mounted")
    }
    guard mkdir(folder, 0o755) == 0 || errno == EEXIST else { throw .failed("no memory cgroup '\(folder)'") }
  }

  func remove() { rmdir(folder) }

  /// With the groups that a program has made below it and left. Who has ended may still be on the way out.
  func removeAll() {
    for _ in 0..<200 {
      Self.removeBelow(folder)
      if rmdir(folder) == 0 || errno == ENOENT { return }
      usleep(5000)
    }
  }

  private static func removeBelow(_ folder: String) {
    for name in SystemFile.names(in: folder) where rmdir("\(folder)/\(name)") != 0 && errno == EBUSY {
      removeBelow("\(folder)/\(name)")
      rmdir("\(folder)/\(name)")
    }
  }

  /// What stands before a program's words, so that it starts in the group.
  var prefix: [String] { HostedProgram.entering(folder) }

  var forbidsSwap: Bool {
    access("\(folder)/\(version == .one ? "memory.memsw.limit_in_bytes" : "memory.swap.max")", W_OK) == 0
  }

  func limit(mebibytes: Int, swaps: Bool) throws(BenchError) {
    try put("\(mebibytes << 20)", version == .one ? "memory.limit_in_bytes" : "memory.max")
    guard !swaps, forbidsSwap else { return }
    // Version 1 counts both together.
    if version == .one {
      try put("\(mebibytes << 20)", "memory.memsw.limit_in_bytes")
    } else {
      try put("0", "memory.swap.max")
    }
  }

  /// What the process had before stays counted where it was.
  func enter(_ process: pid_t = getpid()) throws(BenchError) { try put("\(process)", "cgroup.procs") }

  func leave() throws(BenchError) {
    guard TextFile.write("\(getpid())", to: "\(home)/cgroup.procs") else {
      throw .failed("this process stays in '\(folder)'")
    }
  }

  private func put(_ text: String, _ file: String) throws(BenchError) {
    guard TextFile.write(text, to: "\(folder)/\(file)") else {
      throw .failed("'\(folder)/\(file)' does not take \(text)")
    }
  }
}
