import Foundation
import Glibc
internal import OpportuneBase

/// Line-based communication over a Unix socket, for client and host.
package enum LocalSocket {
  /// The limit of a line that a host accepts, in bytes.
  package static let longestLine = 64 * 1024
  /// The limit of a host's answer in bytes; it lists all of its apps.
  static let longestAnswer = 16 << 20

  // MARK: Client

  /// A time limit for a whole exchange.
  struct Patience {
    let limit: Duration
    let end: ContinuousClock.Instant

    init(_ limit: Duration) {
      self.limit = limit
      end = .now + limit
    }
  }

  /// Sends a line to a host and waits for its answer. A limit of `nil` waits as long as the host takes.
  package static func ask(_ line: Data, at path: String, within limit: Duration?) throws(PushError) -> String
  {
    let patience = limit.map(Patience.init)
    let descriptor = try connection(to: path, patience)
    defer { close(descriptor) }
    guard write(line + [10], to: descriptor, patience) else { throw failure(path, patience) }
    guard let answer = readLine(from: descriptor, longest: longestAnswer, patience) else {
      throw errno == 0 ? PushError(.refused("the host closed the connection")) : failure(path, patience)
    }
    return String(decoding: answer, as: UTF8.self)
  }

  static func connection(to path: String, _ patience: Patience? = nil) throws(PushError) -> Int32 {
    let (descriptor, address) = try open(path)
    var result: Int32 = -1
    repeat {
      // If the host's queue is full, connect blocks like a send (unix(7)).
      guard wait(descriptor, SO_SNDTIMEO, patience) else { break }
      result = address.withPointer { connect(descriptor, $0, $1) }
    } while result != 0 && errno == EINTR
    guard result == 0 else {
      let failure = failure(path, patience)
      close(descriptor)
      throw failure
    }
    return descriptor
  }

  private static func failure(_ path: String, _ patience: Patience?) -> PushError {
    switch errno {
    case EAGAIN: if let patience { return PushError(.timedOut(path, patience.limit)) }
    // The kernel returns the same error for a file that is not a socket and for a socket without a listener.
    case ECONNREFUSED: return PushError(.system(path, whatIsNoSocket(path) ?? "no host listens there"))
    default: break
    }
    return PushError(.system(path, errorText(errno)))
  }

  private static func whatIsNoSocket(_ path: String) -> String? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFSOCK else { return nil }
    return
      "this is \(status.st_mode & S_IFMT == S_IFDIR ? "a directory" : "a file"), expected a host's socket"
  }

  /// Sets the timeout of calls on a descriptor. Returns false, with EAGAIN, if the time is over.
  private static func wait(_ descriptor: Int32, _ option: Int32, _ patience: Patience?) -> Bool {
    guard let patience else { return true }
    let left = ContinuousClock.now.duration(to: patience.end)
    guard left > .zero else {
      errno = EAGAIN
      return false
    }
    let (seconds, attoseconds) = left.components
    // A timeout of zero would mean for ever.
    var limit = timeval(tv_sec: Int(seconds), tv_usec: max(1, Int(attoseconds / 1_000_000_000_000)))
    return setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size)) == 0
  }

  static func write(_ data: Data, to descriptor: Int32, _ patience: Patience? = nil) -> Bool {
    var rest = data[...]
    while !rest.isEmpty {
      guard wait(descriptor, SO_SNDTIMEO, patience) else { return false }
      let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Reads a line, without its line feed. Returns `nil` on an error, or, with an `errno` of 0, at the end of
  /// the stream.
  static func readLine(
    from descriptor: Int32, longest: Int = longestLine, _ patience: Patience? = nil
  ) -> Data? {
    var line = Data()
    var bytes = [UInt8](repeating: 0, count: 4096)
    while line.count < longest {
      guard wait(descriptor, SO_RCVTIMEO, patience) else { return nil }
      // Peeks first: bytes after the line must stay in the socket.
      let seen = recv(descriptor, &bytes, bytes.count, Int32(MSG_PEEK))
      if seen < 0, errno == EINTR { continue }
      if seen == 0 { errno = 0 }
      guard seen > 0 else { return nil }
      let end = bytes[..<seen].firstIndex(of: 10)
      guard recv(descriptor, &bytes, end.map { $0 + 1 } ?? seen, 0) > 0 else { return nil }
      line += bytes[..<(end ?? seen)]
      if end != nil { return line }
    }
    return line
  }

  // MARK: Host

  /// Listens on a socket at a path; replaces a socket without a listener.
  ///
  /// Hosts that start at the same time take turns by the lock of the folder. With the lock held, each checks
  /// for a listener, removes a dead socket, and listens. Alternatives are worse: a lock file would stay
  /// behind, and renaming a socket into place would replace that of another host.
  ///
  /// - Parameters:
  ///   - patience: how long to wait for the lock while another program has it; then it continues without.
  ///   - say: called with a sentence when the wait takes longer than among hosts.
  static func listening(
    at path: String, mode: mode_t, patience: Duration = .seconds(2), say: (String) -> Void
  ) throws(PushError) -> (descriptor: Int32, file: File) {
    let (descriptor, address) = try open(path)
    do throws(PushError) {
      let file = try locked(folder(of: path), patience: patience, say: say) { () throws(PushError) in
        try removeDead(path)
        guard address.withPointer({ bind(descriptor, $0, $1) }) == 0 else {
          throw PushError(.system(path, errorText(errno)))
        }
        guard chmod(path, mode) == 0, listen(descriptor, 128) == 0, let file = File(path) else {
          let reason = errorText(errno)
          unlink(path)
          throw PushError(.system(path, reason))
        }
        return file
      }
      return (descriptor, file)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Removes a host's own socket while it still listens, so that no other host takes it for a dead one.
  static func remove(_ path: String, _ own: File) {
    try? locked(folder(of: path), patience: .milliseconds(100)) { () throws(PushError) in
      if File(path) == own { unlink(path) }
    }
  }

  /// The identity of a file, independent of its name.
  struct File: Equatable {
    let device: UInt
    let number: UInt
    let kind: mode_t

    var isSocket: Bool { kind == S_IFSOCK }

    /// What kind of file it is, if it is not a socket.
    var what: String {
      switch kind {
      case S_IFDIR: "a directory"
      case S_IFLNK: "a symbolic link, which no host follows,"
      default: "a file that is not a socket"
      }
    }

    /// `nil` where there is no file; `errno` says why. For a symbolic link, the link itself.
    init?(_ path: String) {
      var status = stat()
      guard lstat(path, &status) == 0 else { return nil }
      (device, number) = (UInt(status.st_dev), UInt(status.st_ino))
      kind = status.st_mode & S_IFMT
    }
  }

  private static func folder(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
  }

  /// Calls `body` with the folder locked by this process, if possible. Hosts hold the lock only for a moment.
  /// A program that holds it for longer is not a host, and must not keep hosts from starting. Without the
  /// lock, two hosts that start at once over a dead socket may each remove it, and the second one has the
  /// path.
  private static func locked<Result>(
    _ folder: String, patience: Duration, say: (String) -> Void = { _ in },
    _ body: () throws(PushError) -> Result
  ) throws(PushError) -> Result {
    let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return try body() }  // it may be writable and not readable
    defer { close(descriptor) }
    let began = ContinuousClock.now
    var hasSaid = false
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK || errno == EINTR {
      let waited = began.duration(to: .now)
      if !hasSaid, waited >= patience / 20 {
        say(
          "another program has locked the folder '\(folder)' (flock): the socket waits for it, \(patience) at most"
        )
        hasSaid = true
      }
      if waited >= patience { break }
      usleep(1000)
    }
    return try body()
  }

  private static func removeDead(_ path: String) throws(PushError) {
    guard let file = File(path) else {
      guard errno == ENOENT else { throw PushError(.system(path, errorText(errno))) }
      return
    }
    guard file.isSocket else { throw PushError(.taken(path, file.what)) }
    let host = "a host that listens"
    let (probe, address) = try open(path)
    defer { close(probe) }
    // Must not block where the queue is full, as of a stopped host.
    _ = fcntl(probe, F_SETFL, O_NONBLOCK)
    guard address.withPointer({ connect(probe, $0, $1) }) != 0 else { throw PushError(.taken(path, host)) }
    switch errno {
    case ECONNREFUSED: break
    case ENOENT: return
    case EAGAIN, EINPROGRESS: throw PushError(.taken(path, host))
    default:
      throw PushError(.taken(path, "a socket that does not tell whether it is in use: \(errorText(errno))"))
    }
    guard unlink(path) == 0 || errno == ENOENT else { throw PushError(.system(path, errorText(errno))) }
  }

  /// The user of the peer process, as recorded by the kernel at the connection.
  static func user(of client: Int32) -> UInt32? {
    var credentials: (pid: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
    var size = socklen_t(MemoryLayout.size(ofValue: credentials))
    guard getsockopt(client, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else { return nil }
    return credentials.user
  }

  // MARK: Both sides

  /// Makes an unbound socket, and the address of the path.
  private static func open(_ path: String) throws(PushError) -> (Int32, UnixSocketAddress) {
    guard let address = UnixSocketAddress(path) else {
      throw PushError(.path(path, limit: UnixSocketAddress.longestPath))
    }
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw PushError(.system(path, errorText(errno))) }
    return (descriptor, address)
  }
}
