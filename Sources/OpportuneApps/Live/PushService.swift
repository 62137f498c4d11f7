import Foundation
import Glibc

/// The permissions at a ``PushSocket``, and the functions that carry out requests.
struct PushService: Sendable {
  let users: Set<UInt32>
  let controllers: Set<UInt32>
  let patience: Duration
  let receive: @Sendable (Push) -> String?
  let control: @Sendable (SwitcherRequest) -> SwitcherAnswer

  /// Serves one client once: sends pending output, or answers one line, if there is one.
  ///
  /// - Returns: the client's new state; `nil` if it was closed.
  func serve(_ client: PushClient) -> PushClient? {
    var client = client
    client.send()
    if client.hasTakenAll, let line = client.takeLine() {
      let answer = line.count < LocalSocket.longestLine ? self.answer(line, of: client.user) : nil
      client.isLast = answer == nil || !mayAsk(client.user)
      // One line, whatever names it contains; JSON escapes line feeds.
      let text = (answer ?? "the line is longer than \(LocalSocket.longestLine) bytes")
        .replacingOccurrences(of: "\n", with: "\\n", options: .literal)
      client.say(text + "\n", within: patience)
      client.send()
    }
    guard !client.isDone, client.hasLine || ContinuousClock.now < client.deadline else {
      close(client.descriptor)
      return nil
    }
    return client
  }

  private func mayAsk(_ user: UInt32?) -> Bool {
    user.map { users.contains($0) || controllers.contains($0) } ?? false
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

/// One connection: its unanswered input and its unsent output.
///
/// Nothing here blocks. A client that does not read its answers delays no other client, and is not read from
/// meanwhile.
struct PushClient {
  let descriptor: Int32
  let user: UInt32?
  /// The time by which the client must have sent a line, or read its answer.
  private(set) var deadline: ContinuousClock.Instant
  /// Whether to close the connection after the pending output.
  var isLast = false
  /// Whether the client has ended its stream.
  private var isOver = false
  private var hasFailed = false
  private var unread = Data()
  private var unsent = Data()

  init(_ descriptor: Int32, patience: Duration) {
    self.descriptor = descriptor
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    user = LocalSocket.user(of: descriptor)
    deadline = .now + patience
  }

  var hasTakenAll: Bool { unsent.isEmpty }
  /// Whether a line can be answered now.
  var hasLine: Bool {
    !hasFailed && !isLast && unsent.isEmpty
      && (unread.contains(10) || unread.count >= LocalSocket.longestLine)
  }
  var isDone: Bool { hasFailed || (unsent.isEmpty && (isLast || (isOver && !hasLine))) }
  /// Whether the client awaits no answer and has no pending output.
  var isIdle: Bool { unsent.isEmpty && !hasLine }

  /// The events to poll for. Nothing is read while there is a line to answer, so that no line waits for ever.
  var polled: pollfd {
    let events = !unsent.isEmpty ? POLLOUT : hasLine || isOver ? 0 : POLLIN
    return pollfd(fd: descriptor, events: Int16(events), revents: 0)
  }

  /// Milliseconds until the client must be served without an event.
  var pollLimit: Int32 {
    guard !hasLine, !isDone else { return 0 }
    let left = ContinuousClock.now.duration(to: deadline)
    return left > .zero ? Int32(clamping: Int64((left / .milliseconds(1)).rounded(.up))) : 0
  }

  /// Reads what is available, up to a line. A client that has sent its line in time is served, however late.
  mutating func read() {
    var bytes = [UInt8](repeating: 0, count: 4096)
    while unsent.isEmpty, !hasLine, !isOver {
      let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
      if count > 0 { unread += bytes[..<count] }
      if count < 0, errno == EINTR { continue }
      isOver = count == 0 || (count < 0 && errno != EAGAIN)
      if count <= 0 { return }
    }
  }

  mutating func say(_ text: String, within patience: Duration) {
    unsent += Data(text.utf8)
    deadline = .now + patience
  }

  /// Sends as much as the client accepts now.
  mutating func send() {
    while !unsent.isEmpty, !hasFailed {
      let count = unsent.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { return }
      hasFailed = count <= 0
      if count > 0 { unsent = Data(unsent.dropFirst(count)) }
    }
  }

  /// Takes a line without its line feed; all input where that is too long for a line.
  mutating func takeLine() -> Data? {
    guard hasLine else { return nil }
    let end = unread.firstIndex(of: 10) ?? unread.endIndex
    defer { unread = Data(unread[end...].dropFirst()) }
    return Data(unread[..<end])
  }
}
