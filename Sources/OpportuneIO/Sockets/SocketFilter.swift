import Glibc
import SystemPackage

/// A packet filter that drops all packets of a socket, and the app's own filter that it replaces meanwhile.
/// (R-NET-01)
///
/// A socket has one filter. The kernel returns a classic program (`SO_GET_FILTER`, Linux 3.8), but not an
/// eBPF program, and replaces none once `SO_LOCK_FILTER` is set. In those cases packets are not dropped, so
/// that the app does not lose its own filter.
struct SocketFilter: Equatable {
  /// `struct sock_filter` of `linux/filter.h`, which Glibc's module does not have.
  struct Instruction: Equatable {
    var code: UInt16
    var jt: UInt8 = 0
    var jf: UInt8 = 0
    var k: UInt32

    /// "Return 0": accept no byte of any packet.
    static let drop = Instruction(code: 0x06, k: 0)
  }

  /// `struct sock_fprog`.
  private struct Program {
    var count: UInt16
    var first: UnsafeMutablePointer<Instruction>?
  }

  /// The app's own program while ours is attached; empty where it has none.
  private var own: [Instruction]?

  var isAttached: Bool { own != nil }

  /// - Throws: why packets still come in.
  mutating func attach(to socket: Int32) throws(Errno) {
    let own = try Self.program(of: socket)
    try Self.set([.drop], on: socket)
    self.own = own
  }

  /// Restores the app's own filter, in one step. A filter that the app has attached meanwhile is kept.
  ///
  /// - Throws: why the app's filter is not restored. Ours is removed nevertheless, unless the app has locked
  ///   it.
  mutating func detach(from socket: Int32) throws(Errno) {
    guard let own else { return }
    self.own = nil
    guard (try? Self.program(of: socket)) == [.drop] else { return }
    do throws(Errno) {
      try Self.set(own, on: socket)
    } catch {
      try? Self.set([], on: socket)
      throw error
    }
  }

  /// The program on a socket; empty where there is none.
  static func program(of socket: Int32) throws(Errno) -> [Instruction] {
    var count = socklen_t(0)  // a count of instructions
    guard getsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, nil, &count) == 0 else {
      throw Errno(rawValue: errno)
    }
    guard count > 0 else { return [] }
    var program = [Instruction](repeating: .drop, count: Int(count))
    guard getsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, &count) == 0 else {
      throw Errno(rawValue: errno)
    }
    return Array(program.prefix(Int(count)))
  }

  /// Replaces the socket's program; an empty one detaches it.
  static func set(_ program: [Instruction], on socket: Int32) throws(Errno) {
    guard !program.isEmpty else {
      guard SocketModeration.set(socket, SOL_SOCKET, SO_DETACH_FILTER, 0) else {
        throw Errno(rawValue: errno)
      }
      return
    }
    var program = program
    let error: Int32? = program.withUnsafeMutableBufferPointer { instructions in
      var program = Program(count: UInt16(clamping: instructions.count), first: instructions.baseAddress)
      let size = socklen_t(MemoryLayout<Program>.size)
      return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, size) == 0 ? nil : errno
    }
    if let error { throw Errno(rawValue: error) }
  }
}
