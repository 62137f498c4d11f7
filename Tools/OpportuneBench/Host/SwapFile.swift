import Glibc
import OpportuneBase
import ToolSupport

/// A file that the machine swaps to, for a moment. A shell that outlives this process takes it away, however
/// the process ends.
final class SwapFile {
  private let held: Int32
  private let shell: pid_t

  /// - Throws: ``BenchError``: `unavailable` where the kernel takes no such file.
  init(in folder: String, mebibytes: Int) throws {
    let path = "\(folder)/opportune-bench-\(getpid()).swap"
    let log = path + ".log"
    let script = """
      trap '' HUP INT TERM; PATH=$PATH:/usr/sbin:/sbin
      if fallocate -l "$1" "$0" && chmod 600 "$0" && mkswap -q "$0" && swapon "$0"; then echo on; else echo off; fi
      read nothing; swapoff "$0" 2> /dev/null; rm -f -- "$0" "$0.log"
      """
    let (reader, writer) = try ChildProcess.pipe()
    defer { close(reader) }
    do {
      shell = try ChildProcess.start(["sh", "-c", script, path, "\(mebibytes << 20)"], ownSession: true) {
        $0.write(to: log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, errors: true)
        posix_spawn_file_actions_adddup2(&$0, reader, STDIN_FILENO)
      }
    } catch {
      close(writer)
      throw error
    }
    held = writer
    while true {
      let said = TextFile.read(log) ?? ""
      if said.hasSuffix("on\n") { return }
      if said.hasSuffix("off\n") {
        let why = said.split(separator: "\n").dropLast().joined(separator: "; ")
        throw BenchError(.unavailable, "no swap file was made in '\(folder)': \(why)")
      }
      guard kill(shell, 0) == 0 else {
        throw BenchError(.unavailable, "no swap file was made in '\(folder)'")
      }
      SystemClock.sleep(until: SystemClock.now() + 2_000_000)
    }
  }

  /// Whether the machine swaps to anything.
  static var isThere: Bool {
    (TextFile.read("/proc/swaps") ?? "").split(separator: "\n").count > 1
  }

  deinit {
    close(held)
    ChildProcess.wait(for: shell)
  }
}
