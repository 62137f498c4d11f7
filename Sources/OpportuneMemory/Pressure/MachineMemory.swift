/// The machine's memory, or that of the program's memory cgroups: whichever is closest to its limit.
/// (R-MEM-01)
///
/// Memory that the kernel can release without writing does not count as in use. For the machine this is the
/// kernel's estimate (`MemAvailable`); for a cgroup its inactive file pages, which include lazily freed
/// memory.
package struct MachineMemory: Sendable, Hashable {
  /// The path of the proc file system.
  package let proc: String

  /// This machine.
  package static let system = MachineMemory(proc: "/proc")

  package init(proc: String) { self.proc = proc }

  /// How much memory there is and how much is in use; `nil` where the kernel does not report it. Takes 20 to
  /// 250 µs.
  package func reading() -> MemoryReading? { readings().shortest }

  /// The readings of each cgroup with a limit, and of the machine. A large allocation may exceed a limit that
  /// is not the closest yet.
  func readings() -> [MemoryReading] { cgroupReadings() + [machineReading()].compactMap(\.self) }

  /// The reading of the machine as a whole.
  package func machineReading() -> MemoryReading? {
    guard let table = KernelFile.text("\(proc)/meminfo").map(KernelFile.table), let total = table["MemTotal"],
      let available = table["MemAvailable"]
    else { return nil }
    return MemoryReading(capacity: total, inUse: total > available ? total - available : 0)
  }

  // MARK: Cgroups

  package enum CgroupVersion: Sendable { case one, two }

  /// A cgroup of the program, in a hierarchy that may control memory.
  package struct Cgroup: Sendable {
    package var version: CgroupVersion
    /// The mount point of the hierarchy.
    package var point: String
    /// The group's folder below the mount point: empty, or with a slash in front and none at the end.
    package var path: String
  }

  /// The readings of each memory cgroup with a limit that contains the program, directly or not.
  package func cgroupReadings() -> [MemoryReading] {
    var readings: [MemoryReading] = []
    for group in cgroups() {
      var path = group.path
      while true {
        if let reading = Self.reading(group.version, group.point + path) { readings.append(reading) }
        guard let slash = path.lastIndex(of: "/") else { break }
        path = String(path[..<slash])
      }
    }
    return readings
  }

  /// The cgroups of the program.
  package func cgroups() -> [Cgroup] {
    guard let memberships = KernelFile.text("\(proc)/self/cgroup"),
      let mounts = KernelFile.text("\(proc)/self/mountinfo")
    else { return [] }
    var groups: [Cgroup] = []
    for line in memberships.split(separator: "\n") {
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let version: CgroupVersion
      if fields[0] == "0", fields[1].isEmpty {
        version = .two
      } else if fields[1].split(separator: ",").contains("memory") {
        version = .one
      } else {
        continue
      }
      guard let mount = Self.mount(of: version, in: mounts) else { continue }
      // A path above the mounted root is not visible here.
      guard let path = Self.path(fields[2], below: mount.root) else { continue }
      groups.append(Cgroup(version: version, point: mount.point, path: path))
    }
    return groups
  }

  /// The mount point of the hierarchy, and the folder of it that is mounted there.
  private static func mount(of version: CgroupVersion, in mounts: String) -> (root: String, point: String)? {
    for line in mounts.split(separator: "\n") {
      // Optional fields end with a dash. File system, source and options follow.
      let fields = line.split(separator: " ")
      guard let dash = fields.firstIndex(of: "-"), dash >= 5, fields.count > dash + 3 else { continue }
      let isIt =
        switch version {
        case .two: fields[dash + 1] == "cgroup2"
        case .one: fields[dash + 1] == "cgroup" && fields[dash + 3].split(separator: ",").contains("memory")
        }
      if isIt { return (String(fields[3]), String(fields[4])) }
    }
    return nil
  }

  /// The path below `root`, with a slash in front and none at the end; empty for the root itself.
  private static func path(_ path: Substring, below root: String) -> String? {
    var relative = path
    if root != "/" {
      guard relative == root || relative.hasPrefix(root + "/") else { return nil }
      relative = relative.dropFirst(root.count)
    }
    while relative.hasSuffix("/") { relative = relative.dropLast() }
    return String(relative)
  }

  /// The reading of one group; `nil` where it has no limit.
  package static func reading(_ version: CgroupVersion, _ folder: String) -> MemoryReading? {
    // Above memory.high the kernel kills no process, but slows down allocations and makes them reclaim.
    let (limits, usage, inactive) =
      switch version {
      case .two: (["memory.max", "memory.high"], "memory.current", "inactive_file")
      case .one: (["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file")
      }
    // Without a limit, version 1 reports nearly 2^63.
    guard let capacity = limits.compactMap({ KernelFile.number("\(folder)/\($0)") }).min(),
      capacity < 1 << 62,
      let used = KernelFile.number("\(folder)/\(usage)")
    else { return nil }
    let table = KernelFile.text("\(folder)/memory.stat").map(KernelFile.table) ?? [:]
    return MemoryReading(capacity: capacity, inUse: used - min(used, table[Substring(inactive)] ?? 0))
  }
}

extension [MemoryReading] {
  /// The reading with the largest share in use.
  var shortest: MemoryReading? { self.max { $0.share < $1.share } }
}

extension MemoryReading {
  fileprivate var share: Double { capacity == 0 ? 1 : Double(inUse) / Double(capacity) }
}
