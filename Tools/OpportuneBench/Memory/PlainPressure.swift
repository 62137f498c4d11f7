import Glibc
import OpportuneMemory

/// Figure 2 without the library: a background process holds what a memory cgroup allows, and this one asks
/// for a part of it.
struct PlainPressure {
  /// What the kernel does about it.
  enum Way: String, CaseIterable {
    case swapped = "swapped out"
    case ended = "ended"
  }
  /// Both in MiB.
  let held: Int
  let wanted: Int

  /// Beyond what is held, for what else the kernel counts.
  private static let slack = 8
  private static let wantedMin = 8 * slack

  /// What can be measured here, and why the rest cannot.
  func ways() -> (possible: [Way], skipped: [String]) {
    guard wanted >= Self.wantedMin else {
      return ([], ["without the library, it takes --mebibytes \(4 * Self.wantedMin) or more"])
    }
    do {
      let group = try MemoryGroup()
      defer { group.remove() }
      var ways = Way.allCases
      var skipped: [String] = []
      let swap = swapMebibytes()
      if swap.free < wanted + Self.slack {
        ways.removeAll { $0 == .swapped }
        skipped.append(
          "without the library, swapped out: \(swap.free) MiB of swap are free, \(wanted + Self.slack) needed"
        )
      }
      if swap.total > 0, !group.forbidsSwap {
        ways.removeAll { $0 == .ended }
        skipped.append("without the library, ended: swap cannot be forbidden to a cgroup here")
      }
      return (ways, skipped)
    } catch {
      return ([], ["without the library: \(error)"])
    }
  }

  /// What `allocate` says that it took, in a group whose memory is held.
  func measure(_ way: Way, _ allocate: () throws -> Double) throws -> Double {
    let group = try MemoryGroup()
    defer { group.remove() }
    try group.limit(mebibytes: held + Self.slack, swaps: way == .swapped)
    try group.enter()
    let taken = Result { () throws -> Double in
      // It begins in the group. Zeros would need no room in swap.
      let holder = try Holder(
        mebibytes: held, source: way == .swapped ? "/dev/urandom" : "/dev/zero")
      try holder.waitUntilFull()
      let taken = try allocate()
      guard holder.hasEnded(within: way == .ended ? 10_000 : 0) == (way == .ended) else {
        throw BenchError(.wrongAnswer, "of a process that was to be \(way.rawValue) the opposite came")
      }
      return taken
    }
    try group.leave()
    return try taken.get()
  }

  private func swapMebibytes() -> (total: Int, free: Int) {
    let table = KernelFile.text("/proc/meminfo").map(KernelFile.table) ?? [:]
    func mebibytes(_ name: Substring) -> Int { Int((table[name] ?? 0) >> 20) }
    return (mebibytes("SwapTotal"), mebibytes("SwapFree"))
  }
}

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

  /// What this process had before stays counted where it was.
  func enter() throws(BenchError) { try put("\(getpid())", "cgroup.procs") }

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
