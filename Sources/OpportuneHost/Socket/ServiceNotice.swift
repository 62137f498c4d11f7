internal import Glibc
internal import OpportuneBase

/// Tells the service manager that has started this process how it is: a datagram to the socket that the
/// variable NOTIFY_SOCKET names, as sd_notify(3) describes. Where there is no such variable, nobody asked.
package struct ServiceNotice: Sendable {
  private let address: String

  /// Takes the variable out of the environment, which is not for the programs that are started.
  ///
  /// - Returns: `nil` where there is none. Before other threads read the environment.
  package init?() {
    guard let value = getenv("NOTIFY_SOCKET") else { return nil }
    address = String(cString: value)
    unsetenv("NOTIFY_SOCKET")
  }

  /// - Parameter socket: a path, or an abstract name that begins with `@`.
  package init(socket: String) { address = socket }

  /// - Parameter lines: as `READY=1`.
  /// - Returns: why it was not told, for people; `nil`: it was.
  package func send(_ lines: String...) -> String? {
    var name = Array(address.utf8)
    guard name.first == UInt8(ascii: "@") || name.first == UInt8(ascii: "/") else {
      return "NOTIFY_SOCKET is '\(address)': expected a path or '@' and a name"
    }
    if name[0] == UInt8(ascii: "@") { name[0] = 0 }
    var place = sockaddr_un()
    place.sun_family = sa_family_t(AF_UNIX)
    let room = MemoryLayout.size(ofValue: place.sun_path)
    guard name.count < room else { return "NOTIFY_SOCKET is longer than \(room - 1) bytes" }
    withUnsafeMutableBytes(of: &place.sun_path) { $0.copyBytes(from: name) }
    // Of an abstract name the length is its end, of a path the null byte.
    let start = MemoryLayout<sockaddr_un>.offset(of: \sockaddr_un.sun_path) ?? 2
    let length = socklen_t(start + name.count + (name[0] == 0 ? 0 : 1))
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return "the service manager was not told: \(errorText(errno))" }
    defer { close(descriptor) }
    let text = Array(lines.joined(separator: "\n").utf8)
    while true {
      let sent = withUnsafePointer(to: &place) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          sendto(descriptor, text, text.count, Int32(MSG_NOSIGNAL), $0, length)
        }
      }
      if sent >= 0 { return nil }
      if errno != EINTR { return "the service manager was not told: \(errorText(errno))" }
    }
  }
}
