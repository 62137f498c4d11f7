import Glibc
internal import OpportuneBase

/// The memory of a whole process as the kernel counts it; includes memory that no ledger has. (R-MEM-15)
package struct ProcessMemory: Sendable, Hashable {
  /// The process's share of the pages in main memory, in bytes: a page mapped by several processes is divided
  /// among them.
  package var proportional: UInt64
  /// All pages in main memory that the process maps, in bytes.
  package var resident: UInt64
  /// Changed pages, in bytes, without lazily freed ones.
  package var dirty: UInt64
  /// Unchanged pages, in bytes; the kernel drops and reloads them.
  package var clean: UInt64
  /// Lazily freed pages that the kernel has not taken yet, in bytes.
  package var lazy: UInt64
  /// Pages locked into main memory, in bytes.
  package var wired: UInt64
  /// Pages written to swap, in bytes.
  package var swapped: UInt64

  /// Reads `smaps_rollup`, which takes the kernel about 6 µs per MB that is mapped with small pages.
  ///
  /// - Parameter process: the process id; 0 is this process.
  /// - Throws: ``MemoryError`` with code `system` where there is no such process, or it may not be read.
  package init(of process: Int32 = 0) throws(MemoryError) {
    let path = "/proc/\(process == 0 ? "self" : "\(process)")/smaps_rollup"
    guard let table = KernelFile.text(path).map(KernelFile.table), let resident = table["Rss"] else {
      throw .refused("'\(path)' was not read", errno == 0 ? ESRCH : errno)
    }
    func sum(_ names: Substring...) -> UInt64 { names.reduce(0) { $0 &+ (table[$1] ?? 0) } }
    proportional = sum("Pss")
    self.resident = resident
    dirty = sum("Shared_Dirty", "Private_Dirty")
    lazy = sum("LazyFree")
    let cleanPages = sum("Shared_Clean", "Private_Clean")
    clean = cleanPages > lazy ? cleanPages - lazy : 0
    wired = sum("Locked")
    swapped = sum("Swap")
  }
}

extension ProcessMemory {
  /// This process's bytes of anonymous memory in main memory; `nil` where the kernel does not report them.
  /// Takes a few microseconds.
  static func anonymous() -> UInt64? {
    guard let fields = KernelFile.text("/proc/self/statm")?.split(separator: " "), fields.count > 2,
      let resident = UInt64(fields[1]), let ofFiles = UInt64(fields[2])
    else { return nil }
    return (resident - min(ofFiles, resident)) * UInt64(pageSize)
  }
}

/// Samples a process at a limited rate: called too soon, it returns the last sample. Used by
/// ``MemoryMetricsReporter``. (R-MEM-15)
package struct ProcessSampler: Sendable {
  /// The process id; 0 is this process.
  package let process: Int32
  /// The minimum time between two samples.
  package let interval: Duration
  private var last: (sample: ProcessMemory, at: UInt64)?

  /// - Throws: ``MemoryError`` with code `configuration` for a negative interval.
  package init(process: Int32 = 0, interval: Duration = .seconds(1)) throws(MemoryError) {
    guard interval >= .zero else { throw .range("the interval of samples", "\(interval)", "0 or more") }
    self.process = process
    self.interval = interval
  }

  /// A sample taken `now`, or the last one if it is younger than the interval.
  ///
  /// - Parameter now: nanoseconds of a monotonic clock.
  /// - Throws: as ``ProcessMemory/init(of:)``.
  package mutating func sample(now: UInt64) throws(MemoryError) -> ProcessMemory {
    if let last, now >= last.at, now - last.at < interval.unsignedNanoseconds { return last.sample }
    let sample = try ProcessMemory(of: process)
    last = (sample, now)
    return sample
  }
}
