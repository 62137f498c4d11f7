import Foundation
import OpportuneApps
import OpportuneBase
import Synchronization

/// The lines of a descriptor, each waited for until a deadline. For one reader at a time.
final class AnswerLines: Sendable {
  enum Next: Equatable {
    case line(String)
    /// There will be none.
    case ended
    case late
    case withdrawn
  }

  /// Longer lines are no answers; the rest of them is dropped.
  private static let longest = 1024

  private let input: Int32
  private let read = Mutex([UInt8]())

  init(_ input: Int32) { self.input = input }

  /// Drops what a person has typed so far. What a program wrote stays: it cannot know when it is asked.
  func forgetWhatWasTyped() {
    guard isatty(input) == 1 else { return }
    tcflush(input, TCIFLUSH)
    read.withLock { $0 = [] }
  }

  /// Blocks the thread.
  func next(before deadline: ContinuousClock.Instant, unless withdrawal: Withdrawal) -> Next {
    read.withLock { read in
      while true {
        if let end = read.firstIndex(of: UInt8(ascii: "\n")) {
          let line = String(decoding: read[..<end], as: UTF8.self)
          read.removeSubrange(...end)
          return .line(line)
        }
        var polled = [
          pollfd(fd: input, events: Int16(POLLIN), revents: 0),
          pollfd(fd: withdrawal.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        let left = max(.zero, deadline - .now)
        // Rounded up, so that the last wait is not a spin.
        let ready = poll(&polled, 2, Int32(min(left.inSeconds * 1000 + 1, 86_401_000)))
        if withdrawal.hasHappened { return .withdrawn }
        if ready < 0, errno == EINTR { continue }
        if ready < 0 { return .ended }
        if polled[0].revents == 0 {
          if ContinuousClock.now >= deadline { return .late }
          continue
        }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = Glibc.read(input, &bytes, bytes.count)
        if count < 0, errno == EINTR || errno == EAGAIN { continue }
        guard count > 0 else { return .ended }
        read += bytes[..<count]
        if read.count > Self.longest, !read.contains(UInt8(ascii: "\n")) {
          read.removeFirst(read.count - Self.longest)
        }
      }
    }
  }
}

/// That a question is taken away: a flag, and a descriptor that can be read from then on.
final class Withdrawal: Sendable {
  /// -1, of which `poll` takes no notice, where the process has no more descriptors: the deadline ends the
  /// wait then.
  let descriptor: Int32
  private let other: Int32
  private let flag = Atomic(false)

  init() {
    var ends: [Int32] = [-1, -1]
    if pipe(&ends) == 0 { for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) } }
    (descriptor, other) = (ends[0], ends[1])
  }

  deinit { for end in [descriptor, other] where end >= 0 { close(end) } }

  var hasHappened: Bool { flag.load(ordering: .relaxed) }

  func happen() {
    flag.store(true, ordering: .relaxed)
    // The kernel orders the flag before the end of the wait. A pipe takes one byte without waiting.
    _ = Glibc.write(other, [1], 1)
  }
}
