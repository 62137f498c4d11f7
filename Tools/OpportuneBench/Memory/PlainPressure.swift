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
