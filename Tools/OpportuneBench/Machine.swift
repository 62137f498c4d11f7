import Glibc

/// Where the run took place.
package struct MachineReport: Sendable, Equatable, Codable {
  package var kernel: String
  package var cpu: String
  /// CPUs that this process may use.
  package var cores: Int
  /// Mebibytes.
  package var memoryMib: Int
  /// "root" or "ordinary user".
  package var user: String

  package static var isRoot: Bool { geteuid() == 0 }

  static func current() -> MachineReport {
    let allowed = field("Cpus_allowed", of: "/proc/self/status")?
      .compactMap(\.hexDigitValue).reduce(0) { $0 + $1.nonzeroBitCount }
    let cores = allowed ?? sysconf(Int32(_SC_NPROCESSORS_ONLN))
    return MachineReport(
      kernel: TextFile.read("/proc/sys/kernel/osrelease").map(trimmed) ?? "unknown",
      cpu: field("model name", of: "/proc/cpuinfo") ?? "unknown", cores: max(1, cores),
      memoryMib: (field("MemTotal", of: "/proc/meminfo")?.split(separator: " ").first)
        .flatMap { Int($0) }.map { $0 / 1024 } ?? 0,
      user: isRoot ? "root" : "ordinary user")
  }

  private static func field(_ name: String, of path: String) -> String? {
    guard let text = TextFile.read(path) else { return nil }
    for line in text.split(separator: "\n") where line.hasPrefix(name) {
      guard let colon = line.firstIndex(of: ":") else { continue }
      return trimmed(String(line[line.index(after: colon)...]))
    }
    return nil
  }

  private static func trimmed(_ text: String) -> String {
    var text = Substring(text)
    while text.first?.isWhitespace == true { text.removeFirst() }
    while text.last?.isWhitespace == true { text.removeLast() }
    return String(text)
  }
}
