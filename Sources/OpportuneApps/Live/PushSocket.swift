import Foundation
import Glibc
import OpportuneScheduler

/// Why a push or a command of the switcher was not taken, or the socket not made.
public enum PushError: Error, Sendable, Hashable, CustomStringConvertible {
  case path(String, limit: Int)
  case system(String, String)
  /// The host's answer.
  case refused(String)

  public var description: String {
    switch self {
    case .path(let path, let limit): "socket path '\(path)' is \(path.utf8.count) bytes, expected 1 to \(limit)"
    case .system(let what, let reason): "\(what): \(reason)"
    case .refused(let reason): "the host refused: \(reason)"
    }
  }
}

/// A message on its way to an app: one line of JSON.
public struct Push: Sendable, Hashable, Codable {
  /// The identifier of the app's manifest.
  public var app: String
  public var kind: String
  public var payload: [String: String]?

  public init(app: String, kind: String, payload: [String: String]? = nil) {
    self.app = app
    self.kind = kind
    self.payload = payload
  }

  /// Sends a push to a host's socket and waits for its answer.
  ///
  /// - Throws: ``PushError``. Blocks for as long as the host takes.
  public func send(to path: String) throws(PushError) {
    let line: Data
    do { line = try JSONEncoder().encode(self) } catch { throw PushError.refused("\(error)") }
    let answer = try LocalSocket.ask(line, at: path)
    guard answer == "ok" else { throw PushError.refused(answer) }
  }
}

/// Takes pushes and commands of the switcher on a Unix socket, one JSON object a line, and answers each: a push with `ok`
/// or the reason why not, a command with JSON. (R-MSG-02, R-LIFE-24)
///
/// Only processes of the users it was told of are served; the kernel says whose a connection is. One connection is served
/// at a time, by a thread of its own that sleeps until one comes; a client that takes more than five seconds for a line is
/// cut off.
public final class PushSocket: Sendable {
  public let path: String
  private let descriptor: Int32

  /// Who may do what, and who does it.
  fileprivate struct Service: Sendable {
    let users: Set<UInt32>
    let controllers: Set<UInt32>
    let patience: Duration
    let receive: @Sendable (Push) -> String?
    let control: @Sendable (SwitcherRequest) -> SwitcherAnswer
  }

  /// - Parameters:
  ///   - path: made here; must not exist. Only the owner may connect unless users or controllers name more.
  ///   - users: whose processes may push; by default this process's own.
  ///   - controllers: whose processes may use the switcher; by default this process's own.
  ///   - receive: called for each push, on the socket's thread; the text says why it was refused.
  ///   - control: called for each command of the switcher, on the socket's thread; refuses all by default.
  /// - Throws: ``PushError``.
  public convenience init(
    path: String, users: Set<UInt32> = [geteuid()], controllers: Set<UInt32> = [geteuid()],
    receive: @escaping @Sendable (Push) -> String?,
    control: @escaping @Sendable (SwitcherRequest) -> SwitcherAnswer = { _ in .refused("no switcher is served here") }
  ) throws(PushError) {
    try self.init(
      path: path, patience: .seconds(5), users: users, controllers: controllers, receive: receive, control: control)
  }

  /// - Parameter patience: what a client has for a line, and to take its answer.
  init(
    path: String, patience: Duration, users: Set<UInt32>, controllers: Set<UInt32>,
    receive: @escaping @Sendable (Push) -> String?, control: @escaping @Sendable (SwitcherRequest) -> SwitcherAnswer
  ) throws(PushError) {
    self.path = path
    descriptor = try LocalSocket.open(path) { bind($0, $1, $2) == 0 ? listen($0, 16) : -1 }
    chmod(path, users.union(controllers) == [geteuid()] ? 0o600 : 0o666)
    let descriptor = descriptor
    let service = Service(
      users: users, controllers: controllers, patience: patience, receive: receive, control: control)
    Thread.detachNewThread { Self.serve(descriptor, service) }
  }

  deinit {
    shutdown(descriptor, Int32(SHUT_RDWR))  // the thread's accept fails, and it closes the descriptor
    unlink(path)
  }

  private static func serve(_ descriptor: Int32, _ service: Service) {
    while true {
      let client = accept(descriptor, nil, nil)
      if client < 0 {
        if errno == EINTR || errno == ECONNABORTED { continue }
        // Short of descriptors or memory for now: the clients wait in the kernel's queue.
        guard [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) else { break }
        usleep(100_000)
        continue
      }
      service.answer(client)
      close(client)
    }
    close(descriptor)
  }
}

extension PushSocket.Service {
  fileprivate func answer(_ client: Int32) {
    let (seconds, attoseconds) = patience.components
    var limit = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    // Read before anything is refused: closing with something unread would take the answer away from the client.
    let user = LocalSocket.user(of: client)
    let isServed = user.map { users.contains($0) || controllers.contains($0) } ?? false
    while let line = LocalSocket.readLine(from: client, within: patience) {
      let answer = line.count < LocalSocket.longestLine ? self.answer(line, of: user) : nil
      let text = answer ?? "the line is longer than \(LocalSocket.longestLine) bytes"
      guard LocalSocket.write(Data((text + "\n").utf8), to: client), answer != nil, isServed else { return }
    }
  }

  private func answer(_ line: Data, of user: UInt32?) -> String {
    let decoder = JSONDecoder()
    if let push = try? decoder.decode(Push.self, from: line) {
      guard let user, users.contains(user) else { return "this user may not push" }
      return receive(push) ?? "ok"
    }
    if let request = try? decoder.decode(SwitcherRequest.self, from: line) {
      guard let user, controllers.contains(user) else { return "this user may not use the switcher" }
      return control(request).line
    }
    return "the line is neither a push, {\"app\":…,\"kind\":…,\"payload\":{…}}, nor a command of the switcher"
  }
}

extension AppHost {
  /// Opens a socket for pushes to this host's apps and for commands of its switcher.
  ///
  /// - Parameters:
  ///   - users: whose processes may push; by default this process's own.
  ///   - controllers: whose processes may use the switcher; by default this process's own.
  /// - Throws: ``PushError``. The socket closes with the last reference to it.
  public nonisolated func openPushSocket(
    at path: String, users: Set<UInt32> = [geteuid()], controllers: Set<UInt32> = [geteuid()]
  ) throws(PushError) -> PushSocket {
    try PushSocket(path: path, users: users, controllers: controllers) { [weak self] push in
      guard let self else { return "the host is gone" }
      return wait(for: { await self.receive(push) })
    } control: { [weak self] request in
      guard let self else { return .refused("the host is gone") }
      return wait(for: { await self.carryOut(request) })
    }
  }

  private func receive(_ push: Push) -> String? {
    guard let id = self.id(of: push.app) else { return "no app '\(push.app)' is registered" }
    do {
      try post(.app(id, .message(Message(push.kind, payload: push.payload ?? [:]))))
      return nil
    } catch {
      return "\(error)"
    }
  }

  /// The app whose manifest has an identifier; the last registered one.
  public func id(of identifier: String) -> AppID? {
    (0..<system.count).reversed().map(AppID.init).first { system.view(of: $0)?.manifest.identifier == identifier }
  }
}

/// What a task comes to, on a thread that may block.
private func wait<Result: Sendable>(for body: @escaping @Sendable () async -> Result) -> Result {
  let done = DispatchSemaphore(value: 0)
  let answer = Answer<Result>()
  Task {
    answer.value = await body()
    done.signal()
  }
  while true {
    done.wait()
    if let value = answer.value { return value }
  }
}

/// Written before the semaphore is signalled, read after.
private final class Answer<Value>: @unchecked Sendable { var value: Value? }
