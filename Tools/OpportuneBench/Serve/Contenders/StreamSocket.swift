import Dispatch
import Glibc
import OpportuneBase

/// Stream sockets, as plain programs use them.
enum StreamSocket {
  static func listen(at address: ServeAddress) throws -> Int32 {
    try address.makeSocket { socket, address, length in
      ServeAddress.set(socket, SOL_SOCKET, SO_REUSEADDR)
      return bind(socket, address, length) == 0 && Glibc.listen(socket, 256) == 0
    }
  }

  /// Serves each connection that is made there, by Dispatch's readiness, until the source is cancelled.
  ///
  /// - Parameter serve: gets each socket that `sockets` has taken.
  static func accept(
    at address: ServeAddress, _ quality: DispatchQoS.QoSClass, into sockets: OpenSockets,
    _ serve: @escaping @Sendable (Int32) -> Void
  ) throws -> any DispatchSourceRead {
    let listening = try listen(at: address)
    _ = fcntl(listening, F_SETFL, O_NONBLOCK)
    let source = DispatchSource.makeReadSource(fileDescriptor: listening, queue: .global(qos: quality))
    source.setEventHandler {
      while true {
        let socket = Glibc.accept(listening, nil, nil)
        guard socket >= 0, sockets.add(socket) else { break }
        serve(socket)
      }
    }
    source.setCancelHandler { close(listening) }
    source.activate()
    return source
  }

  static func connect(to address: ServeAddress) throws -> Int32 {
    try address.makeSocket { Glibc.connect($0, $1, $2) == 0 }
  }

  /// Sends all of it; false where the peer has gone.
  @discardableResult
  static func send(_ bytes: [UInt8], to socket: Int32) -> Bool {
    bytes.withUnsafeBytes { bytes in
      let sent = inPieces(bytes.count) { done in
        Glibc.send(socket, bytes.baseAddress.map { $0 + done }, bytes.count - done, Int32(MSG_NOSIGNAL))
      }
      return sent.done == bytes.count
    }
  }

  /// What there is, waiting for at least a byte; nil where the peer has gone, or, on a socket that does not
  /// wait, with an `errno` of `EAGAIN` where nothing has come.
  static func receive(from socket: Int32, into reader: inout MessageReader) -> Int? {
    withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { memory in
      var count = recv(socket, memory.baseAddress, memory.count, 0)
      while count < 0, errno == EINTR { count = recv(socket, memory.baseAddress, memory.count, 0) }
      if count == 0 { errno = ECONNRESET }
      guard count > 0 else { return nil }
      reader.append(UnsafeRawBufferPointer(rebasing: memory[..<count]))
      return count
    }
  }
}

/// The sockets of a server of plain threads or queues, so that it can end them.
final class OpenSockets: @unchecked Sendable {
  private let lock = Lock()
  private var sockets: Set<Int32> = []  // protected by `lock`
  private var isOver = false

  /// Whether it is to be served.
  func add(_ socket: Int32) -> Bool {
    lock.withLock {
      if !isOver { sockets.insert(socket) }
      return !isOver
    }
  }

  /// By whoever served it, with the last that it does to it.
  func close(_ socket: Int32) {
    lock.withLock {
      sockets.remove(socket)
      Glibc.close(socket)
    }
  }

  /// Whoever reads or accepts finds the end.
  func shutDown() {
    lock.withLock {
      isOver = true
      for socket in sockets { shutdown(socket, Int32(SHUT_RDWR)) }
    }
  }
}
