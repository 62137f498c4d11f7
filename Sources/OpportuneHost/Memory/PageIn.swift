internal import COpportuneHost
internal import Glibc
internal import OpportuneBase

/// Bringing back what is swapped of an app that came to the front. Its own faults would read it page by page;
/// asked for at once, all of it would stand before them at the device. So it is read in pieces, each waited
/// for. (Decision 0036)
///
/// Sendable: what changes is under the lock.
final class PageIn: @unchecked Sendable {
  private let processes: [ProcessID]
  private let lock = Lock()
  private var isWanted = true

  private static let piece = UInt64(OPP_HOST_PIECE_PAGES) * UInt64(sysconf(Int32(_SC_PAGESIZE)))

  init(_ processes: [ProcessID]) { self.processes = processes }

  /// The app has been stopped, or has ended. Any thread.
  func cancel() { lock.withLock { isWanted = false } }

  private var isCancelled: Bool { lock.withLock { !isWanted } }

  /// Blocks until it is done, or not wanted any more. Who may not have it done leaves it to the program.
  func run() {
    next: for process in processes {
      let descriptor = opp_host_pidfd_open(process.pid)
      guard descriptor >= 0 else { continue }
      defer { close(descriptor) }
      guard ProcessStat(of: process.pid)?.id == process else { continue }
      let mapped = ProcessTable.ranges(of: process.pid)
      guard let first = mapped.map(\.lowerBound).min(), let end = mapped.map(\.upperBound).max() else {
        continue
      }
      for range in Self.swapped(of: process.pid, in: first..<end) ?? [] {
        var start = range.lowerBound
        while start < range.upperBound {
          if isCancelled { return }
          let length = min(Self.piece, range.upperBound - start)
          // A range may be gone by now, or a process, or be another's.
          let error = opp_host_bring_in(process.pid, descriptor, start, length)
          if error == -EPERM || error == -ESRCH { continue next }
          start += length
        }
      }
    }
  }

  /// The ranges of a process that are in swap; `nil`: the kernel does not tell.
  static func swapped(of pid: pid_t, in whole: Range<UInt64>) -> [Range<UInt64>]? {
    let pagemap = open("/proc/\(pid)/pagemap", O_RDONLY | O_CLOEXEC)
    guard pagemap >= 0 else { return nil }
    defer { close(pagemap) }
    var (from, ranges) = (whole.lowerBound, [Range<UInt64>]())
    var found = [opp_host_range](repeating: opp_host_range(), count: OPP_HOST_RANGES)
    while from < whole.upperBound {
      let before = from
      let count = opp_host_swapped(pagemap, &from, whole.upperBound, &found)
      if count < 0 { return nil }
      ranges += found.prefix(Int(count)).map { $0.start..<$0.end }
      if from <= before { break }  // it has not moved
    }
    return ranges
  }
}
