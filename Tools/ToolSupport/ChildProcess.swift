package import Glibc

/// Programs that a tool starts as child processes.
package enum ChildProcess {
  /// Starts a program that is found in PATH.
  ///
  /// - Parameters:
  ///   - ownSession: whether it runs in a session of its own, without a terminal.
  ///   - redirect: the descriptors of the child, where they differ from this process's.
  package static func start(
    _ words: [String], ownSession: Bool = false,
    _ redirect: (inout posix_spawn_file_actions_t) -> Void = { _ in }
  ) throws(SystemFailure) -> pid_t {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    redirect(&actions)
    // None blocked: the threads of Dispatch block nearly all signals, and a child inherits that.
    var blocked = sigset_t()
    sigemptyset(&blocked)
    posix_spawnattr_setsigmask(&attributes, &blocked)
    let ownSessionFlag: Int16 = 0x80  // POSIX_SPAWN_SETSID
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK) | (ownSession ? ownSessionFlag : 0))
    var arguments = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var child: pid_t = 0
    let error = posix_spawnp(&child, words[0], &actions, &attributes, &arguments, environ)
    guard error == 0 else { throw SystemFailure("'\(words[0])' was not started", error) }
    return child
  }

  /// A pipe whose ends children inherit only where they are passed on.
  package static func pipe() throws(SystemFailure) -> (reader: Int32, writer: Int32) {
    var ends: [Int32] = [-1, -1]
    guard Glibc.pipe(&ends) == 0 else { throw SystemFailure("no pipe was made") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends[0], ends[1])
  }

  /// Waits for the end of the process, however caused, and returns its status.
  @discardableResult
  package static func wait(for child: pid_t) -> Int32 {
    var status: Int32 = 0
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    return status
  }
}

extension posix_spawn_file_actions_t {
  /// Redirects input from nothing, and output to a file; with `errors` also the error output, which is
  /// otherwise discarded.
  package mutating func write(to path: String, _ flags: Int32, errors: Bool) {
    posix_spawn_file_actions_addopen(&self, STDOUT_FILENO, path, flags, 0)
    finish(errors)
  }

  /// The same, to an open descriptor of this process, at its current position.
  package mutating func write(to descriptor: Int32, errors: Bool) {
    posix_spawn_file_actions_adddup2(&self, descriptor, STDOUT_FILENO)
    finish(errors)
  }

  private mutating func finish(_ errors: Bool) {
    posix_spawn_file_actions_addopen(&self, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    if errors {
      posix_spawn_file_actions_adddup2(&self, STDOUT_FILENO, STDERR_FILENO)
    } else {
      posix_spawn_file_actions_addopen(&self, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    }
  }
}
