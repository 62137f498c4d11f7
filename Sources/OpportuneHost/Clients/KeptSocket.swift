internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// A socket that a program has handed over, to be told of what comes for it while the program is suspended.
/// The host has a descriptor of its own of it, and reads nothing from it. (R-VOIP-01)
///
/// The program is told once in a suspension, also of what was there before it. What it leaves unread it is
/// told of in the next suspension again, but not before a pause: else one that does not read would be stopped
/// and woken without end.
///
/// Used by one thread at a time.
final class KeptSocket {
  /// The most of a program.
  static let most = 16
  /// From one time that it is told to the next, where there is something when it is suspended.
  static let pause: Duration = .seconds(1)

  /// The program's own.
  let number: Int64
  let descriptor: Int32
  private var toldAt: Moment?
  /// It is looked at from then on; `nil`: at any time.
  private(set) var waitsUntil: Moment?

  init(_ number: Int64, _ descriptor: Int32) { (self.number, self.descriptor) = (number, descriptor) }

  func close() { Glibc.close(descriptor) }

  /// What to wait for: something to read, or the end of what the peer sends.
  static let events = Int16(POLLIN) | peerHasEnded
  private static let peerHasEnded: Int16 = 0x2000  // POLLRDHUP, which Glibc does not export

  /// What is there now; `nil`: nothing.
  private var found: Int16? {
    var polled = pollfd(fd: descriptor, events: Self.events, revents: 0)
    return poll(&polled, 1, 0) > 0 ? polled.revents : nil
  }

  /// Its program was suspended.
  func arm(now: Moment) {
    waitsUntil = nil
    if let toldAt, found != nil { waitsUntil = toldAt + Self.pause }
  }

  func isLookedAt(at now: Moment) -> Bool { waitsUntil.map { $0 <= now } != false }

  /// - Returns: what its program is to be told; `nil`: nothing.
  func look(now: Moment) -> (bytes: Int, hasEnded: Bool)? {
    guard isLookedAt(at: now), let found else { return nil }
    toldAt = now
    var bytes: Int32 = 0
    // 0 where the kernel does not tell, as of a socket that listens.
    _ = ioctl(descriptor, UInt(FIONREAD), &bytes)
    return (max(0, Int(bytes)), found & (Int16(POLLHUP) | Self.peerHasEnded) != 0)
  }

  /// - Parameter connection: of the program to the host.
  /// - Returns: why a descriptor is not kept, for people; `nil`: it may be.
  static func obstacle(_ descriptor: Int32, connection: Int32) -> String? {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return "it cannot be looked at: \(errorText(errno))" }
    // Others have files of their own, whose makers may let who looks at them wait.
    guard [S_IFSOCK, S_IFIFO].contains(status.st_mode & S_IFMT) else { return "it is no socket and no pipe" }
    // It would never end, as one end of it would be here.
    if let here = address(connection, getsockname), address(descriptor, getpeername) == here {
      return "it is a connection to this host"
    }
    return nil
  }

  /// - Returns: `nil` where there is none, or it has no name.
  private static func address(
    _ socket: Int32,
    _ ask: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
  ) -> [UInt8]? {
    var storage = sockaddr_storage()
    var size = socklen_t(MemoryLayout.size(ofValue: storage))
    return withUnsafeMutableBytes(of: &storage) { bytes in
      let place = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self)
      guard ask(socket, place, &size) == 0, size > MemoryLayout<sa_family_t>.size else { return nil }
      return Array(bytes.prefix(Int(size)))
    }
  }
}
