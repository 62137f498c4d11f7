internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// Follows a display for as long as the host runs: connects, waits for its socket where there is none, and
/// looks for it anew when the connection ends.
///
/// Nothing is polled. While there is no socket the kernel tells of changes in its folder; a server that has
/// made its socket and does not answer yet is tried a few times, with doubled pauses, and then again when the
/// folder changes.
final class DisplayFollower: FrontFollower {
  private let source: any DisplaySource
  private var connection: Connection?
  /// Tells of changes in the folder; -1: there is none, or it is not needed.
  private var watch: Int32 = -1
  private var tries = 0
  private var triesAt: Moment?
  /// The last that was told, which is not told again.
  private var told: FrontEvent?

  private struct Connection {
    let descriptor: Int32
    var session: any FrontSession
    var unsent: [UInt8] = []
  }

  /// So many after a change in the folder: 2.5 seconds.
  static let mostTries = 9
  static let firstPause: Duration = .milliseconds(5)

  init(_ source: any DisplaySource) { self.source = source }

  deinit {
    if let connection { close(connection.descriptor) }
    if watch >= 0 { close(watch) }
  }

  var waits: [pollfd] {
    var result: [pollfd] = []
    if let connection {
      let events = Int16(POLLIN) | (connection.unsent.isEmpty ? 0 : Int16(POLLOUT))
      result.append(pollfd(fd: connection.descriptor, events: events, revents: 0))
    }
    if watch >= 0 { result.append(pollfd(fd: watch, events: Int16(POLLIN), revents: 0)) }
    return result
  }

  var nextDeadline: Moment? { connection == nil ? triesAt : nil }

  func advance(_ ready: Set<Int32>, now: Moment) -> [FrontEvent] {
    var events: [FrontEvent] = []
    if let connection, ready.contains(connection.descriptor) { exchange(&events, now) }
    if watch >= 0, ready.contains(watch) {
      drainWatch()
      (tries, triesAt) = (0, now)
    }
    if connection == nil, triesAt.map({ $0 <= now }) ?? (watch < 0) { connect(&events, now) }
    return FrontEvent.latest(events)
  }

  private func tell(_ event: FrontEvent, _ events: inout [FrontEvent]) {
    if event == told { return }
    switch event {
    case .followed, .lost: told = event
    case .focus, .shown: break
    }
    events.append(event)
  }

  // MARK: The connection

  private func connect(_ events: inout [FrontEvent], _ now: Moment) {
    triesAt = nil
    // Before the look, so that a socket which comes in between is told of.
    watchFolder()
    guard let path = source.socket() else {
      return tell(.lost("\(source.name) is not there by now"), &events)
    }
    guard let address = UnixSocketAddress(path) else {
      return tell(.lost("'\(path)' cannot be a socket of \(source.name)"), &events)
    }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0, address.withPointer({ Glibc.connect(descriptor, $0, $1) }) == 0 else {
      let error = errno
      if descriptor >= 0 { close(descriptor) }
      tell(.lost("\(source.name) cannot be reached at '\(path)': \(errorText(error))"), &events)
      return tryLater(now)
    }
    connection = Connection(descriptor: descriptor, session: source.makeSession())
    send(&events, now)
  }

  private func tryLater(_ now: Moment) {
    triesAt = nil
    guard tries < Self.mostTries else { return }
    triesAt = now + Self.firstPause * (1 << tries)
    tries += 1
  }

  private func exchange(_ events: inout [FrontEvent], _ now: Moment) {
    guard let descriptor = connection?.descriptor else { return }
    var part = [UInt8](repeating: 0, count: 1 << 14)
    // A bound, so that a server that never stops does not keep the host from its other work.
    for _ in 0..<64 {
      let count = recv(descriptor, &part, part.count, 0)
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { break }
      guard count > 0 else {
        return end(count == 0 ? "it has ended the connection" : errorText(errno), &events, now)
      }
      do throws(FrontError) {
        for report in try connection?.session.receive(Array(part[..<count])) ?? [] {
          switch report {
          case .ready:
            tries = 0
            // A new one shows by the end of this connection.
            if watch >= 0 { close(watch) }
            watch = -1
            tell(.followed(source.name), &events)
          case .focus(let pid): tell(.focus(pid.map(FrontTarget.window)), &events)
          case .shown(let pids): tell(.shown(pids), &events)
          }
        }
      } catch {
        return end(error.description, &events, now)
      }
    }
    send(&events, now)
  }

  private func send(_ events: inout [FrontEvent], _ now: Moment) {
    guard var current = connection else { return }
    current.unsent += current.session.takeOutput()
    while !current.unsent.isEmpty {
      let count = Glibc.send(current.descriptor, current.unsent, current.unsent.count, Int32(MSG_NOSIGNAL))
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { break }
      // Reading tells why.
      if count < 0 { current.unsent = [] } else { current.unsent.removeFirst(count) }
    }
    connection = current
  }

  private func end(_ why: String, _ events: inout [FrontEvent], _ now: Moment) {
    if let connection { close(connection.descriptor) }
    connection = nil
    tell(.lost("\(source.name) is not followed: \(why)"), &events)
    watchFolder()
    tryLater(now)
  }

  // MARK: The folder

  /// Has the kernel tell of what is made in the socket's folder, or in the nearest one above that exists.
  private func watchFolder() {
    if watch < 0 { watch = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC)) }
    guard watch >= 0 else { return }
    var folder = source.folder
    let made = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO) | UInt32(IN_ONLYDIR)
    while inotify_add_watch(watch, folder, made) < 0, errno == ENOENT, let slash = folder.lastIndex(of: "/"),
      folder != "/"
    {
      folder = slash == folder.startIndex ? "/" : String(folder[..<slash])
    }
  }

  private func drainWatch() {
    var bytes = [UInt8](repeating: 0, count: 1 << 14)
    while read(watch, &bytes, bytes.count) > 0 {}
    // A new one, since what is watched by now may be above the folder or gone.
    close(watch)
    watch = -1
    watchFolder()
  }
}
