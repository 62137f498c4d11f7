import Foundation
import Glibc

/// One connection: its unanswered input and its unsent output.
///
/// Nothing here blocks. A client that does not read its answers delays no other client, and is not read from
/// meanwhile.
struct LineClient {
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

  /// Whether nothing is unanswered.
  var hasSaidAll: Bool { unread.isEmpty }
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
