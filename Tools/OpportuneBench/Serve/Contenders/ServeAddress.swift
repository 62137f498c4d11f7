import Glibc
import OpportuneBase

/// Where a contender's server is connected to.
package enum ServeAddress: Sendable, Codable, Equatable {
  /// The path of a Unix socket.
  case unix(String)
  /// A port of 127.0.0.1.
  case tcp(UInt16)

  /// By what clients and servers are connected.
  package enum Kind: String, Sendable, Codable, CaseIterable { case unix, tcp }

  /// Calls `body` with a new stream socket, which is not connected, and the address. If `body` returns
  /// false, its `errno` is the error.
  ///
  /// - Returns: the socket, which sends what is small at once.
  func makeSocket(_ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Bool) throws -> Int32 {
    switch self {
    case .unix(let path):
      guard let address = UnixSocketAddress(path) else {
        throw EngineError(.system(ENAMETOOLONG), "no socket can be at '\(path)'")
      }
      return try make(AF_UNIX) { socket in address.withPointer { body(socket, $0, $1) } }
    case .tcp(let port):
      return try make(AF_INET) { socket in
        Self.set(socket, Int32(IPPROTO_TCP), TCP_NODELAY)
        return Self.withLoopback(port) { body(socket, $0, $1) }
      }
    }
  }

  private func make(_ family: Int32, _ body: (Int32) -> Bool) throws -> Int32 {
    let socket = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard socket >= 0 else { throw EngineError.failed("no socket was made") }
    guard body(socket) else {
      let error = EngineError.failed("\(self)")
      close(socket)
      throw error
    }
    return socket
  }

  /// Turns an option on.
  static func set(_ socket: Int32, _ level: Int32, _ option: Int32) {
    var isOn: Int32 = 1
    setsockopt(socket, level, option, &isOn, socklen_t(MemoryLayout<Int32>.size))
  }

  fileprivate static func withLoopback<Result>(
    _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
    return withUnsafePointer(to: address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }
}

/// A free port of 127.0.0.1, for as long as this lives: nobody else gets it, so a client that connects before
/// the server listens is not given it as its own port and connected to itself. The server may bind to it,
/// since both ask to reuse the address (socket(7)).
final class ReservedPort {
  let number: UInt16
  private let socket: Int32

  init() throws {
    var bound = sockaddr_in()
    socket = try ServeAddress.tcp(0).makeSocket { socket, address, length in
      ServeAddress.set(socket, SOL_SOCKET, SO_REUSEADDR)
      guard bind(socket, address, length) == 0 else { return false }
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      return withUnsafeMutablePointer(to: &bound) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) == 0 }
      }
    }
    number = UInt16(bigEndian: bound.sin_port)
  }

  deinit { close(socket) }
}

extension ServeAddress: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unix(let path): "'\(path)'"
    case .tcp(let port): "127.0.0.1, port \(port)"
    }
  }
}
