import Foundation

/// Where properties have files that must have a name. A shell that outlives this process removes it, with all that is in it,
/// however the process ends.
enum OwnFolder {
  /// `nil` where none can be made. Once for the process.
  static let path: String? = {
    var name = Array("\(FileManager.default.temporaryDirectory.path)/opportune-fuzz-XXXXXX".utf8CString)
    var ends: [Int32] = [-1, -1]
    guard mkdtemp(&name) != nil else { return nil }
    let path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard pipe(&ends) == 0 else {
      rmdir(path)
      return nil
    }
    // The end that is written to closes with this process: no other has it.
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    if startRemover(of: path, reading: ends[0]) { return path }
    close(ends[1])
    rmdir(path)
    return nil
  }()

  private static func startRemover(of path: String, reading input: Int32) -> Bool {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
    for output in [STDOUT_FILENO, STDERR_FILENO] {
      posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0)
    }
    // What ends this process may be meant for all of its group.
    posix_spawnattr_setflags(&attributes, 0x80)  // POSIX_SPAWN_SETSID
    let script = "trap '' HUP INT TERM; read nothing; rm -rf -- \"$0\""
    let words: [String] = ["sh", "-c", script, path]
    var arguments = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var child: pid_t = 0
    return posix_spawn(&child, "/bin/sh", &actions, &attributes, &arguments, environ) == 0
  }
}
