import Foundation
import Glibc
import OpportuneScheduler

/// Why a push was not taken, or the socket not made.
public enum PushError: Error, Sendable, Hashable, CustomStringConvertible {
  case path(String, limit: Int)
  case system(String, String)
  /// The host's answer.
  case refused(String)

  public var description: String {
    switch self {
    case .path(let path, let limit): "socket path '\(path)' is \(path.utf8.count) bytes, expected 1 to \(limit)"
    case .system(let what, let reason): "\(what): \(reason)"
    case .refused(let reason): "the push was refused: \(reason)"
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
    let descriptor = try LocalSocket.open(path) { connect($0, $1, $2) }
    defer { close(descriptor) }
    guard LocalSocket.write(line + [10], to: descriptor) else { throw PushError.system(path, LocalSocket.reason()) }
    let answer = String(decoding: LocalSocket.readLine(from: descriptor) ?? Data(), as: UTF8.self)
    guard answer == "ok" else { throw PushError.refused(answer.isEmpty ? "the host closed the connection" : answer) }
  }
}

/// Takes pushes on a Unix socket, one JSON object a line, and answers each with `ok` or the reason why not. (R-MSG-02)
///
/// Only processes of the users it was told of may push; the kernel says whose a connection is. One connection is
/// served at a time, by a thread of its own that sleeps until one comes; a client that is silent for five seconds is
/// cut off.
public final class PushSocket: Sendable {
  public let path: String
  private let descriptor: Int32

  /// Longer lines are refused.
  static let longestLine = 64 * 1024

  /// - Parameters:
  ///   - path: made here; must not exist. Only the owner may connect unless `users` names more.
  ///   - users: whose processes may push; by default this process's own.
  ///   - receive: called for each push, on the socket's thread; the text says why it was refused.
  /// - Throws: ``PushError``.
  public init(
    path: String, users: Set<UInt32> = [geteuid()], receive: @escaping @Sendable (Push) -> String?
  ) throws(PushError) {
    self.path = path
    descriptor = try LocalSocket.open(path) { bind($0, $1, $2) == 0 ? listen($0, 16) : -1 }
    chmod(path, users == [geteuid()] ? 0o600 : 0o666)
    let descriptor = descriptor
    Thread.detachNewThread { Self.serve(descriptor, users, receive) }
  }

  deinit {
    shutdown(descriptor, Int32(SHUT_RDWR))  // the thread's accept fails, and it closes the descriptor
    unlink(path)
  }

  private static func serve(_ descriptor: Int32, _ users: Set<UInt32>, _ receive: (Push) -> String?) {
    while true {
      let client = accept(descriptor, nil, nil)
      if client < 0 {
        if errno == EINTR || errno == ECONNABORTED { continue }
        break
      }
      answer(client, users, receive)
      close(client)
    }
    close(descriptor)
  }

  private static func answer(_ client: Int32, _ users: Set<UInt32>, _ receive: (Push) -> String?) {
    var limit = timeval(tv_sec: 5, tv_usec: 0)
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    guard let user = LocalSocket.user(of: client), users.contains(user) else {
      // Read first: closing with something unread would take the answer away from the client.
      _ = LocalSocket.readLine(from: client)
      _ = LocalSocket.write(Data("this user may not push\n".utf8), to: client)
      return
    }
    while let line = LocalSocket.readLine(from: client) {
      let reason: String?
      if line.count >= longestLine {
        reason = "the line is longer than \(longestLine) bytes"
      } else if let push = try? JSONDecoder().decode(Push.self, from: line) {
        reason = receive(push)
      } else {
        reason = "the line is no push: expected {\"app\":…,\"kind\":…,\"payload\":{…}}"
      }
      guard LocalSocket.write(Data(((reason ?? "ok") + "\n").utf8), to: client), line.count < longestLine else {
        return
      }
    }
  }
}

private enum LocalSocket {
  static func reason() -> String { String(cString: strerror(errno)) }

  static func open(
    _ path: String, _ use: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(PushError) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let limit = MemoryLayout.size(ofValue: address.sun_path) - 1
    let bytes = Array(path.utf8)
    guard (1...limit).contains(bytes.count), !bytes.contains(0) else { throw PushError.path(path, limit: limit) }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw PushError.system(path, reason()) }
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        use(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else {
      let reason = reason()
      close(descriptor)
      throw PushError.system(path, reason)
    }
    return descriptor
  }

  /// The user of the process at the other end, as the kernel saw it connect.
  static func user(of client: Int32) -> UInt32? {
    var credentials: (pid: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
    var size = socklen_t(MemoryLayout.size(ofValue: credentials))
    guard getsockopt(client, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else { return nil }
    return credentials.user
  }

  static func write(_ data: Data, to descriptor: Int32) -> Bool {
    var rest = data[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Without its end; `nil` at the end of the stream, after the limit, or on an error.
  static func readLine(from descriptor: Int32) -> Data? {
    var line = Data()
    var byte: UInt8 = 0
    while line.count < PushSocket.longestLine {
      let count = recv(descriptor, &byte, 1, 0)
      if count < 0, errno == EINTR { continue }
      guard count == 1 else { return nil }
      if byte == 10 { return line }
      line.append(byte)
    }
    return line
  }
}

extension AppHost {
  /// Opens a socket for pushes to this host's apps.
  ///
  /// - Throws: ``PushError``. The socket closes with the last reference to it.
  public nonisolated func openPushSocket(at path: String, users: Set<UInt32> = [geteuid()]) throws(PushError)
    -> PushSocket
  {
    try PushSocket(path: path, users: users) { [weak self] push in
      guard let self else { return "the host is gone" }
      let done = DispatchSemaphore(value: 0)
      let answer = Answer()
      Task {
        answer.text = await self.receive(push)
        done.signal()
      }
      done.wait()
      return answer.text
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

/// Written before the semaphore is signalled, read after.
private final class Answer: @unchecked Sendable { var text: String? }
