import Glibc
import SystemPackage

/// The changes made to a socket's buffers and packets, kept so that they can be undone exactly. (R-NET-01,
/// R-NET-02, R-NET-08)
///
/// The kernel stops tuning a buffer once its size is set; `SO_BUF_LOCK` (Linux 5.14) re-enables the tuning at
/// the restoration. The window clamp makes the advertised window small at once, not only when the buffer has
/// filled.
///
/// The kernel may have tuned a buffer to more than `rmem_max` or `wmem_max` allows to set. It enlarges a
/// receive buffer only when one round trip delivers more than ever before, which a small buffer prevents. So
/// the receive buffer is restored through `SO_RCVLOWAT`. The send buffer grows by itself.
struct SocketModeration: Equatable {
  private var receive: Saved?
  private var send: Saved?
  /// The window clamp before the change.
  private var clamp: Int32?
  private var filter = SocketFilter()

  private struct Saved: Equatable {
    var size: Int32
    var locks: Int32
  }

  private static let bufferLock: Int32 = 72
  private static let sendLock: Int32 = 1
  private static let receiveLock: Int32 = 2
  /// `TCP_CLOSE`.
  private static let closed: UInt8 = 7

  /// Applies `restriction` to the socket, whatever was applied before.
  ///
  /// The buffers of two kinds of socket are not changed. A listening socket's connections would inherit them,
  /// and with them the sizes that they are restored to. An unconnected TCP socket would never have a larger
  /// window: its scale is fixed by the first packet (RFC 7323).
  ///
  /// - Throws: why the socket's packets do not follow `restriction`; all else does.
  mutating func apply(
    _ restriction: IOConfiguration.SocketRestriction, to socket: Int32, isKeptAlive: Bool
  ) throws(Errno) {
    limitBuffers(restriction, socket)
    try drop(restriction.dropsIncoming && !isKeptAlive, socket)
  }

  private mutating func limitBuffers(_ restriction: IOConfiguration.SocketRestriction, _ socket: Int32) {
    guard Self.get(socket, SO_ACCEPTCONN) == 0 else { return }
    let isLimited = receive != nil || send != nil
    guard isLimited || !Self.isUnconnected(socket) else { return }
    if let size = restriction.receiveBuffer {
      save(&receive, socket, SO_RCVBUF)
      clamp = clamp ?? Self.clamp(of: socket)
      Self.set(socket, SOL_SOCKET, SO_RCVBUF, Int32(clamping: size))
      if clamp != nil { Self.setClamp(of: socket, Int32(clamping: size)) }
    } else if let before = receive {
      receive = nil
      restore(before, socket, SO_RCVBUF, SO_RCVBUFFORCE, Self.receiveLock)
      if let clamp { restoreWindow(clamp, before, socket) }
      clamp = nil
    }
    if let size = restriction.sendBuffer {
      save(&send, socket, SO_SNDBUF)
      Self.set(socket, SOL_SOCKET, SO_SNDBUF, Int32(clamping: size))
    } else if let before = send {
      send = nil
      restore(before, socket, SO_SNDBUF, SO_SNDBUFFORCE, Self.sendLock)
    }
  }

  private func save(_ saved: inout Saved?, _ socket: Int32, _ option: Int32) {
    guard saved == nil else { return }
    saved = Saved(size: Self.get(socket, option), locks: Self.get(socket, Self.bufferLock))
  }

  private func restore(_ before: Saved, _ socket: Int32, _ option: Int32, _ force: Int32, _ lock: Int32) {
    // The kernel doubles the value that is set, and returns the doubled one.
    Self.set(socket, SOL_SOCKET, option, before.size / 2)
    // A process with the privilege for larger sizes has set one, so it may force it.
    if before.locks & lock != 0, Self.get(socket, option) < before.size {
      Self.set(socket, SOL_SOCKET, force, before.size / 2)
    }
    let others = Self.get(socket, Self.bufferLock) & ~lock
    Self.set(socket, SOL_SOCKET, Self.bufferLock, others | before.locks & lock)
  }

  private func restoreWindow(_ clamp: Int32, _ before: Saved, _ socket: Int32) {
    if Self.get(socket, SO_RCVBUF) < before.size, before.locks & Self.receiveLock == 0 {
      // A low-water mark that high makes the kernel enlarge the buffer at once (Linux 4.18), as it had done
      // when it tuned the buffer for this window.
      let mark = Self.get(socket, SO_RCVLOWAT)
      Self.set(socket, SOL_SOCKET, SO_RCVLOWAT, clamp)
      Self.set(socket, SOL_SOCKET, SO_RCVLOWAT, mark)
    }
    Self.setClamp(of: socket, clamp)
  }

  private mutating func drop(_ drops: Bool, _ socket: Int32) throws(Errno) {
    guard drops != filter.isAttached else { return }
    if drops { try filter.attach(to: socket) } else { try filter.detach(from: socket) }
  }

  static func get(_ socket: Int32, _ option: Int32) -> Int32 { get(socket, SOL_SOCKET, option) ?? 0 }

  private static func get(_ socket: Int32, _ level: Int32, _ option: Int32) -> Int32? {
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(socket, level, option, &value, &size) == 0 ? value : nil
  }

  /// Whether this is a TCP socket that is neither connected nor connecting.
  private static func isUnconnected(_ socket: Int32) -> Bool {
    var state: UInt8 = 0  // the first field
    var size = socklen_t(1)
    return getsockopt(socket, Int32(IPPROTO_TCP), TCP_INFO, &state, &size) == 0 && state == closed
  }

  /// `nil` where this is not a TCP socket.
  static func clamp(of socket: Int32) -> Int32? { get(socket, Int32(IPPROTO_TCP), TCP_WINDOW_CLAMP) }

  static func setClamp(of socket: Int32, _ bytes: Int32) {
    set(socket, Int32(IPPROTO_TCP), TCP_WINDOW_CLAMP, bytes)
  }

  @discardableResult static func set(_ socket: Int32, _ level: Int32, _ option: Int32, _ value: Int32) -> Bool
  {
    var value = value
    return setsockopt(socket, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
  }
}
