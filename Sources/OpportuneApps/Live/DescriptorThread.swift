import Foundation

/// A thread that sleeps until a descriptor is readable. It ends with this object.
final class DescriptorThread: Sendable {
  /// Closed by `deinit`, which ends the thread.
  private let end: Int32

  /// Starts the thread.
  ///
  /// - Parameters:
  ///   - descriptor: closed when the thread ends, or here if it cannot be started.
  ///   - first: called on the thread before it sleeps.
  ///   - each: called on the thread when the descriptor has an event; its argument is false for an error.
  ///     Returns whether to continue.
  /// - Returns: `nil` where there are no descriptors left; `errno` says so.
  init?(
    _ descriptor: Int32, first: @escaping @Sendable () -> Void = {},
    each: @escaping @Sendable (_ isReadable: Bool) -> Bool
  ) {
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0
    else {
      let code = errno
      close(descriptor)
      errno = code
      return nil
    }
    end = ends[1]
    let wake = ends[0]
    Thread.detachNewThread {
      first()
      Self.follow(descriptor, until: wake, each)
    }
  }

  deinit { close(end) }

  private static func follow(_ descriptor: Int32, until end: Int32, _ each: (Bool) -> Bool) {
    defer { for one in [descriptor, end] { close(one) } }
    var polled = [
      pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0), pollfd(fd: end, events: 0, revents: 0),
    ]
    while true {
      guard poll(&polled, 2, -1) >= 0 || errno == EINTR else { return }
      if polled[1].revents != 0 { return }
      guard polled[0].revents == 0 || each(polled[0].revents & Int16(POLLIN) != 0) else { return }
    }
  }
}
