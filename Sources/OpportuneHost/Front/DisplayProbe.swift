internal import Glibc
internal import OpportuneBase

/// Looks whether an X display still answers after a program was frozen: one that holds the server's grab
/// keeps everybody waiting.
///
/// It is opened before the freeze, when the server still tells whose its clients are, and asked after it.
/// Each call blocks, at most for its limit.
struct DisplayProbe: ~Copyable {
  private let descriptor: Int32
  /// The processes of its clients; `nil`: the server does not know them.
  let clients: Set<pid_t>?
  private let limit: Duration

  enum Opening: ~Copyable {
    case open(DisplayProbe)
    /// There is no such display, or it lets nobody in.
    case absent
    /// It does not answer already.
    case silent
  }

  static func open(_ display: X11Display, within limit: Duration) -> Opening {
    guard let address = UnixSocketAddress(display.path) else { return .absent }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { return .absent }
    guard address.withPointer({ connect(descriptor, $0, $1) }) == 0 else {
      // Its queue of connections is full.
      let isSilent = errno == EAGAIN
      close(descriptor)
      return isSilent ? .silent : .absent
    }
    let end = ContinuousClock.now + limit
    var talk = Talk(descriptor: descriptor)
    switch talk.clients(display, until: end) {
    case .answered(let clients):
      return .open(DisplayProbe(descriptor: descriptor, clients: clients, limit: limit))
    case .silent:
      close(descriptor)
      return .silent
    case .over:
      close(descriptor)
      return .absent
    }
  }

  private init(descriptor: Int32, clients: Set<pid_t>?, limit: Duration) {
    (self.descriptor, self.clients, self.limit) = (descriptor, clients, limit)
  }

  deinit { close(descriptor) }

  /// Whether any of these processes may hold the display.
  func mayBeHeld(by members: [pid_t]) -> Bool {
    clients.map { !$0.isDisjoint(with: members) } ?? true
  }

  /// Whether the display answers. A connection that has ended is no client's doing.
  func answers() -> Bool {
    let end = ContinuousClock.now + limit
    var talk = Talk(descriptor: descriptor, isSetUp: true)
    // Twice: what a program sent before it was frozen may be taken after the first request, and before the
    // second.
    for _ in 0..<2 {
      if case .silent = talk.ask(X11Request.inputFocus, until: end) { return false }
    }
    return true
  }

  private enum Answer<Value> {
    case answered(Value)
    case silent
    case over
  }

  /// One request after another, each with its answer.
  private struct Talk {
    let descriptor: Int32
    var isSetUp = false
    var input: [UInt8] = []

    mutating func clients(_ display: X11Display, until end: ContinuousClock.Instant) -> Answer<Set<pid_t>?> {
      switch ask(X11Request.setup(X11Authority.cookie(of: display)), until: end) {
      case .answered: isSetUp = true
      case .silent: return .silent
      case .over: return .over
      }
      var code: UInt8 = 0
      switch ask(X11Request.queryExtension(X11Request.resource), until: end) {
      case .answered(.reply(_, let reply)):
        let reader = ByteReader(reply)
        if reader.byte(8) == 0 { return .answered(nil) }
        code = reader.byte(9)
      case .answered: return .answered(nil)
      case .silent: return .silent
      case .over: return .over
      }
      switch ask(X11Request.resourceVersion(code), until: end) {
      case .answered(.reply(_, let reply)):
        let reader = ByteReader(reply)
        if (reader.two(8), reader.two(10)) < (1, 2) { return .answered(nil) }
      case .answered: return .answered(nil)
      case .silent: return .silent
      case .over: return .over
      }
      switch ask(X11Request.processes(code, of: 0), until: end) {
      case .answered(.reply(_, let reply)): return .answered(Set(X11Message.processes(in: reply)))
      case .answered: return .answered(nil)
      case .silent: return .silent
      case .over: return .over
      }
    }

    mutating func ask(_ request: [UInt8], until end: ContinuousClock.Instant) -> Answer<X11Message> {
      var sent = 0
      while sent < request.count {
        let count = request.withUnsafeBytes {
          send(descriptor, $0.baseAddress.map { $0 + sent }, request.count - sent, Int32(MSG_NOSIGNAL))
        }
        if count >= 0 {
          sent += count
        } else if errno == EAGAIN {
          guard waits(POLLOUT, until: end) else { return .silent }
        } else if errno != EINTR {
          return .over
        }
      }
      var part = [UInt8](repeating: 0, count: 1 << 14)
      while true {
        var rest = input[...]
        do throws(FrontError) {
          while let message = try X11Message.next(of: &rest, isSetUp: isSetUp) {
            switch message {
            case .accepted, .reply, .error:
              input = Array(rest)
              return .answered(message)
            case .propertyChanged, .event: break
            }
          }
        } catch {
          return .over
        }
        input = Array(rest)
        let count = recv(descriptor, &part, part.count, 0)
        if count > 0 {
          input += part[..<count]
        } else if count == 0 {
          return .over
        } else if errno == EAGAIN {
          guard waits(POLLIN, until: end) else { return .silent }
        } else if errno != EINTR {
          return .over
        }
      }
    }

    private func waits(_ event: Int32, until end: ContinuousClock.Instant) -> Bool {
      let left = ContinuousClock.now.duration(to: end)
      guard left > .zero else { return false }
      var polled = pollfd(fd: descriptor, events: Int16(event), revents: 0)
      return poll(&polled, 1, Int32(clamping: Int64(left / .milliseconds(1)) + 1)) > 0 || errno == EINTR
    }
  }
}
