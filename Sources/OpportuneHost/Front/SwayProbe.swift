internal import Glibc
internal import OpportuneBase

/// Whose windows sway shows by now. A Wayland client that is frozen while it is shown is sent events until
/// its buffer is full, and dies of that.
enum SwayProbe {
  /// Blocks until sway has answered, at most for the limit.
  ///
  /// - Returns: `nil` where there is no sway, or it does not answer.
  static func visibleProcesses(_ sway: SwayFront, within limit: Duration) -> Set<pid_t>? {
    guard let path = sway.socket(), let address = UnixSocketAddress(path) else { return nil }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    guard address.withPointer({ connect(descriptor, $0, $1) }) == 0 else { return nil }
    let question = SwaySession.treeRequest
    // It fits into the buffer of a new connection.
    guard send(descriptor, question, question.count, Int32(MSG_NOSIGNAL)) == question.count else {
      return nil
    }
    let end = ContinuousClock.now + limit
    var input: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 1 << 14)
    while true {
      do throws(FrontError) {
        var rest = input[...]
        if let (_, body) = try SwaySession.next(of: &rest) { return try SwaySession.visible(in: body) }
      } catch {
        return nil
      }
      let count = recv(descriptor, &part, part.count, 0)
      if count > 0 {
        input += part[..<count]
      } else if count == 0 || errno != EAGAIN && errno != EINTR {
        return nil
      } else if errno == EAGAIN {
        let left = ContinuousClock.now.duration(to: end)
        guard left > .zero else { return nil }
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        poll(&polled, 1, Int32(clamping: Int64(left / .milliseconds(1)) + 1))
      }
    }
  }
}
