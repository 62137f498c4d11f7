import Foundation
import Glibc

/// Lines over a Unix socket, for both ends.
enum LocalSocket {
  /// Longer lines are refused.
  static let longestLine = 64 * 1024

  /// Sends a line to a host and waits for its answer, for as long as the host takes.
  static func ask(_ line: Data, at path: String) throws(PushError) -> String {
    let descriptor: Int32
    do { descriptor = try open(path) { connect($0, $1, $2) } } catch { throw noSocket(path) ?? error }
    defer { close(descriptor) }
    guard write(line + [10], to: descriptor) else { throw PushError.system(path, reason()) }
    guard let answer = readLine(from: descriptor) else { throw PushError.refused("the host closed the connection") }
    return String(decoding: answer, as: UTF8.self)
  }

  /// Of what is there and is no socket the kernel says only that it refuses connections.
  private static func noSocket(_ path: String) -> PushError? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFSOCK else { return nil }
    let kind = status.st_mode & S_IFMT == S_IFDIR ? "a directory" : "a file"
    return PushError.system(path, "this is \(kind), expected a host's socket")
  }

  static func reason() -> String { String(cString: strerror(errno)) }

  static func open(
    _ path: String, _ use: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(PushError) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let limit = MemoryLayout.size(ofValue: address.sun_path) - 1
    let bytes = Array(path.utf8)
    guard (1...limit).contains(bytes.count), !bytes.contains(0) else { throw PushError.path(path, limit: limit) }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw PushError.system(path, reason()) }
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        use(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else {
      let reason = reason()
      close(descriptor)
      throw PushError.system(path, reason)
    }
    return descriptor
  }

  /// The user of the process at the other end, as the kernel saw it connect.
  static func user(of client: Int32) -> UInt32? {
    var credentials: (pid: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
    var size = socklen_t(MemoryLayout.size(ofValue: credentials))
    guard getsockopt(client, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else { return nil }
    return credentials.user
  }

  static func write(_ data: Data, to descriptor: Int32) -> Bool {
    var rest = data[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Without its end; `nil` at the end of the stream, or on an error.
  static func readLine(from descriptor: Int32) -> Data? {
    var line = Data()
    var byte: UInt8 = 0
    while line.count < longestLine {
      let count = recv(descriptor, &byte, 1, 0)
      if count < 0, errno == EINTR { continue }
      guard count == 1 else { return nil }
      if byte == 10 { return line }
      line.append(byte)
    }
    return line
  }
}
