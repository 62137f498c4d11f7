import Glibc
internal import OpportuneBase

/// What a whole process holds, as the kernel counts it: for what no ledger knows exactly. (R-MEM-15)
package struct ProcessMemory: Sendable, Hashable {
  /// Its share of the pages in main memory, in bytes: those that several map are divided among them.
  package var proportional: UInt64
  /// All pages in main memory that it maps, in bytes.
  package var resident: UInt64
  /// Changed pages, in bytes; what was freed lazily is not among them.
  package var dirty: UInt64
  /// Unchanged pages, in bytes: dropped and reloaded at will.
  package var clean: UInt64
  /// Freed lazily and not taken yet, in bytes.
  package var lazy: UInt64
  /// Locked into main memory, in bytes.
  package var wired: UInt64
  /// Written to swap, in bytes.
  package var swapped: UInt64

  /// Reads `smaps_rollup`, which takes the kernel about 6 µs per MB that is mapped by small pages.
  ///
  /// - Parameter process: 0: this one.
  /// - Throws: ``MemoryError`` with code `system` where there is no such process, or it is not ours to look
  ///   at.
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
  /// Bytes of this process in main memory that are of no file; `nil` where the kernel does not say. Some
  /// microseconds.
  static func anonymous() -> UInt64? {
    guard let fields = KernelFile.text("/proc/self/statm")?.split(separator: " "), fields.count > 2,
      let resident = UInt64(fields[1]), let ofFiles = UInt64(fields[2])
    else { return nil }
    return (resident - min(ofFiles, resident)) * UInt64(pageSize)
  }
}

/// Samples a process, and no more often than allowed: asked sooner, it answers with what it had.
/// ``MemoryMetricsReporter`` has one. (R-MEM-15)
package struct ProcessSampler: Sendable {
  /// 0: this one.
  package let process: Int32
  /// The least time between two samples.
  package let interval: Duration
  private var last: (sample: ProcessMemory, at: UInt64)?

  /// - Throws: ``MemoryError`` with code `configuration` for a negative interval.
  package init(process: Int32 = 0, interval: Duration = .seconds(1)) throws(MemoryError) {
    guard interval >= .zero else { throw .range("the interval of samples", "\(interval)", "0 or more") }
    self.process = process
    self.interval = interval
  }

  /// The sample of `now`, or the last one where that is younger than the interval.
  ///
  /// - Parameter now: nanoseconds of a clock that never goes back.
  /// - Throws: as ``ProcessMemory/init(of:)``.
  package mutating func sample(now: UInt64) throws(MemoryError) -> ProcessMemory {
    if let last, now >= last.at, now - last.at < interval.unsignedNanoseconds { return last.sample }
    let sample = try ProcessMemory(of: process)
    last = (sample, now)
    return sample
  }
}
