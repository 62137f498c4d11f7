package import Glibc

/// The kernel's address of a Unix domain socket with a path.
package struct UnixSocketAddress {
  /// The maximum length in bytes: one less than the field's size, since a zero ends the path.
  package static let longestPath = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private var address = sockaddr_un()

  /// `nil` where the path is not possible for a socket: it is empty, too long, or contains a zero.
  package init?(_ path: String) {
    guard (1...Self.longestPath).contains(path.utf8.count), !path.utf8.contains(0) else { return nil }
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
  }

  /// Calls `body` with the address in the form for `bind` and `connect`.
  package func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    withUnsafePointer(to: address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }

  /// The path in an address from the kernel, which may be truncated anywhere.
  package static func path(of address: UnsafeRawBufferPointer) -> String {
    let offset = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? MemoryLayout<sa_family_t>.size
    return String(decoding: address.dropFirst(offset).prefix { $0 != 0 }, as: UTF8.self)
  }
}
