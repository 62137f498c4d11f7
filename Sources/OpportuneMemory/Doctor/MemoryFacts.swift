internal import COpportune
import Glibc

/// What a diagnosis of memory is made from; read from the machine, or made up by a test. Errors are error
/// numbers, 0 for none.
package struct MemoryFacts: Sendable, Equatable {
  package var pageSize = 4096
  /// `nil` where the kernel does not say.
  package var machine: MemoryReading?
  /// Of the memory cgroups with a limit that the program is in.
  package var cgroups: [MemoryReading] = []
  /// Bytes.
  package var swap: UInt64 = 0
  /// The kernel's alarm for stalls.
  package var stallError: Int32 = 0
  /// `MADV_FREE` and `MADV_PAGEOUT`.
  package var freeError: Int32 = 0
  package var pageOutError: Int32 = 0
  /// Bytes that may be locked into memory; `.max` is no limit. What is read is `RLIMIT_MEMLOCK`, whatever the
  /// process may do besides.
  package var lockable: UInt64 = .max
  /// `smaps_rollup` of this process.
  package var hasRollup = true
  package var store = Store()

  /// A folder that a hibernation store may be in.
  package struct Store: Sendable, Equatable {
    package var folder = "."
    /// Of making a file there.
    package var fileError: Int32 = 0
    /// Files there are in main memory.
    package var isMemory = false
    /// Of setting blocks aside, and of `O_DIRECT`.
    package var allocateError: Int32 = 0
    package var directError: Int32 = 0

    package init() {}
  }

  package init() {}

  /// Of this machine, as this process sees it. Makes a file of 1 MiB in the folder, and removes it.
  package static func read(storeFolder: String) -> MemoryFacts {
    var facts = MemoryFacts()
    facts.pageSize = OpportuneMemory.pageSize
    facts.machine = MachineMemory.system.machineReading()
    facts.cgroups = MachineMemory.system.cgroupReadings()
    facts.swap = KernelFile.text("/proc/meminfo").map(KernelFile.table)?["SwapTotal"] ?? 0
    let alarm = PressureMonitor.openAlarm()
    facts.stallError = max(0, -alarm)
    if alarm >= 0 { opp_watch_close(alarm) }
    facts.freeError = error(ofAdvice: madviseFree)
    facts.pageOutError = error(ofAdvice: madvisePageOut)
    facts.lockable = readLockable()
    facts.hasRollup = (try? ProcessMemory()) != nil
    facts.store = readStore(storeFolder)
    return facts
  }

  /// Tried on a page of its own.
  private static func error(ofAdvice advice: Int32) -> Int32 {
    let size = OpportuneMemory.pageSize
    guard let page = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      page != MAP_FAILED
    else { return errno }
    defer { munmap(page, size) }
    return madvise(page, size, advice) == 0 ? 0 : errno
  }

  private static func readLockable() -> UInt64 {
    var limit = rlimit()
    guard getrlimit(Int32(__RLIMIT_MEMLOCK.rawValue), &limit) == 0 else { return .max }
    return UInt64(limit.rlim_cur)
  }

  private static func readStore(_ folder: String) -> Store {
    var store = Store()
    store.folder = folder
    var probe = opp_store_probe()
    store.fileError = -opp_store_probe_run(folder, &probe)
    store.isMemory = probe.is_memory
    store.allocateError = -probe.allocate
    store.directError = -probe.direct
    return store
  }
}

// Which Glibc's headers in Swift do not all have.
private let madviseFree: Int32 = 8
