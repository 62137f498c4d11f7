import Foundation

/// Answers lines on a Unix socket, one line for each.
///
/// One thread serves up to 64 connections in turns, one line each; no connection waits for another to read
/// its answer. A client that takes longer than the patience to send a line, or to read its answer, is
/// disconnected. An idle client is disconnected when more than 64 connect. It closes with its last reference.
package final class LineSocket: Sendable {
  /// The path of the socket.
  package let path: String
  private let descriptor: Int32
  private let file: LocalSocket.File

  /// Opens the socket.
  ///
  /// - Parameters:
  ///   - path: created here; replaces the socket of a host that has ended or crashed.
  ///   - patience: the time limit of a client to send a line, and to read its answer.
  ///   - folderPatience: as of ``LocalSocket/listening(at:mode:patience:say:)``.
  ///   - mayAsk: whether a user's connection stays open after an answer.
  ///   - handOver: called before that, for a line after which nothing else has been sent.
  ///   - answer: called on the socket's thread for each line; the line is `nil` where it is too long.
  /// - Throws: ``PushError``: `path`, `taken`, `system`.
  package init(
    path: String, mode: UInt32, patience: Duration = .seconds(5), folderPatience: Duration = .seconds(2),
    say: (String) -> Void = { _ in }, mayAsk: @escaping @Sendable (_ user: UInt32?) -> Bool,
    answer: @escaping @Sendable (_ line: Data?, _ user: UInt32?) -> String,
    handOver: @escaping @Sendable (_ line: Data, _ descriptor: Int32, _ user: UInt32?) -> LineHandover = {
      _, _, _ in .no
    }
  ) throws(PushError) {
    self.path = path
    (descriptor, file) = try LocalSocket.listening(
      at: path, mode: mode, patience: folderPatience, say: say)
    let descriptor = descriptor
    let service = LineService(patience: patience, mayAsk: mayAsk, answer: answer, handOver: handOver)
    Thread.detachNewThread { Self.serve(descriptor, service) }
  }

  deinit {
    LocalSocket.remove(path, file)
    shutdown(descriptor, Int32(SHUT_RDWR))  // the thread's accept fails, and it closes the descriptor
  }

  private static func serve(_ descriptor: Int32, _ service: LineService) {
    var clients: [LineClient] = []
    /// Until then none are accepted, for want of descriptors or memory. Clients wait in the kernel's queue.
    var accepts = ContinuousClock.now
    while true {
      let mayAccept =
        ContinuousClock.now >= accepts && (clients.count < clientsMax || clients.contains(where: \.isIdle))
      var polled = clients.map(\.polled)
      polled.append(pollfd(fd: descriptor, events: mayAccept ? Int16(POLLIN) : 0, revents: 0))
      let limits = clients.map(\.pollLimit) + (mayAccept ? [] : [pause])
      if poll(&polled, nfds_t(polled.count), limits.min() ?? -1) < 0, errno != EINTR { break }
      guard let event = polled.popLast()?.revents, event & Int16(POLLHUP | POLLERR | POLLNVAL) == 0 else {
        break
      }
      for (index, one) in polled.enumerated() where one.revents != 0 { clients[index].read() }
      clients = clients.compactMap { service.serve($0) }
      guard event & Int16(POLLIN) != 0 else { continue }
      if clients.count >= clientsMax, !cutOffOne(&clients) { continue }
      let client = accept(descriptor, nil, nil)
      if client >= 0 {
        clients.append(LineClient(client, patience: service.patience))
      } else if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) {
        if !cutOffOne(&clients) { accepts = .now + .milliseconds(pause) }
      } else if ![EINTR, EAGAIN, ECONNABORTED].contains(errno) {
        break
      }
    }
    for client in clients { close(client.descriptor) }
    close(descriptor)
  }

  /// Disconnects the client that has been idle for longest; returns false if none is idle.
  private static func cutOffOne(_ clients: inout [LineClient]) -> Bool {
    let idle = clients.indices.filter { clients[$0].isIdle }
    guard let first = idle.min(by: { clients[$0].deadline < clients[$1].deadline }) else { return false }
    close(clients.remove(at: first).descriptor)
    return true
  }

  private static let clientsMax = 64
  /// How long to pause accepting where there is no room, in milliseconds.
  private static let pause: Int32 = 100
}

/// What becomes of a connection by a line.
package enum LineHandover: Sendable {
  /// The line is answered as others.
  case no
  /// The connection is another's, who closes its descriptor.
  case taken
  /// It could not be another's; the answer.
  case refused(String)
}

/// How lines are answered.
private struct LineService: Sendable {
  let patience: Duration
  let mayAsk: @Sendable (UInt32?) -> Bool
  let answer: @Sendable (Data?, UInt32?) -> String
  let handOver: @Sendable (Data, Int32, UInt32?) -> LineHandover

  /// Serves one client once: sends pending output, or answers one line, if there is one.
  ///
  /// - Returns: the client's new state; `nil` if it was closed.
  fileprivate func serve(_ client: LineClient) -> LineClient? {
    var client = client
    client.send()
    if client.hasTakenAll, let line = client.takeLine() {
      let isTooLong = line.count >= LocalSocket.longestLine
      let text: String
      switch isTooLong || !client.hasSaidAll ? .no : handOver(line, client.descriptor, client.user) {
      case .taken: return nil
      case .refused(let reason): text = reason
      case .no: text = answer(isTooLong ? nil : line, client.user)
      }
      client.isLast = isTooLong || !mayAsk(client.user)
      // One line, whatever names it contains; JSON escapes line feeds.
      client.say(
        text.replacingOccurrences(of: "\n", with: "\\n", options: .literal) + "\n", within: patience)
      client.send()
    }
    guard !client.isDone, client.hasLine || ContinuousClock.now < client.deadline else {
      close(client.descriptor)
      return nil
    }
    return client
  }
}
