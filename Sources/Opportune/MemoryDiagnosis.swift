import Glibc
import OpportuneBase
import OpportuneMemory
import OpportuneScheduler

extension Diagnosis {
  /// The findings of `opportune doctor` about memory: how it is released, watched and saved here. It blocks
  /// for a few milliseconds, longer where the disk is slow.
  ///
  /// - Parameter storeFolder: the folder of a hibernation store. A file of 1 MiB is created there and
  ///   removed.
  /// - Returns: findings of the area `memory`.
  public static func memoryFindings(storeFolder: String = ".") -> [Finding] {
    var facts = MemoryFacts.read(storeFolder: storeFolder)
    if Capability.ipcLock.counts == true { facts.lockable = .max }
    return facts.findings
  }
}

private typealias Finding = Diagnosis.Finding

extension MemoryFacts {
  /// The pure part: derives findings from facts.
  var findings: [Diagnosis.Finding] {
    [
      amountFinding, limitFinding, stallFinding, swapFinding, pageFinding, freeFinding, pageOutFinding,
      lockFinding,
      sampleFinding, storeFinding,
    ]
  }

  // MARK: How much there is

  private var amountFinding: Finding {
    guard let machine else {
      return Finding(
        .memory, "Amount", .missing, found: "the kernel does not say",
        cost: "Without a budget nobody notices that memory is short.",
        remedy: "Mount /proc: mount -t proc proc /proc")
    }
    return Finding(
      .memory, "Amount", .ok, found: "\(size(machine.capacity)), of which \(size(machine.inUse)) are in use")
  }

  private var limitFinding: Finding {
    guard machine != nil else {
      return Finding(
        .memory, "Memory limit", .missing, found: "unknown; none assumed",
        cost: "A cgroup's limit below the machine's memory is not kept.",
        remedy: "Mount /proc: mount -t proc proc /proc")
    }
    guard let least = cgroups.min(by: { $0.capacity < $1.capacity }) else {
      return Finding(.memory, "Memory limit", .ok, found: "none")
    }
    return Finding(
      .memory, "Memory limit", .ok,
      found:
        "\(size(least.capacity)) by the cgroup, of which \(size(least.inUse)) are in use; counts in place of the "
        + "machine's where it is shorter")
  }

  private var swapFinding: Finding {
    Finding(
      .memory, "Swap", .ok,
      found: swap == 0
        ? "none: what is neither purgeable nor hibernated stays until its app ends"
        : "\(size(swap)): what the foreground has not used for long may be there; wired memory is not")
  }

  // MARK: How it is watched

  private var stallFinding: Finding {
    let remedy =
      switch stallError {
      case ENOENT, EOPNOTSUPP: "A kernel with CONFIG_PSI, started with psi=1."
      case EPERM, EACCES:
        "Linux 6.4 or later, or CAP_SYS_RESOURCE; in a container, a /proc/pressure that may be written."
      default: "Linux 5.2 or later."
      }
    return finding(
      "Stall alarm", "/proc/pressure/memory", stallError,
      fine: "of the kernel, at 150 ms of 2 s; what fills memory without a stall is looked for each 1 to 60 s",
      .missing,
      cost:
        "While somebody listens to pressure, the amount is read once a second: a wake-up each, and a shortage "
        + "shows up to 1 s late.", remedy: remedy)
  }

  private var sampleFinding: Finding {
    guard !hasRollup else {
      return Finding(.memory, "Sampling", .ok, found: "of whole processes, by smaps_rollup")
    }
    return Finding(
      .memory, "Sampling", .missing, found: "/proc/self/smaps_rollup cannot be read",
      cost: "Ledgers know what the library hands out, and not what the process holds besides.",
      remedy: "Linux 4.14 or later with CONFIG_PROC_PAGE_MONITOR, and /proc mounted.")
  }

  // MARK: How it is given back

  private var pageFinding: Finding {
    guard pageSize > 16384 else { return Finding(.memory, "Page size", .ok, found: "\(pageSize) bytes") }
    return Finding(
      .memory, "Page size", .degraded, found: "\(pageSize) bytes",
      cost: "Each purgeable region and each value of a cache takes up that much or more.",
      remedy: "A kernel with pages of 4096 bytes.")
  }

  private var freeFinding: Finding {
    finding(
      "Lazy purging", "MADV_FREE", freeError, fine: "by MADV_FREE: allocation by anybody gets the pages",
      .missing,
      cost: "Drawing memory of apps that are not in front stays until the broker is asked for room.",
      remedy: "Linux 4.5 or later.")
  }

  private var pageOutFinding: Finding {
    finding(
      "Clean pages", "MADV_PAGEOUT", pageOutError,
      fine: "leave main memory when it is short, by MADV_PAGEOUT",
      .degraded,
      cost: "Pages of mapped files leave the program, and main memory only as the kernel gets to them.",
      remedy: "Linux 5.4 or later.")
  }

  /// The finding about a kernel function that is available, or refused with an error.
  private func finding(
    _ subject: String, _ means: String, _ error: Int32, fine: String, _ status: Diagnosis.Status,
    cost: String, remedy: String
  ) -> Finding {
    guard error != 0 else { return Finding(.memory, subject, .ok, found: fine) }
    return Finding(
      .memory, subject, status, found: "\(means): \(errorText(error))", cost: cost,
      remedy: remedy)
  }

  private var lockFinding: Finding {
    guard lockable < UInt64(pageSize) else {
      let found = lockable == .max ? "without limit" : "up to \(size(lockable)); more is refused"
      return Finding(.memory, "Wired memory", .ok, found: found)
    }
    return Finding(
      .memory, "Wired memory", .missing, found: "no page may be locked into main memory",
      cost: "Allocations of wired memory are refused.",
      remedy: "Raise RLIMIT_MEMLOCK (systemd: LimitMEMLOCK; ulimit -l).")
  }

  // MARK: How it is saved

  private var storeFinding: Finding {
    let direct = store.directError == 0 ? "takes" : "does not take"
    var finding = Finding(
      .memory, "Hibernation store", .ok,
      found: "'\(store.folder)' sets blocks aside; it \(direct) O_DIRECT, which the store does without")
    func degraded(_ found: String, _ cost: String, _ remedy: String) -> Finding {
      finding.status = .degraded
      finding.found = "'\(store.folder)' \(found)"
      (finding.cost, finding.remedy) = (cost, remedy)
      return finding
    }
    if store.fileError != 0 {
      return degraded(
        "takes no file: \(errorText(store.fileError))",
        "A store cannot be made there, and apps are terminated instead of hibernated.",
        "Name the folder that the store is to be in: --store FOLDER")
    }
    if store.isMemory {
      return degraded(
        "is in main memory (tmpfs)",
        "What is hibernated there goes on taking up memory, all of which is set aside from the start.",
        "Keep the store on a disk: --store FOLDER looks at another folder.")
    }
    guard store.allocateError == 0 else {
      return degraded(
        "sets no blocks aside: \(errorText(store.allocateError))",
        "Opening the store reads each of its blocks, and writes those that are empty, and a copying file system may run full later all the same.",
        "A file system with fallocate, such as ext4 or XFS.")
    }
    return finding
  }

  /// "512 MB", "1.5 GB".
  private func size(_ bytes: UInt64) -> String {
    guard bytes >= 1_000_000 else { return "\(bytes / 1000) kB" }
    guard bytes >= 1_000_000_000 else { return "\(bytes / 1_000_000) MB" }
    let tenths = bytes / 100_000_000
    return tenths % 10 == 0 ? "\(tenths / 10) GB" : "\(tenths / 10).\(tenths % 10) GB"
  }
}
