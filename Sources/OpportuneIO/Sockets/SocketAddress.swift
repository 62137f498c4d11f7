import Glibc
internal import OpportuneBase
import SystemPackage

/// The address of a socket: a numeric Internet address, or a path.
public enum SocketAddress: Sendable, Hashable {
  /// A numeric IPv4 address, such as "127.0.0.1".
  case ipv4(String, port: UInt16)
  /// A numeric IPv6 address, such as "::1". A link-local one says behind which interface of this machine its
  /// link is, by name or number: "fe80::1%eth0", "fe80::1%2". Addresses from the kernel have its name.
  case ipv6(String, port: UInt16)
  /// The path of a Unix domain socket, such as "/run/search.sock"; at most 107 bytes.
  case unix(FilePath)

  /// The path of a Unix domain socket. It is checked where the address is used, which throws ``IOError`` with
  /// `configuration`: it has 1 to 107 bytes, none of them zero.
  public static func unix(_ path: String) -> SocketAddress {
    // A `FilePath` ends at a zero, and what is left could be another socket's.
    .unix(path.utf8.contains(0) ? FilePath() : FilePath(path))
  }

  static let storageCount = MemoryLayout<sockaddr_storage>.size

  var family: Int32 {
    switch self {
    case .ipv4: AF_INET
    case .ipv6: AF_INET6
    case .unix: AF_UNIX
    }
  }

  /// Whether a call with the address can be started: it is numeric, or its path has a length that the kernel
  /// accepts.
  package var isWellFormed: Bool {
    withUnsafeTemporaryAllocation(byteCount: Self.storageCount, alignment: 8) { memory in
      guard let base = memory.baseAddress else { return false }
      return (try? write(to: base)) != nil
    }
  }

  /// Writes the kernel's form into `memory`, of ``storageCount`` bytes, and returns its length.
  func write(to memory: UnsafeMutableRawPointer) throws(IOError) -> Int {
    memory.initializeMemory(as: UInt8.self, repeating: 0, count: Self.storageCount)
    switch self {
    case .ipv4(let text, let port):
      let address = memory.bindMemory(to: sockaddr_in.self, capacity: 1)
      address.pointee.sin_family = sa_family_t(AF_INET)
      address.pointee.sin_port = port.bigEndian
      guard inet_pton(AF_INET, text, &address.pointee.sin_addr) == 1 else {
        throw Self.refused(text, "an IPv4 address")
      }
      return MemoryLayout<sockaddr_in>.size
    case .ipv6(let text, let port):
      let address = memory.bindMemory(to: sockaddr_in6.self, capacity: 1)
      address.pointee.sin6_family = sa_family_t(AF_INET6)
      address.pointee.sin6_port = port.bigEndian
      let end = text.firstIndex(of: "%")
      guard inet_pton(AF_INET6, String(text[..<(end ?? text.endIndex)]), &address.pointee.sin6_addr) == 1
      else {
        throw Self.refused(text, "an IPv6 address")
      }
      if let end {
        let scope = String(text[end...].dropFirst())
        guard let index = Self.interface(scope) else {
          throw Self.refused(text, "an IPv6 address with an interface of this machine")
        }
        address.pointee.sin6_scope_id = index
      }
      return MemoryLayout<sockaddr_in6>.size
    case .unix(let path):
      guard let address = UnixSocketAddress(path.string) else {
        throw Self.refused(path.string, "a path of 1 to \(UnixSocketAddress.longestPath) bytes")
      }
      return address.withPointer { source, count in
        memory.copyMemory(from: source, byteCount: Int(count))
        return Int(count)
      }
    }
  }

  private static func refused(_ text: String, _ expected: String) -> IOError {
    IOError(.configuration, "\"\(text.prefix(120))\" is not \(expected)")
  }

  /// Decodes the kernel's form; nil for other families.
  init?(_ memory: UnsafeRawPointer, count: Int) {
    guard count >= MemoryLayout<sa_family_t>.size else { return nil }
    switch Int32(memory.load(as: sa_family_t.self)) {
    case AF_INET where count >= MemoryLayout<sockaddr_in>.size:
      var address = memory.load(as: sockaddr_in.self)
      self = .ipv4(Self.text(AF_INET, &address.sin_addr), port: UInt16(bigEndian: address.sin_port))
    case AF_INET6 where count >= MemoryLayout<sockaddr_in6>.size:
      var address = memory.load(as: sockaddr_in6.self)
      let scope = address.sin6_scope_id == 0 ? "" : "%\(Self.name(ofInterface: address.sin6_scope_id))"
      self = .ipv6(
        Self.text(AF_INET6, &address.sin6_addr) + scope, port: UInt16(bigEndian: address.sin6_port))
    case AF_UNIX:
      self = .unix(FilePath(UnixSocketAddress.path(of: UnsafeRawBufferPointer(start: memory, count: count))))
    default: return nil
    }
  }

  /// The number of the network interface with this name or number.
  private static func interface(_ text: String) -> UInt32? {
    let index = if_nametoindex(text)
    if index != 0 { return index }
    return UInt32(text).flatMap { $0 == 0 ? nil : $0 }
  }

  /// Its name; its number where it has gone meanwhile.
  private static func name(ofInterface index: UInt32) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(IF_NAMESIZE)) { text in
      guard let base = text.baseAddress, if_indextoname(index, base) != nil else { return "\(index)" }
      return String(cString: base)
    }
  }

  private static func text(_ family: Int32, _ address: UnsafeRawPointer) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
      guard let base = text.baseAddress, inet_ntop(family, address, base, 64) != nil else { return "" }
      return String(cString: base)
    }
  }
}
