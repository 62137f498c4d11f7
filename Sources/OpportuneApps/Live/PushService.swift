import Foundation
import Glibc

/// Who may do what at a ``PushSocket``, and who does it.
struct PushService: Sendable {
  let users: Set<UInt32>
  let controllers: Set<UInt32>
  let patience: Duration
  let receive: @Sendable (Push) -> String?
  let control: @Sendable (SwitcherRequest) -> SwitcherAnswer

  /// A client's turn: answers a line, if there is one.
  ///
  /// - Returns: the client as it goes on; `nil`: it has been closed.
  func serve(_ client: PushClient) -> PushClient? {
    var client = client
    var goesOn = !client.isOver && ContinuousClock.now < client.deadline
    if let line = client.takeLine() {
      let answer = line.count < LocalSocket.longestLine ? self.answer(line, of: client.user) : nil
      let text = answer ?? "the line is longer than \(LocalSocket.longestLine) bytes"
      let isServed = client.user.map { users.contains($0) || controllers.contains($0) } ?? false
      goesOn = LocalSocket.write(Data((text + "\n").utf8), to: client.descriptor) && answer != nil && isServed
      client.deadline = ContinuousClock.now + patience
    }
    if !goesOn { close(client.descriptor) }
    return goesOn ? client : nil
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

/// One connection, and what has come of it that is not answered yet.
struct PushClient {
  let descriptor: Int32
  let user: UInt32?
  /// By when it is to have said a line.
  var deadline: ContinuousClock.Instant
  /// It says no more.
  private(set) var isOver = false
  private var unread = Data()

  init(_ descriptor: Int32, patience: Duration) {
    self.descriptor = descriptor
    user = LocalSocket.user(of: descriptor)
    deadline = .now + patience
    // For who does not take its answer.
    let (seconds, attoseconds) = patience.components
    var limit = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  var hasLine: Bool { unread.contains(10) || unread.count >= LocalSocket.longestLine }

  /// Milliseconds until it is to be looked at, whatever comes.
  var pollLimit: Int32 {
    guard !hasLine, !isOver else { return 0 }
    let left = ContinuousClock.now.duration(to: deadline)
    return left > .zero ? Int32(clamping: Int64((left / .milliseconds(1)).rounded(.up))) : 0
  }

  /// What is there, up to a line: who has said one in time is served, however late its turn comes.
  mutating func read() {
    var bytes = [UInt8](repeating: 0, count: 4096)
    while !hasLine {
      let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
      if count > 0 { unread += bytes[..<count] }
      if count < 0, errno == EINTR { continue }
      isOver = count == 0 || (count < 0 && errno != EAGAIN)
      if count <= 0 { return }
    }
  }

  /// Without its end; all there is where that is too long for a line.
  mutating func takeLine() -> Data? {
    guard hasLine else { return nil }
    let end = unread.firstIndex(of: 10) ?? unread.endIndex
    defer { unread = Data(unread[end...].dropFirst()) }
    return Data(unread[..<end])
  }
}
