import Glibc
import SystemPackage

/// An option of a socket, with the type of its value; see ``AppIO/set(_:of:to:)``.
public struct SocketOption<Value: Sendable>: Sendable {
  let name: String
  let level: Int32
  let number: Int32
  let encode: @Sendable (Value) -> Int32
  let decode: @Sendable (Int32) -> Value
}

extension SocketOption where Value == Bool {
  private init(_ name: String, _ level: Int32, _ number: Int32) {
    self.init(name: name, level: level, number: number, encode: { $0 ? 1 : 0 }, decode: { $0 != 0 })
  }

  /// TCP only: what is small is sent at once (`TCP_NODELAY`). On unless ``AppIO/connect(to:noDelay:within:)``
  /// or the listener was told otherwise.
  public static let noDelay = SocketOption("no delay", Int32(IPPROTO_TCP), TCP_NODELAY)
  /// Whether the kernel asks a silent peer now and then whether it is still there (`SO_KEEPALIVE`). That has
  /// nothing to do with ``AppIO/keepAlive(_:heartbeat:)``, which is about suspension.
  public static let asksSilentPeers = SocketOption("keep-alive", SOL_SOCKET, SO_KEEPALIVE)
  /// Whether a port may be bound to while old connections of it come to their end (`SO_REUSEADDR`). On for
  /// listeners.
  public static let reusesAddress = SocketOption("reuse of the address", SOL_SOCKET, SO_REUSEADDR)
  /// Whether several sockets of one user may be bound to the same port, and share what comes
  /// (`SO_REUSEPORT`). To set it before the bind, give `reusesPort` to
  /// ``AppIO/listen(on:backlog:noDelay:reusesPort:)`` or ``AppIO/datagramSocket(on:reusesPort:)``.
  public static let reusesPort = SocketOption("reuse of the port", SOL_SOCKET, SO_REUSEPORT)
}

extension SocketOption where Value == Int {
  private init(_ name: String, _ number: Int32) {
    self.init(
      name: name, level: SOL_SOCKET, number: number, encode: { Int32(clamping: $0) }, decode: { Int($0) })
  }

  /// Bytes of the receive buffer (`SO_RCVBUF`). The kernel takes twice what is set, for its own needs, within
  /// its limits, and returns that. It no longer adapts the buffer to the connection once it was set.
  ///
  /// The broker makes the buffers of apps in the background small where ``IOConfiguration`` says so, and
  /// restores them later to what they were before. So set them while the app is active.
  public static let receiveBuffer = SocketOption("receive buffer", SO_RCVBUF)
  /// Bytes of the send buffer (`SO_SNDBUF`); otherwise as ``receiveBuffer``.
  public static let sendBuffer = SocketOption("send buffer", SO_SNDBUF)
}

extension AppIO {
  /// Sets an option of a socket. Waits for nothing.
  ///
  /// - Throws: ``IOError``: `configuration` for a negative number of bytes; `system` with what the kernel
  ///   says, such as `notSocket`, or `notSupported` where such a socket has no such option.
  public func set<Value>(
    _ option: SocketOption<Value>, of socket: FileDescriptor, to value: Value
  ) throws(IOError) {
    var encoded = option.encode(value)
    guard encoded >= 0 else { throw IOError(.configuration, "\(option.name) of \(value)") }
    let size = socklen_t(MemoryLayout<Int32>.size)
    guard setsockopt(socket.rawValue, option.level, option.number, &encoded, size) == 0 else {
      throw Self.failure("setting \(option.name) of descriptor \(socket.rawValue) to \(value)")
    }
  }

  /// The value of an option of a socket. Waits for nothing.
  ///
  /// - Throws: ``IOError``: `system` with what the kernel says, as ``set(_:of:to:)``.
  public func value<Value>(
    of option: SocketOption<Value>, of socket: FileDescriptor
  ) throws(IOError) -> Value {
    var encoded: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(socket.rawValue, option.level, option.number, &encoded, &size) == 0 else {
      throw Self.failure("reading \(option.name) of descriptor \(socket.rawValue)")
    }
    return option.decode(encoded)
  }
}
