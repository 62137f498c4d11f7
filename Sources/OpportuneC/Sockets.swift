// The names are those of C.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if compiler(>=6.3)
  public import COpportuneC
  internal import Glibc
  internal import OpportuneIO
  internal import SystemPackage

  /// `unix:/path`, `[::1]:80` or `127.0.0.1:80`.
  private func address(_ pointer: UnsafePointer<CChar>?) throws -> SocketAddress {
    guard let text = try text(pointer, "address") else { throw Refusal.invalid("address is NULL") }
    let expected = "expected unix:/path, [::1]:80 or 127.0.0.1:80"
    if text.hasPrefix("unix:") { return .unix(String(text.dropFirst(5))) }
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
      throw Refusal.invalid("address is \(text.prefix(64).debugDescription); \(expected)")
    }
    let host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      return .ipv6(String(host.dropFirst().dropLast()), port: port)
    }
    return .ipv4(String(host), port: port)
  }

  /// Where the caller wants an address as text: OPPORTUNE_ADDRESS_SIZE bytes.
  private struct AddressPlace: @unchecked Sendable {
    // Sendable: it is handed over with the request, as the header says.
    let place: UnsafeMutablePointer<CChar>

    /// Nothing where there is none: an address that is cut would be another's.
    func fill(_ address: SocketAddress?) {
      var text = address.map(Self.text) ?? ""
      let isWhole = text.utf8.count < Int(OPPORTUNE_ADDRESS_SIZE)
      if !isWhole { text = "" }
      text.withCString { place.update(from: $0, count: text.utf8.count + 1) }
    }

    private static func text(_ address: SocketAddress) -> String {
      switch address {
      case .ipv4(let host, let port): "\(host):\(port)"
      case .ipv6(let host, let port): "[\(host)]:\(port)"
      case .unix(let path): path.isEmpty ? "" : "unix:\(path.string)"
      }
    }
  }

  private func flag(_ value: Int64, _ name: String) throws -> Bool {
    guard 0...1 ~= value else { throw Refusal.invalid("\(name) is \(value); expected 0 or 1") }
    return value == 1
  }

  // MARK: Connections

  @c @implementation
  public func opportune_connect(
    _ app: OpaquePointer?, _ to: UnsafePointer<CChar>?, _ timeout: Int64,
    _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let to = try address(to)
      return try request(of: own, completion, context) { io in
        Int64(try await io.connect(to: to, within: limit(timeout)).rawValue)
      }
    }
  }

  @c @implementation
  public func opportune_connect_host(
    _ app: OpaquePointer?, _ host: UnsafePointer<CChar>?, _ port: CInt, _ timeout: Int64,
    _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      guard let host = try text(host, "host") else { throw Refusal.invalid("host is NULL") }
      guard port > 0, let port = UInt16(exactly: port) else {
        throw Refusal.invalid("port is \(port); expected 1 to 65535")
      }
      return try request(of: own, completion, context) { io in
        Int64(try await io.connect(to: host, port: port, within: limit(timeout)).rawValue)
      }
    }
  }

  @c @implementation
  public func opportune_receive(
    _ app: OpaquePointer?, _ socket: CInt, _ bytes: UnsafeMutableRawPointer?, _ count: Int,
    _ timeout: Int64, _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let (socket, memory) = (try descriptor(socket), try Memory(bytes, count))
      return try request(of: own, completion, context) { io in
        let buffer = try IOBuffer(count: memory.bytes.count)
        let count = try await io.receive(socket, into: buffer, within: limit(timeout))
        try memory.takeOver(buffer, count)
        return Int64(count)
      }
    }
  }

  @c @implementation
  public func opportune_send(
    _ app: OpaquePointer?, _ socket: CInt, _ bytes: UnsafeRawPointer?, _ count: Int, _ timeout: Int64,
    _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let (socket, memory) = (try descriptor(socket), try Memory(bytes, count))
      return try request(of: own, completion, context) { io in
        try await io.send(socket, from: try memory.copied(), within: limit(timeout))
        return Int64(memory.bytes.count)
      }
    }
  }

  @c @implementation
  public func opportune_shutdown(
    _ app: OpaquePointer?, _ socket: CInt, _ half: CInt, _ timeout: Int64,
    _ completion: opportune_completion?, _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let socket = try descriptor(socket)
      let halves: [AppIO.Half] = [.receiving, .sending, .both]
      guard halves.indices.contains(Int(half)) else {
        throw Refusal.invalid("half is \(half); expected 0 to \(halves.count - 1)")
      }
      return try request(of: own, completion, context) { io in
        try await io.shutdown(socket, halves[Int(half)], within: limit(timeout))
        return 0
      }
    }
  }

  final class CListener: Handled, Sendable {
    static let kind: UInt8 = 4
    static let label = "a listener"

    let app: CApp
    let listener: Listener

    init(_ app: CApp, _ listener: Listener) {
      self.app = app
      self.listener = listener
    }
  }

  @c @implementation
  public func opportune_listen(
    _ app: OpaquePointer?, _ on: UnsafePointer<CChar>?, _ backlog: CInt,
    _ listener: UnsafeMutablePointer<OpaquePointer?>?
  ) -> CInt {
    opportune_listen_with(app, on, backlog, 1, 0, listener)
  }

  @c @implementation
  public func opportune_listen_with(
    _ app: OpaquePointer?, _ on: UnsafePointer<CChar>?, _ backlog: CInt, _ noDelay: CInt,
    _ reusesPort: CInt, _ listener: UnsafeMutablePointer<OpaquePointer?>?
  ) -> CInt {
    call {
      let result = try required(listener, "listener")
      result.pointee = nil
      let own = try CApp.at(app)
      try own.checkIsAlive()
      let (io, on) = (try own.makeIO(), try address(on))
      let (noDelay, reusesPort) = (
        try flag(Int64(noDelay), "no_delay"), try flag(Int64(reusesPort), "reuses_port")
      )
      let made = try waited {
        try await io.listen(on: on, backlog: Int(backlog), noDelay: noDelay, reusesPort: reusesPort)
      }
      do {
        result.pointee = try CListener(own, made).open()
      } catch {
        try waited { try await made.close() }
        throw error
      }
      return 0
    }
  }

  @c @implementation
  public func opportune_accept(
    _ listener: OpaquePointer?, _ timeout: Int64, _ completion: opportune_completion?,
    _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CListener.at(listener)
      let inner = own.listener
      return try request(of: own.app, completion, context) { _ in
        Int64(try await inner.accept(within: limit(timeout)).rawValue)
      }
    }
  }

  @c @implementation
  public func opportune_listener_port(_ listener: OpaquePointer?) -> CInt {
    call {
      try CListener.with(listener) { own in
        do throws(IOError) {
          return switch try own.listener.address() {
          case .ipv4(_, let port), .ipv6(_, let port): CInt(port)
          case .unix: 0
          }
        } catch {
          throw Refusal(error)
        }
      }
    }
  }

  @c @implementation
  public func opportune_listener_close(_ listener: OpaquePointer?) -> CInt {
    call {
      guard listener != nil else { return 0 }
      let own = try CListener.at(listener)
      // To one caller alone.
      try CListener.release(listener)
      let inner = own.listener
      try waited { try await inner.close() }
      return 0
    }
  }

  // MARK: Options

  private enum Option {
    case flag(SocketOption<Bool>)
    case bytes(SocketOption<Int>)

    init(_ number: CInt) throws {
      let all: [Option] = [
        .flag(.noDelay), .flag(.asksSilentPeers), .flag(.reusesAddress), .flag(.reusesPort),
        .bytes(.receiveBuffer), .bytes(.sendBuffer),
      ]
      guard all.indices.contains(Int(number)) else {
        throw Refusal.invalid("option is \(number); expected 0 to \(all.count - 1)")
      }
      self = all[Int(number)]
    }
  }

  /// What a call that waits for nothing does with a socket.
  private func atOnce<Result>(
    _ app: OpaquePointer?, _ socket: CInt, _ body: (AppIO, FileDescriptor) throws -> Result
  ) throws -> Result {
    let own = try CApp.at(app)
    let socket = try descriptor(socket)
    try own.checkIsAlive()
    do {
      return try body(try own.makeIO(), socket)
    } catch let error as IOError {
      throw Refusal(error)
    }
  }

  @c @implementation
  public func opportune_set_socket_option(
    _ app: OpaquePointer?, _ socket: CInt, _ option: CInt, _ value: Int64
  ) -> CInt {
    call {
      try atOnce(app, socket) { io, socket in
        switch try Option(option) {
        case .flag(let option): try io.set(option, of: socket, to: try flag(value, "value"))
        case .bytes(let option):
          guard let bytes = Int32(exactly: value), bytes >= 0 else {
            throw Refusal.invalid("value is \(value); expected 0 to \(Int32.max)")
          }
          try io.set(option, of: socket, to: Int(bytes))
        }
        return 0
      }
    }
  }

  @c @implementation
  public func opportune_get_socket_option(_ app: OpaquePointer?, _ socket: CInt, _ option: CInt) -> Int64 {
    call {
      try atOnce(app, socket) { io, socket in
        switch try Option(option) {
        case .flag(let option): try io.value(of: option, of: socket) ? 1 : 0
        case .bytes(let option): Int64(try io.value(of: option, of: socket))
        }
      }
    }
  }

  @c @implementation
  public func opportune_socket_address(
    _ app: OpaquePointer?, _ socket: CInt, _ address: UnsafeMutablePointer<CChar>?
  ) -> CInt {
    call {
      let place = AddressPlace(place: try required(address, "address"))
      return try atOnce(app, socket) { io, socket in
        place.fill(try io.address(of: socket))
        return 0
      }
    }
  }

  // MARK: Datagrams

  @c @implementation
  public func opportune_datagram_socket(
    _ app: OpaquePointer?, _ on: UnsafePointer<CChar>?, _ reusesPort: CInt
  ) -> CInt {
    call {
      let own = try CApp.at(app)
      try own.checkIsAlive()
      let (io, on) = (try own.makeIO(), try address(on))
      let reusesPort = try flag(Int64(reusesPort), "reuses_port")
      return try waited { try await io.datagramSocket(on: on, reusesPort: reusesPort).rawValue }
    }
  }

  @c @implementation
  public func opportune_send_to(
    _ app: OpaquePointer?, _ socket: CInt, _ bytes: UnsafeRawPointer?, _ count: Int,
    _ to: UnsafePointer<CChar>?, _ timeout: Int64, _ completion: opportune_completion?,
    _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let (socket, memory) = (try descriptor(socket), try Memory(bytes, count, atLeast: 0))
      let to = try address(to)
      return try request(of: own, completion, context) { io in
        try await io.send(socket, from: try memory.copied(), to: to, within: limit(timeout))
        return Int64(memory.bytes.count)
      }
    }
  }

  @c @implementation
  public func opportune_receive_from(
    _ app: OpaquePointer?, _ socket: CInt, _ bytes: UnsafeMutableRawPointer?, _ count: Int,
    _ sender: UnsafeMutablePointer<CChar>?, _ timeout: Int64, _ completion: opportune_completion?,
    _ context: UnsafeMutableRawPointer?
  ) -> Int64 {
    call {
      let own = try CApp.at(app)
      let (socket, memory) = (try descriptor(socket), try Memory(bytes, count))
      let place = sender.map { AddressPlace(place: $0) }
      return try request(of: own, completion, context) { io in
        let buffer = try IOBuffer(count: memory.bytes.count)
        let (count, from, isTruncated) = try await io.receiveDatagram(
          socket, into: buffer, within: limit(timeout))
        try memory.takeOver(buffer, count)
        place?.fill(from)
        guard !isTruncated else {
          throw Refusal(EMSGSIZE, "the datagram is longer than \(memory.bytes.count) bytes")
        }
        return Int64(count)
      }
    }
  }
#endif
