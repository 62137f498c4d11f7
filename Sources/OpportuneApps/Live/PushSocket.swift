import Foundation
import OpportuneScheduler

/// Why a push or a command of the switcher was refused, or the socket could not be made.
public struct PushError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// The path is empty, or longer than a socket's may be.
    case path(String, limit: Int)
    /// The kernel refused: the subject, and the reason.
    case system(String, String)
    /// A host's socket: another file is at its path, and is kept.
    case taken(String, String)
    /// The host did not answer in time.
    case timedOut(String, Duration)
    /// The host refused; its answer.
    case refused(String)
  }

  /// The kind of error.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// For people: the place and the reason.
  public var message: String {
    switch code {
    case .path(let path, let limit):
      "socket path '\(path)' is \(path.utf8.count) bytes, expected 1 to \(limit)"
    case .system(let what, let reason): "\(what): \(reason)"
    case .taken(let path, let what):
      "there is \(what) at '\(path)': choose another path, or end or remove that"
    case .timedOut(let path, let limit):
      "the host at '\(path)' did not answer within \(limit); it may do what was asked later"
    case .refused(let reason): "the host refused: \(reason)"
    }
  }

  public var description: String { message }
}

/// A message to an app: one line of JSON.
public struct Push: Sendable, Hashable, Codable {
  /// The identifier of the app's manifest.
  public var app: String
  /// Chosen by the sender, for the receiver.
  public var kind: String
  /// Its content, by key.
  public var payload: [String: String]?

  /// Makes a message for the app with this identifier.
  public init(app: String, kind: String, payload: [String: String]? = nil) {
    self.app = app
    self.kind = kind
    self.payload = payload
  }

  /// Sends a push to a host's socket and waits for its answer; blocks meanwhile.
  ///
  /// - Parameter limit: the limit of the whole exchange; `nil` waits as long as the host takes.
  /// - Throws: ``PushError``. After `timedOut` the app may have received the push all the same.
  public func send(to path: String, within limit: Duration? = .seconds(10)) throws(PushError) {
    let line: Data
    do { line = try JSONEncoder().encode(self) } catch { throw PushError(.refused("\(error)")) }
    let answer = try LocalSocket.ask(line, at: path, within: limit)
    guard answer == "ok" else { throw PushError(.refused(answer)) }
  }
}

/// Accepts pushes and commands of the switcher on a Unix socket, one JSON object per line. It answers a push
/// with `ok` or the reason of the refusal, a command with JSON. (R-MSG-02, R-LIFE-24)
///
/// Only processes of the given users are served; the kernel reports the user of a connection. One thread
/// serves up to 64 connections in turns, one line each; no connection waits for another to read its answer. A
/// client that takes more than five seconds to send a line, or to read its answer, is disconnected. An idle
/// client is disconnected when more than 64 connect.
public final class PushSocket: Sendable {
  /// The path of the socket.
  public let path: String
  private let socket: LineSocket

  /// Opens the socket.
  ///
  /// - Parameters:
  ///   - path: created here; replaces the socket of a host that has ended or crashed. Other files, and
  ///     sockets with a listener, are kept; symbolic links are not followed. Only the owner may connect
  ///     unless users or controllers name more. If another program has locked the folder (flock), this waits
  ///     two seconds at most and continues without the lock, whose purpose is to order hosts that start at
  ///     once.
  ///   - users: users whose processes may push; by default this process's own.
  ///   - controllers: users whose processes may use the switcher; by default this process's own.
  ///   - receive: called for each push, on the socket's thread; returns the reason of a refusal.
  ///   - control: called for each command of the switcher, on the socket's thread; refuses all by default.
  /// - Throws: ``PushError``: `path`, `taken`, `system`.
  package convenience init(
    path: String, users: Set<UInt32> = [geteuid()], controllers: Set<UInt32> = [geteuid()],
    receive: @escaping @Sendable (Push) -> String?,
    control: @escaping @Sendable (SwitcherRequest) -> SwitcherAnswer = { _ in
      .refused("no switcher is served here")
    }
  ) throws(PushError) {
    try self.init(
      path: path, patience: .seconds(5), users: users, controllers: controllers, receive: receive,
      control: control)
  }

  /// - Parameters:
  ///   - patience: the time limit of a client to send a line, and to read its answer.
  ///   - folderPatience: as of ``LocalSocket/listening(at:mode:patience:say:)``.
  init(
    path: String, patience: Duration, folderPatience: Duration = .seconds(2),
    say: (String) -> Void = { _ in },
    users: Set<UInt32>, controllers: Set<UInt32>,
    receive: @escaping @Sendable (Push) -> String?,
    control: @escaping @Sendable (SwitcherRequest) -> SwitcherAnswer
  ) throws(PushError) {
    self.path = path
    let isOwn = users.union(controllers) == [geteuid()]
    let service = PushService(users: users, controllers: controllers, receive: receive, control: control)
    socket = try LineSocket(
      path: path, mode: isOwn ? 0o600 : 0o666, patience: patience, folderPatience: folderPatience, say: say,
      mayAsk: { service.mayAsk($0) }, answer: { service.answer($0, of: $1) })
  }
}

extension AppHost {
  /// Opens a socket for pushes to this host's apps and for commands of its switcher. It closes with its last
  /// reference.
  ///
  /// - Parameters:
  ///   - users: users whose processes may push; by default this process's own.
  ///   - controllers: users whose processes may use the switcher; by default this process's own.
  /// - Throws: ``PushError``, as ``PushSocket``. A wait for the lock of its folder is logged by the
  ///   scheduler's logger.
  public nonisolated func openPushSocket(
    at path: String, users: Set<UInt32> = [geteuid()], controllers: Set<UInt32> = [geteuid()]
  ) throws(PushError) -> PushSocket {
    let scheduler = scheduler
    return try PushSocket(
      path: path, patience: .seconds(5), say: { scheduler.warn($0) }, users: users, controllers: controllers,
      receive: { [weak self] push in
        guard let self else { return "the host is gone" }
        return wait(for: { await self.receive(push) })
      },
      control: { [weak self] request in
        guard let self else { return .refused("the host is gone") }
        return wait(for: { await self.carryOut(request) })
      })
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
    (0..<system.count).reversed().map(AppID.init).first {
      system.view(of: $0)?.manifest.identifier == identifier
    }
  }
}

/// The result of a task, on a thread that may block.
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
