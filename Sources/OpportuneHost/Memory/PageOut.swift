internal import COpportuneHost
internal import Glibc
internal import OpportuneBase
internal import OpportuneScheduler

/// Paging out what a suspended app has in main memory. It may take a second, so a thread of its own does it,
/// in pieces: who goes on meanwhile is left alone.
///
/// Sendable: what changes is under the lock.
final class PageOut: @unchecked Sendable {
  /// Why, as notes begin.
  enum Purpose: String {
    case shortage = "memory was short: "
    case hibernation = "hibernated: "
  }

  let name: String
  let purpose: Purpose
  private let group: MemoryGroup?
  private let processes: [ProcessID]
  private let lock = Lock()
  private var isWanted = true
  private var found: Result?

  /// What has become of it.
  struct Result: Sendable, Hashable {
    /// Bytes that its processes had in main memory, whichever group they are charged to.
    var before: UInt64
    var after: UInt64
    /// The number of the error where the kernel refused; 0: it did not.
    var error: Int32
    /// Whether there was a place for what is no file's.
    var hadSwap: Bool

    /// Whether a tenth of it has left main memory at least.
    var hasFreed: Bool { error == 0 && after <= before - before / 10 && before > 0 }

    /// For people.
    var text: String {
      guard error == 0 else {
        return "it could not be paged out: \(errorText(error))"
          + (error == EPERM ? ", which needs CAP_SYS_NICE" : "")
      }
      return (hasFreed ? "it was paged out" : "it was frozen, and little of it could be paged out")
        + ", \(before.inMegabytes) in main memory before, \(after.inMegabytes) after"
        + (hadSwap ? "" : "; without swap what is no file's stays")
    }
  }

  /// In one piece so much is asked for: some 100 ms of a swap file.
  private static let piece: UInt64 = 32 << 20

  init(_ name: String, _ purpose: Purpose, _ group: MemoryGroup?, _ processes: [ProcessID]) {
    (self.name, self.purpose, self.group, self.processes) = (name, purpose, group, processes)
  }

  /// The app goes on. Any thread.
  func cancel() { lock.withLock { isWanted = false } }

  /// `nil`: it has not ended. Any thread.
  var result: Result? { lock.withLock { found } }

  private var isCancelled: Bool { lock.withLock { !isWanted } }

  /// Blocks until it is done, or not wanted any more.
  func run() {
    let members = processes.map(\.pid)
    let before = ProcessTable.memory(of: members)
    var error = reclaim(group?.usage() ?? before)
    if error == ENOENT { error = advise() }
    let result = Result(
      before: before, after: ProcessTable.memory(of: members), error: error, hadSwap: Self.hasSwap)
    lock.withLock { found = result }
  }

  /// By its control group, of version 2.
  ///
  /// - Returns: 0, or the number of the error; `ENOENT` where there is no such group.
  private func reclaim(_ bytes: UInt64) -> Int32 {
    guard let file = group?.reclaims else { return ENOENT }
    var left = bytes
    while left > 0, !isCancelled {
      let error = SystemFile.write("\(min(left, Self.piece))", to: file)
      // Not all of that could go: more cannot.
      if error == EAGAIN { return 0 }
      if error != 0 { return error }
      left -= min(left, Self.piece)
    }
    return 0
  }

  /// What keeps the kernel from taking an app's own pages, for people; `nil`: nothing.
  ///
  /// - Parameter hasSwap: `nil`: as the kernel says.
  static func obstacle(_ group: MemoryGroup?, hasSwap: Bool?) -> String? {
    guard hasSwap ?? Self.hasSwap else { return "there is no swap" }
    let may = group?.reclaims != nil || Capability.sysNice.counts == true
    return may ? nil : "the kernel refuses that without CAP_SYS_NICE"
  }

  /// Whether anything is swapped to: a line of it follows the head of the list.
  private static var hasSwap: Bool {
    SystemFile.bytes("/proc/swaps").map { $0.split(separator: UInt8(ascii: "\n")).count > 1 } ?? false
  }

  /// By each range of each process. Pages that others have as well stay, as do those of files where there is
  /// no right to write, and anonymous ones without swap.
  private func advise() -> Int32 {
    var refused: Int32 = 0
    for process in processes {
      let descriptor = opp_host_pidfd_open(process.pid)
      guard descriptor >= 0 else { continue }
      defer { close(descriptor) }
      guard ProcessStat(of: process.pid)?.id == process else { continue }
      for range in ProcessTable.ranges(of: process.pid) {
        var start = range.lowerBound
        while start < range.upperBound {
          if isCancelled { return 0 }
          let length = min(Self.piece, range.upperBound - start)
          switch -opp_host_page_out(descriptor, start, length) {
          case 0, EINVAL, ENOMEM: break  // locked, a device's, or gone by now
          case ESRCH: start = range.upperBound - length  // it has ended
          case let error: refused = error
          }
          if refused != 0 { return refused }
          start += length
        }
      }
    }
    return 0
  }
}

extension ProcessTable {
  /// The ranges of addresses that a process has mapped.
  static func ranges(of pid: pid_t) -> [Range<UInt64>] {
    guard let bytes = SystemFile.bytes("/proc/\(pid)/maps", limit: 16 << 20) else { return [] }
    return bytes.split(separator: UInt8(ascii: "\n")).compactMap(range(_:))
  }

  /// Of a line as `7f00-7fff rw-p …`; `nil`: it is none, or of the kernel's own.
  static func range(_ line: some Collection<UInt8>) -> Range<UInt64>? {
    let text = String(decoding: line, as: UTF8.self)
    let ends = text.prefix { $0 != " " }.split(separator: "-")
    guard ends.count == 2, let start = UInt64(ends[0], radix: 16), let end = UInt64(ends[1], radix: 16),
      start < end, !["[vdso]", "[vvar]", "[vsyscall]"].contains(where: text.hasSuffix)
    else { return nil }
    return start..<end
  }
}
