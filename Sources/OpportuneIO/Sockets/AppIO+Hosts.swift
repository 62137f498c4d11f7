import Glibc
import SystemPackage

/// Hosts by name.
extension AppIO {
  /// Connects a stream socket to a host by its name, over IPv4 or IPv6.
  ///
  /// The name is looked up as `getaddrinfo` does, on a thread that may wait. Its addresses are tried one
  /// after the other in the order that the look-up gives.
  ///
  /// - Parameters:
  ///   - host: a name, or a numeric address.
  ///   - noDelay: as in ``connect(to:noDelay:within:)``.
  ///   - limit: the time limit of all. What is left of it is divided evenly among the addresses that are
  ///     left, so one that does not answer takes no time from the others.
  /// - Throws: ``IOError``, with host and port in its message: `configuration` for a host that is empty or
  ///   contains a zero byte; `hostNotResolved` where the name has no address, or none could be looked up;
  ///   where no address could be connected to, the last one's error, with all of them in the message.
  public func connect(
    to host: String, port: UInt16, noDelay: Bool = true, within limit: Duration? = nil
  ) async throws(IOError) -> FileDescriptor {
    let whole = "connect to host \"\(host.prefix(255))\", port \(port)"
    guard !host.isEmpty, !host.utf8.contains(0) else {
      throw IOError(.configuration, "\(whole): this is no name of a host")
    }
    let end = limit.map { ContinuousClock.now + $0 }
    let found: Result<[SocketAddress], LookUpFailure>
    do throws(IOError) {
      // The no-op has its turn in the queue, where a suspended app waits.
      try await perform(call(.OPP_RING_NOP, .network), within: limit)
      found = try await elsewhere(on: .network, within: end.map { $0 - .now }) {
        SocketAddress.lookUp(host, port: port)
      }
    } catch {
      throw Self.error(error, in: whole)
    }
    switch found {
    case .success(let addresses):
      return try await connect(toFirstOf: addresses, noDelay, until: end, whole)
    case .failure(let failure): throw IOError(.hostNotResolved, "\(whole): \(failure.reason)")
    }
  }

  /// - Parameter addresses: one at least.
  func connect(
    toFirstOf addresses: [SocketAddress], _ noDelay: Bool, until end: ContinuousClock.Instant?,
    _ whole: String
  ) async throws(IOError) -> FileDescriptor {
    var failures: [IOError] = []
    for (index, address) in addresses.enumerated() {
      let share = end.map { ($0 - .now) / (addresses.count - index) }
      do throws(IOError) {
        return try await connect(to: address, noDelay: noDelay, within: share)
      } catch {
        failures.append(error)
        switch error.code {
        case .system, .deadlineExceeded: break
        default: throw Self.error(error, in: whole)
        }
      }
    }
    throw IOError(
      failures.last?.code ?? .hostNotResolved,
      "\(whole): \(failures.map(\.message).joined(separator: "; "))")
  }
}

/// Why a name has no address.
struct LookUpFailure: Error {
  let reason: String
}

extension SocketAddress {
  /// The addresses of a host for streams, one at least. Waits for the network.
  static func lookUp(_ host: String, port: UInt16) -> Result<[SocketAddress], LookUpFailure> {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICSERV
    var first: UnsafeMutablePointer<addrinfo>?
    let result = getaddrinfo(host, String(port), &hints, &first)
    guard result == 0 else {
      let reason =
        result == EAI_SYSTEM ? "\(Errno(rawValue: errno))" : String(cString: gai_strerror(result))
      return .failure(LookUpFailure(reason: reason))
    }
    defer { freeaddrinfo(first) }
    var addresses: [SocketAddress] = []
    var next = first
    while let info = next?.pointee {
      next = info.ai_next
      // Names of a hosts file may have an address more than once.
      guard let memory = info.ai_addr,
        let address = SocketAddress(memory, count: Int(info.ai_addrlen)), !addresses.contains(address)
      else { continue }
      addresses.append(address)
    }
    return addresses.isEmpty
      ? .failure(LookUpFailure(reason: "no address of a known family")) : .success(addresses)
  }
}
