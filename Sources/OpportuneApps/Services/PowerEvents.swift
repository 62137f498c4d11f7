import Glibc
internal import OpportuneBase
import OpportuneScheduler

/// The kernel's uevents about power supplies. (R-PWR-01)
package enum PowerEvents {
  /// Why the kernel gives no events.
  package struct Refusal: Error, Sendable, Hashable, CustomStringConvertible {
    package let code: Int32
    package var description: String { "kernel uevents: \(errorText(code))" }
  }

  private static let netlinkFamily: UInt16 = 16
  private static let kernelUevents: Int32 = 15

  /// Opens a socket for the kernel's uevents. It needs no privilege, but some containers and sandboxes refuse
  /// it. Close it with `close`.
  ///
  /// - Throws: ``Refusal``.
  package static func open() throws(Refusal) -> Int32 {
    let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(Int32(netlinkFamily), kind, kernelUevents)
    guard descriptor >= 0 else { throw Refusal(code: errno) }
    // A `sockaddr_nl`: family, padding, port (chosen by the kernel), groups (1 is the kernel's own messages).
    var address: (UInt16, UInt16, UInt32, UInt32) = (netlinkFamily, 0, 0, 1)
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, 12) }
    }
    guard result == 0 else {
      let refusal = Refusal(code: errno)
      close(descriptor)
      throw refusal
    }
    return descriptor
  }

  /// Whether a kernel message is about a power supply. Its form is `change@/devices/…`, then `KEY=value`
  /// entries, each ended by a zero byte.
  package static func concernsPower(_ message: some Collection<UInt8>) -> Bool {
    let fields = message.split(separator: 0)
    guard let head = fields.first, head.contains(UInt8(ascii: "@")) else { return false }
    return fields.dropFirst().contains { $0.elementsEqual("SUBSYSTEM=power_supply".utf8) }
  }

  /// Reads all pending messages. Reports a possible change if one was about power, or if messages were lost.
  static func drain(_ descriptor: Int32) -> Outcome {
    var outcome = Outcome.nothing
    var bytes = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      var sender: (UInt16, UInt16, UInt32, UInt32) = (0, 0, 0, 0)
      var length = socklen_t(12)
      let count = withUnsafeMutablePointer(to: &sender) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          recvfrom(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT), $0, &length)
        }
      }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == ENOBUFS {
        outcome = .mayHaveChanged
        continue
      }
      guard count > 0 else { return count == 0 || errno != EAGAIN ? .ended : outcome }
      // Other programs can send to the group as well; only the kernel's port is 0.
      if sender.0 == netlinkFamily, sender.2 != 0 { continue }
      if concernsPower(bytes.prefix(count)) { outcome = .mayHaveChanged }
    }
  }

  enum Outcome { case nothing, mayHaveChanged, ended }

  /// The finding of `opportune doctor` about uevents.
  package static func finding() -> Diagnosis.Finding { finding(open: open) }

  package static func finding(open: () throws(Refusal) -> Int32) -> Diagnosis.Finding {
    do {
      close(try open())
      return Diagnosis.Finding(.system, "power events", .ok, found: "kernel uevents of power supplies")
    } catch {
      return Diagnosis.Finding(
        .system, "power events", .degraded, found: error.description,
        cost: "A host notices mains and battery only when its program tells it, or asks it to look.",
        remedy: "Allow netlink sockets (NETLINK_KOBJECT_UEVENT) in the container or sandbox.")
    }
  }
}
