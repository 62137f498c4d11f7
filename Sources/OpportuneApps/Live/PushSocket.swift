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
/// Only processes of the users it was told of are served; the kernel says whose a connection is. A thread of its own
/// sleeps until something comes, and serves up to 64 connections by turns, a line each; a client that takes more than
/// five seconds for a line is cut off.
public final class PushSocket: Sendable {
  public let path: String
  private let descriptor: Int32

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
    let service = PushService(
      users: users, controllers: controllers, patience: patience, receive: receive, control: control)
    Thread.detachNewThread { Self.serve(descriptor, service) }
  }

  deinit {
    shutdown(descriptor, Int32(SHUT_RDWR))  // the thread's accept fails, and it closes the descriptor
    unlink(path)
  }

  private static func serve(_ descriptor: Int32, _ service: PushService) {
    var clients: [PushClient] = []
    while true {
      // Nothing of a client that has a line to answer is read, so that no line waits for ever for its turn.
      var polled = clients.map { pollfd(fd: $0.descriptor, events: $0.hasLine ? 0 : Int16(POLLIN), revents: 0) }
      let hasRoom = clients.count < clientsMax
      polled.append(pollfd(fd: descriptor, events: hasRoom ? Int16(POLLIN) : 0, revents: 0))
      if poll(&polled, nfds_t(polled.count), clients.map(\.pollLimit).min() ?? -1) < 0, errno != EINTR { break }
      guard let event = polled.popLast()?.revents, event & Int16(POLLHUP | POLLERR | POLLNVAL) == 0 else { break }
      for (index, one) in polled.enumerated() where one.revents != 0 { clients[index].read() }
      clients = clients.compactMap { service.serve($0) }
      guard event & Int16(POLLIN) != 0 else { continue }
      let client = accept(descriptor, nil, nil)
      if client >= 0 {
        clients.append(PushClient(client, patience: service.patience))
      } else if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) {
        usleep(100_000)  // short of descriptors or memory for now: the clients wait in the kernel's queue
      } else if errno != EINTR, errno != ECONNABORTED {
        break
      }
    }
    for client in clients { close(client.descriptor) }
    close(descriptor)
  }

  /// More wait in the kernel's queue.
  private static let clientsMax = 64
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
