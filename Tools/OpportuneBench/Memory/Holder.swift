import Glibc
import OpportuneBase
import ToolSupport

/// Another process that holds a given amount of memory until it is ended: dd reads all of it, and has no room
/// to write it to.
final class Holder {
  let process: pid_t
  private let mebibytes: Int
  private var reader: Int32
  private var isReaped = false

  /// - Parameters:
  ///   - source: where its content is read from; `/dev/urandom` for what does not compress.
  ///   - fifo: a name for what it writes to. It is then in a session of its own and has both ends, so that
  ///     nothing of it is elsewhere. `nil`: it ends when this process does.
  init(mebibytes: Int, source: String, aloneWith fifo: String? = nil) throws {
    self.mebibytes = mebibytes
    let words = ["dd", "if=\(source)", "bs=\(mebibytes)M", "count=1", "iflag=fullblock"]
    var writer: Int32 = -1
    defer { if writer >= 0 { close(writer) } }
    if let fifo {
      guard mkfifo(fifo, 0o600) == 0 else { throw BenchError.failed("'\(fifo)' was not made") }
      reader = open(fifo, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)
      guard reader >= 0 else { throw BenchError.failed("'\(fifo)' was not opened") }
    } else {
      (reader, writer) = try ChildProcess.pipe()
    }
    do {
      process = try ChildProcess.start(words, ownSession: fifo != nil) { [writer] in
        if let fifo { $0.write(to: fifo, O_RDWR, errors: false) } else { $0.write(to: writer, errors: false) }
      }
    } catch {
      close(reader)
      throw error
    }
    // Of all in its group the kernel ends this one first.
    TextFile.write("1000", to: "/proc/\(process)/oom_score_adj")
  }

  deinit {
    end()
    letGo()
  }

  /// On return it holds all of it, and does nothing any more.
  func waitUntilFull() throws(BenchError) {
    guard poll(for: Int16(POLLIN), milliseconds: 120_000) & Int16(POLLIN) != 0 else {
      throw BenchError(.system, "dd did not come to hold \(mebibytes) MiB")
    }
  }

  /// Whether it has ended, or does so within that time.
  func hasEnded(within milliseconds: Int32) -> Bool {
    poll(for: 0, milliseconds: milliseconds) & Int16(POLLHUP) != 0
  }

  private func poll(for events: Int16, milliseconds: Int32) -> Int16 {
    var polled = pollfd(fd: reader, events: events, revents: 0)
    while Glibc.poll(&polled, 1, milliseconds) < 0, errno == EINTR {}
    return polled.revents
  }

  /// Nothing of what it writes to is here any more. One that is not alone ends by that.
  func letGo() {
    if reader >= 0 { close(reader) }
    reader = -1
  }

  func end() {
    guard !isReaped else { return }
    kill(process, SIGKILL)
    reap()
  }

  /// It has ended, by whomever.
  func reap() {
    ChildProcess.wait(for: process)
    isReaped = true
  }
}
