import Glibc

/// Another process that holds so much memory until it is ended: dd reads it whole, and finds no room to write it to.
final class Holder {
  let process: pid_t
  private let mebibytes: Int
  private let path: String
  private var reader: Int32
  private var isReaped = false

  /// - Parameters:
  ///   - source: where its content is read from; `/dev/urandom` for what does not compress.
  ///   - isAlone: in a session of its own, and with both ends of what it writes to, so that nothing of it is elsewhere.
  init(mebibytes: Int, source: String, folder: String, isAlone: Bool = false) throws(BenchError) {
    self.mebibytes = mebibytes
    path = "\(folder)/opportune-bench-\(getpid()).fifo"
    unlink(path)
    guard mkfifo(path, 0o600) == 0 else { throw .failed("'\(path)' was not made") }
    reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    var child: pid_t = 0
    let words = ["dd", "if=\(source)", "bs=\(mebibytes)M", "count=1", "iflag=fullblock"]
    let result =
      reader < 0 ? errno : spawn(words, output: path, isAlone ? O_RDWR : O_WRONLY, ownSession: isAlone, &child)
    guard result == 0 else {
      if reader >= 0 { close(reader) }
      unlink(path)
      throw .failed("dd was not started", result)
    }
    process = child
    // Of all in its group the kernel ends this one first.
    write("1000", to: "/proc/\(child)/oom_score_adj")
  }

  deinit {
    end()
    letGo()
    unlink(path)
  }

  /// On return it holds all of it, and does nothing any more.
  func waitUntilFull() throws(BenchError) {
    guard poll(for: Int16(POLLIN), milliseconds: 120_000) & Int16(POLLIN) != 0 else {
      throw BenchError(.system, "dd did not come to hold \(mebibytes) MiB")
    }
  }

  /// Whether it has ended, or does so within that time.
  func hasEnded(within milliseconds: Int32) -> Bool { poll(for: 0, milliseconds: milliseconds) & Int16(POLLHUP) != 0 }

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
    while waitpid(process, nil, 0) < 0, errno == EINTR {}
    isReaped = true
  }
}

/// Starts a command of the path, without a terminal. Returns 0 or an error number.
func spawn(
  _ words: [String], output: String = "/dev/null", _ flags: Int32 = O_WRONLY, ownSession: Bool = false,
  _ child: inout pid_t
) -> Int32 {
  var actions = posix_spawn_file_actions_t()
  var attributes = posix_spawnattr_t()
  posix_spawn_file_actions_init(&actions)
  posix_spawnattr_init(&attributes)
  defer {
    posix_spawn_file_actions_destroy(&actions)
    posix_spawnattr_destroy(&attributes)
  }
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, flags, 0o600)
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
  if output != "/dev/null", flags & O_CREAT == 0 {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
  }
  if ownSession { posix_spawnattr_setflags(&attributes, 0x80) }  // POSIX_SPAWN_SETSID
  var arguments = words.map { strdup($0) } + [nil]
  defer { for argument in arguments { free(argument) } }
  return posix_spawnp(&child, words[0], &actions, &attributes, &arguments, environ)
}

/// Writes a small file of the kernel's; whether it took it.
@discardableResult
func write(_ text: String, to path: String) -> Bool {
  let file = open(path, O_WRONLY | O_CLOEXEC)
  guard file >= 0 else { return false }
  let count = Glibc.write(file, text, text.utf8.count)
  let number = errno
  close(file)
  errno = number
  return count == text.utf8.count
}
