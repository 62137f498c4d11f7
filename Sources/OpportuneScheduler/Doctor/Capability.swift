/// What the kernel lets some processes do; numbers of `linux/capability.h`.
package enum Capability: UInt64 {
  case ipcLock = 14
  case sysAdmin = 21
  case sysNice = 23
  case sysResource = 24

  /// Whether this process has it; nil where /proc does not say.
  package var isEffective: Bool? { SmallFile.read("/proc/self/status").flatMap(isEffective(inStatus:)) }

  func isEffective(inStatus status: String) -> Bool? {
    for line in status.split(separator: "\n") where line.hasPrefix("CapEff:") {
      let effective = UInt64(line.dropFirst(7).drop { $0 == "\t" || $0 == " " }, radix: 16)
      return effective.map { $0 & 1 << rawValue != 0 }
    }
    return nil
  }
}
