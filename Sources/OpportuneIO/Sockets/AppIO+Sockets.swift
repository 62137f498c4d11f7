internal import COpportune
import Glibc
import Synchronization
import SystemPackage

/// Sockets: TCP, UDP and Unix domain. Every call throws ``IOError``. Calls that may wait for a peer take a
/// time `limit` from now on; see ``AppIO``.
extension AppIO {
  /// Connects a stream socket.
  ///
  /// - Parameter noDelay: TCP only: whether data is sent at once (`TCP_NODELAY`). If `false`, the kernel may
  ///   keep a small part until earlier data has arrived, to send fewer and larger packets (Nagle's
  ///   algorithm).
  public func connect(
    to address: SocketAddress, noDelay: Bool = true, within limit: Duration? = nil
  ) async throws(IOError) -> FileDescriptor {
    let socket = try makeSocket(address.family, SOCK_STREAM)
    setDelay(socket, address.family, noDelay)
    adopt(socket)
    do throws(IOError) {
      var call = call(.OPP_RING_CONNECT, .network, socket)
      call.subject = .address(address)
      let memory = call.allocate(SocketAddress.storageCount)
      call.op.second = UInt64(try address.write(to: memory))
      call.op.address = UInt64(UInt(bitPattern: memory))
      try await perform(call, within: limit)
      return socket
    } catch {
      try? await close(socket)
      throw error
    }
  }

  /// Listens for stream connections.
  ///
  /// - Parameters:
  ///   - address: port 0 selects a free port; ``address(of:)`` returns it. A Unix socket makes a file there,
  ///     which stays when the socket is closed; where there is one already, that is
  ///     `.system(.addressInUse)`, so the program removes what an earlier run has left.
  ///   - backlog: connections that may wait to be accepted; 1 to 65,535.
  ///   - noDelay: for the accepted connections, as in ``connect(to:noDelay:within:)``.
  ///   - reusesPort: whether others of the same user that ask for it too may listen there as well.
  public func listen(
    on address: SocketAddress, backlog: Int = 128, noDelay: Bool = true, reusesPort: Bool = false
  ) async throws(IOError) -> Listener {
    try require(backlog, in: 1...65_535, "backlog")
    let socket = try bound(to: address, SOCK_STREAM, reusesPort)
    // Connections inherit it from the listening socket, from the first packet on.
    setDelay(socket, address.family, noDelay)
    guard Glibc.listen(socket.rawValue, Int32(backlog)) == 0 else {
      throw Self.failure("listen", closing: socket)
    }
    adopt(socket)
    return Listener(io: self, descriptor: socket)
  }

  /// Makes a datagram socket that is bound to an address.
  ///
  /// - Parameters:
  ///   - address: port 0 selects a free port; ``address(of:)`` returns it.
  ///   - reusesPort: whether others of the same user that ask for it too may be bound to it as well.
  public func datagramSocket(
    on address: SocketAddress, reusesPort: Bool = false
  ) async throws(IOError) -> FileDescriptor {
    let socket = try bound(to: address, SOCK_DGRAM, reusesPort)
    adopt(socket)
    return socket
  }

  /// The address that a socket is bound to.
  public func address(of socket: FileDescriptor) throws(IOError) -> SocketAddress {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: SocketAddress.storageCount, alignment: 8)
    defer { memory.deallocate() }
    var count = socklen_t(SocketAddress.storageCount)
    let result = getsockname(socket.rawValue, memory.assumingMemoryBound(to: sockaddr.self), &count)
    guard result == 0 else { throw Self.failure("getsockname") }
    guard let address = SocketAddress(memory, count: Int(count)) else {
      throw IOError(.system(.addressFamilyNotSupported), "the socket's address is of no family known here")
    }
    return address
  }

  private func makeSocket(_ family: Int32, _ kind: __socket_type) throws(IOError) -> FileDescriptor {
    let socket = Glibc.socket(family, Int32(kind.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard socket >= 0 else { throw Self.failure("socket") }
    return FileDescriptor(rawValue: socket)
  }

  private func setDelay(_ socket: FileDescriptor, _ family: Int32, _ noDelay: Bool) {
    guard family != AF_UNIX else { return }
    SocketModeration.set(socket.rawValue, Int32(IPPROTO_TCP), TCP_NODELAY, noDelay ? 1 : 0)
  }

  /// Registers the socket with the app, which closes it at its end. From now on all calls on it must go
  /// through the broker: its number may belong to another file after a close.
  private func adopt(_ socket: FileDescriptor) {
    reactor.post(
      Control(refused: { _ = Glibc.close(socket.rawValue) }) { [self] in
        $0.adopt(socket.rawValue, isSocket: true, by: entry)
      })
  }

  private func bound(
    to address: SocketAddress, _ kind: __socket_type, _ reusesPort: Bool
  ) throws(IOError) -> FileDescriptor {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: SocketAddress.storageCount, alignment: 8)
    defer { memory.deallocate() }
    let count = try address.write(to: memory)
    let socket = try makeSocket(address.family, kind)
    // Not for datagrams: two sockets could then have the same address, and one of them would receive nothing.
    if address.family != AF_UNIX, kind == SOCK_STREAM {
      SocketModeration.set(socket.rawValue, SOL_SOCKET, SO_REUSEADDR, 1)
    }
    if address.family != AF_UNIX, reusesPort {
      SocketModeration.set(socket.rawValue, SOL_SOCKET, SO_REUSEPORT, 1)
    }
    let result = bind(socket.rawValue, memory.assumingMemoryBound(to: sockaddr.self), socklen_t(count))
    guard result == 0 else {
      let isTaken = address.family == AF_UNIX && errno == EADDRINUSE
      throw Self.failure(
        "bind to \(address)", closing: socket,
        hint: isTaken
          ? "; a socket's file stays when the socket is closed, so remove what is left of one" : "")
    }
    return socket
  }

  private static func failure(
    _ call: String, closing socket: FileDescriptor, hint: String = ""
  ) -> IOError {
    var error = failure(call)
    if !hint.isEmpty { error = IOError(error.code, error.message + hint) }
    _ = Glibc.close(socket.rawValue)
    return error
  }

  /// What the last call on this thread failed with.
  static func failure(_ call: String) -> IOError {
    let code = Errno(rawValue: errno)
    return IOError(.system(code), "\(call): \(code)")
  }

  // MARK: Streams

  /// Receives the bytes that are available, waiting for at least one.
  ///
  /// A call that ends early, by its deadline, a cancellation or an error, may have received bytes that are
  /// then lost. The stream is unusable afterwards.
  ///
  /// - Returns: the number of bytes; 0 where the peer has closed its side.
  public func receive(
    _ socket: FileDescriptor, into buffer: IOBuffer, _ range: Range<Int>? = nil, untilFull: Bool = false,
    within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    var call = call(.OPP_RING_RECEIVE, .network, socket)
    try call.use(buffer, range)
    call.isStream = true
    call.wantsAll = untilFull
    return try await perform(call, within: limit)
  }

  /// Sends all of a range of a buffer. Returns when the kernel has accepted it. On a stream socket make one
  /// send at a time: the parts of two may interleave.
  public func send(
    _ socket: FileDescriptor, from buffer: IOBuffer, _ range: Range<Int>? = nil, within limit: Duration? = nil
  ) async throws(IOError) {
    var call = call(.OPP_RING_SEND, .network, socket)
    try call.use(buffer, range)
    call.isStream = true
    call.wantsAll = true
    try await perform(call, within: limit)
  }

  /// A direction of a connection.
  public enum Half: Sendable, Hashable, CaseIterable {
    /// No further data is received.
    case receiving
    /// The peer reads what was sent, and then the end of the stream.
    case sending
    /// Both directions end.
    case both
  }

  /// Ends one or both directions of a connection; the descriptor stays open.
  public func shutdown(
    _ socket: FileDescriptor, _ half: Half = .sending, within limit: Duration? = nil
  ) async throws(IOError) {
    var call = call(.OPP_RING_SHUTDOWN, .none, socket)
    call.op.length =
      switch half {
      case .receiving: UInt32(SHUT_RD)
      case .sending: UInt32(SHUT_WR)
      case .both: UInt32(SHUT_RDWR)
      }
    try await perform(call, within: limit)
  }

  // MARK: Datagrams

  /// Sends a whole datagram.
  public func send(
    _ socket: FileDescriptor, from buffer: IOBuffer, _ range: Range<Int>? = nil, to address: SocketAddress,
    within limit: Duration? = nil
  ) async throws(IOError) {
    var call = call(.OPP_RING_SEND_MESSAGE, .network, socket)
    call.subject = .address(address)
    let message = try message(&call, buffer, range)
    do throws(IOError) {
      message.pointee.msg_namelen = socklen_t(try address.write(to: message.pointee.msg_name))
    } catch {
      call.giveBackBuffers()
      throw error
    }
    try await perform(call, within: limit)
  }

  /// Receives a datagram. Bytes that do not fit into the buffer are lost; the result says whether there were
  /// any.
  ///
  /// - Returns: the number of bytes in the buffer; the sender's address, nil where it has none; and whether
  ///   the datagram was longer than the buffer.
  public func receiveDatagram(
    _ socket: FileDescriptor, into buffer: IOBuffer, _ range: Range<Int>? = nil, within limit: Duration? = nil
  ) async throws(IOError) -> (count: Int, from: SocketAddress?, isTruncated: Bool) {
    var call = call(.OPP_RING_RECEIVE_MESSAGE, .network, socket)
    let message = try message(&call, buffer, range)
    message.pointee.msg_namelen = socklen_t(SocketAddress.storageCount)
    let count = try await perform(call, within: limit)
    return withExtendedLifetime(call) {
      let from = SocketAddress(message.pointee.msg_name, count: Int(message.pointee.msg_namelen))
      return (count, from, message.pointee.msg_flags & Int32(MSG_TRUNC) != 0)
    }
  }

  private func message(
    _ call: inout IOCall, _ buffer: IOBuffer, _ range: Range<Int>?
  ) throws(IOError) -> UnsafeMutablePointer<msghdr> {
    try call.use(buffer, range)
    let vector = call.allocate(MemoryLayout<iovec>.stride).initializeMemory(
      as: iovec.self,
      to: iovec(iov_base: UnsafeMutableRawPointer(bitPattern: UInt(call.op.address)), iov_len: call.total))
    let memory = call.allocate(MemoryLayout<msghdr>.stride)
    let message = memory.initializeMemory(as: msghdr.self, to: msghdr())
    message.pointee.msg_iov = vector
    message.pointee.msg_iovlen = 1
    message.pointee.msg_name = call.allocate(SocketAddress.storageCount)
    call.op.address = UInt64(UInt(bitPattern: memory))
    call.moveWhole()
    return message
  }
}

/// A listening socket: an async sequence of the descriptors of its connections. It ends when the socket is
/// closed.
public final class Listener: AsyncSequence, Sendable {
  public typealias Element = FileDescriptor
  public typealias Failure = IOError

  let io: AppIO
  /// The listening socket; ``close()`` closes it.
  public let descriptor: FileDescriptor
  /// Guards against a second close: the number may belong to another file by then.
  private let isClosed = Atomic<Bool>(false)

  init(io: AppIO, descriptor: FileDescriptor) {
    self.io = io
    self.descriptor = descriptor
  }

  /// Waits for a connection, whose descriptor belongs to the app of `io`. A connection that arrives at the
  /// very deadline may be closed without being returned.
  public func accept(within limit: Duration? = nil) async throws(IOError) -> FileDescriptor {
    guard !isClosed.load(ordering: .acquiring) else {
      throw IOError(.system(.badFileDescriptor), "accept on a listener that was closed")
    }
    var call = io.call(.OPP_RING_ACCEPT, .network, descriptor)
    call.op.flags = UInt32(SOCK_CLOEXEC.rawValue)
    return FileDescriptor(rawValue: Int32(try await io.perform(call, within: limit)))
  }

  /// The address on which the socket listens.
  public func address() throws(IOError) -> SocketAddress { try io.address(of: descriptor) }

  /// Closes the socket; waiting accepts end with an error. Later calls do nothing.
  public func close() async throws(IOError) {
    guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
    try await io.close(descriptor)
  }

  public func makeAsyncIterator() -> Iterator { Iterator(listener: self) }

  /// Accepts one connection after the other.
  public struct Iterator: AsyncIteratorProtocol {
    let listener: Listener

    /// Not reported: an error of a connection that ended before it was accepted says nothing about the next
    /// one (accept(2)).
    private static let ofOneConnection: Set<Errno> = [
      .connectionAbort, .protocolError, .networkDown, .protocolNotAvailable, .hostIsDown, .noRouteToHost,
      .networkUnreachable,
    ]

    public func next() async throws(IOError) -> FileDescriptor? { try await next(isolation: nil) }

    public func next(isolation actor: isolated (any Actor)?) async throws(IOError) -> FileDescriptor? {
      while true {
        do throws(IOError) {
          return try await listener.accept()
        } catch {
          switch error.code {
          case .terminated, .unavailable, .system(.canceled), .system(.badFileDescriptor): return nil
          case .system(let errno) where Self.ofOneConnection.contains(errno): continue
          default: throw error
          }
        }
      }
    }
  }
}
