import Glibc
import SystemPackage

/// What was done to a socket's buffers and packets, so that it can be undone exactly. (R-NET-01, R-NET-02, R-NET-08)
///
/// A receive buffer that is set is not tuned by the kernel any more; `SO_BUF_LOCK` (Linux 5.14) gives that back at the
/// restoration. The window clamp makes the advertised window small at once, not only when the buffer has filled.
struct SocketModeration: Equatable {
  private var receive: Saved?
  private var send: Saved?
  private var isClamped = false
  private var filter = SocketFilter()

  private struct Saved: Equatable {
    var size: Int32
    var locks: Int32
  }

  private static let bufferLock: Int32 = 72
  private static let sendLock: Int32 = 1
  private static let receiveLock: Int32 = 2
  private static let largestWindow: Int32 = 1 << 30

  /// Makes the socket as `restriction` says, from whatever it was made before.
  ///
  /// The buffers of one that listens are left alone: its connections would inherit them, and with that what they are
  /// restored to.
  ///
  /// - Throws: why the socket's packets are not as `restriction` says; all else is.
  mutating func apply(
    _ restriction: IOConfiguration.SocketRestriction, to socket: Int32, isKeptAlive: Bool
  ) throws(Errno) {
    limitBuffers(restriction, socket)
    try drop(restriction.dropsIncoming && !isKeptAlive, socket)
  }

  private mutating func limitBuffers(_ restriction: IOConfiguration.SocketRestriction, _ socket: Int32) {
    guard Self.get(socket, SO_ACCEPTCONN) == 0 else { return }
    limit(&receive, restriction.receiveBuffer, socket, SO_RCVBUF, Self.receiveLock)
    limit(&send, restriction.sendBuffer, socket, SO_SNDBUF, Self.sendLock)
    clampWindow(restriction.receiveBuffer, socket)
  }

  private func limit(
    _ saved: inout Saved?, _ size: Int?, _ socket: Int32, _ option: Int32, _ lock: Int32
  ) {
    if let size {
      if saved == nil {
        saved = Saved(
          size: Self.get(socket, option), locks: Self.get(socket, Self.bufferLock))
      }
      Self.set(socket, SOL_SOCKET, option, Int32(clamping: size))
    } else if let before = saved {
      saved = nil
      // The kernel doubles what it is told, and tells the double.
      Self.set(socket, SOL_SOCKET, option, before.size / 2)
      let others = Self.get(socket, Self.bufferLock) & ~lock
      Self.set(socket, SOL_SOCKET, Self.bufferLock, others | before.locks & lock)
    }
  }

  private mutating func clampWindow(_ size: Int?, _ socket: Int32) {
    guard size != nil || isClamped else { return }
    isClamped = size != nil
    // Refused by what is no TCP socket: nothing is lost there.
    Self.set(socket, Int32(IPPROTO_TCP), TCP_WINDOW_CLAMP, size.map { Int32(clamping: $0) } ?? Self.largestWindow)
  }

  private mutating func drop(_ drops: Bool, _ socket: Int32) throws(Errno) {
    guard drops != filter.isAttached else { return }
    if drops { try filter.attach(to: socket) } else { try filter.detach(from: socket) }
  }

  static func get(_ socket: Int32, _ option: Int32) -> Int32 {
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : 0
  }

  @discardableResult static func set(_ socket: Int32, _ level: Int32, _ option: Int32, _ value: Int32) -> Bool {
    var value = value
    return setsockopt(socket, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
  }
}
