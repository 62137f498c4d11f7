internal import Glibc
internal import OpportuneBase

/// Tells when memory is short on the machine: the kernel's pressure stall information, by a trigger, so that
/// nothing is polled.
///
/// A window of two seconds needs no privilege, since Linux 6.5; the kernel tells once in a window at most.
package final class MemoryPressure: Sendable {
  /// When tasks have waited for memory for a tenth of two seconds.
  static let trigger = "some 200000 2000000"

  let descriptor: Int32
  /// What is waited for.
  let events: Int16

  /// Whether a reader takes what has come, as of a pipe in place of the kernel's file.
  private let isStream: Bool

  /// - Throws: ``ProcessHostError``: `system` where the kernel has no such file, or refuses.
  package init(path: String = "/proc/pressure/memory") throws(ProcessHostError) {
    descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
    (events, isStream) = (Int16(POLLPRI), false)
    guard descriptor >= 0 else { throw ProcessHostError(.system("no warnings of memory: '\(path)'", errno)) }
    // With its null byte.
    let bytes = Array(Self.trigger.utf8) + [0]
    guard write(descriptor, bytes, bytes.count) >= 0 else {
      let number = errno
      close(descriptor)
      throw ProcessHostError(.system("no warnings of memory: '\(path)'", number))
    }
  }

  /// - Parameter stream: where a byte comes when memory is short; closed with this.
  init(stream: Int32) { (descriptor, events, isStream) = (stream, Int16(POLLIN), true) }

  deinit { close(descriptor) }

  /// - Returns: whether memory is short, by what poll(2) has said.
  func hears(_ events: Int16) -> Bool {
    var bytes = [UInt8](repeating: 0, count: 64)
    if isStream, events & self.events != 0 { return read(descriptor, &bytes, bytes.count) > 0 }
    return events & self.events != 0 && events & Int16(POLLERR) == 0
  }
}
