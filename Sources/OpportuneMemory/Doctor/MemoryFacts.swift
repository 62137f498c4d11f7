internal import COpportune
import Glibc

/// The facts of a diagnosis of memory: read from the machine, or given by a test. Errors are `errno` numbers,
/// 0 for none.
package struct MemoryFacts: Sendable, Equatable {
  package var pageSize = 4096
  /// The machine's memory; `nil` where the kernel does not report it.
  package var machine: MemoryReading?
  /// The memory cgroups of the program that have a limit.
  package var cgroups: [MemoryReading] = []
  /// The size of the swap space in bytes.
  package var swap: UInt64 = 0
  /// The error of opening the kernel's alarm for memory stalls (PSI).
  package var stallError: Int32 = 0
  /// The errors of `MADV_FREE` and `MADV_PAGEOUT`.
  package var freeError: Int32 = 0
  package var pageOutError: Int32 = 0
  /// Bytes that may be locked into memory; `.max` is no limit. This is `RLIMIT_MEMLOCK`, whatever privileges
  /// the process has.
  package var lockable: UInt64 = .max
  /// Whether `smaps_rollup` of this process can be read.
  package var hasRollup = true
  package var store = Store()

  /// A possible folder of a hibernation store.
  package struct Store: Sendable, Equatable {
    package var folder = "."
    /// The error of creating a file there.
    package var fileError: Int32 = 0
    /// Whether its files are in main memory, as on tmpfs.
    package var isMemory = false
    /// The errors of allocating blocks, and of `O_DIRECT`.
    package var allocateError: Int32 = 0
    package var directError: Int32 = 0

    package init() {}
  }

  package init() {}

  /// Reads the facts of this machine, as this process sees them. Creates a file of 1 MiB in the folder, and
  /// removes it.
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

  /// Tries the advice on a temporary page.
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
