import Glibc
import SystemPackage

/// A filter of ours on a socket, which lets no packet in, and the app's own, whose place it has meanwhile.
/// (R-NET-01)
///
/// A socket has one filter. The kernel tells a classic program (`SO_GET_FILTER`, Linux 3.8), but none of
/// eBPF, and replaces none once `SO_LOCK_FILTER` is set: packets are kept then, rather than that the app
/// loses its own.
struct SocketFilter: Equatable {
  /// `struct sock_filter` of `linux/filter.h`, which Glibc's module does not have.
  struct Instruction: Equatable {
    var code: UInt16
    var jt: UInt8 = 0
    var jf: UInt8 = 0
    var k: UInt32

    /// "Return 0": no byte of any packet.
    static let drop = Instruction(code: 0x06, k: 0)
  }

  /// `struct sock_fprog`.
  private struct Program {
    var count: UInt16
    var first: UnsafeMutablePointer<Instruction>?
  }

  /// The app's, while ours is there; empty where it has none.
  private var own: [Instruction]?

  var isAttached: Bool { own != nil }

  /// - Throws: why packets go on coming in.
  mutating func attach(to socket: Int32) throws(Errno) {
    let own = try Self.program(of: socket)
    try Self.set([.drop], on: socket)
    self.own = own
  }

  /// The app's own is back, in one step. One that it has put there meanwhile stays.
  ///
  /// - Throws: why its own is not back. Ours is gone nevertheless, unless the app has locked it.
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
    var count = socklen_t(0)  // of instructions
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

  /// Puts a program in the place of whatever is there; an empty one is none.
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
