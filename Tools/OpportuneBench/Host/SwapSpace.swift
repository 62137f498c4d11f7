import Glibc
import OpportuneBase
import ToolSupport

/// What the machine swaps to, for a moment. A shell that outlives this process takes it away, however the
/// process ends.
final class SwapSpace {
  package enum Place: String, Sendable, CaseIterable {
    /// A file in the folder of the bench.
    case file
    /// Main memory, compressed.
    case zram
  }

  private let held: Int32
  private let shell: pid_t

  /// - Throws: ``BenchError``: `unavailable` where the kernel takes none such.
  init(on place: Place, in folder: String, mebibytes: Int) throws {
    let path = "\(folder)/opportune-bench-\(getpid()).swap"
    let log = path + ".log"
    let script = """
      trap '' HUP INT TERM; PATH=$PATH:/usr/sbin:/sbin
      \(place.script)
      if make "$1" && mkswap -q "$swap" && swapon "$swap"; then echo on; else echo off; fi
      read nothing; swapoff "$swap" 2> /dev/null; unmake; rm -f -- "$0.log"
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
        throw BenchError(.unavailable, "no swap was made (\(place.rawValue)): \(why)")
      }
      guard kill(shell, 0) == 0 else {
        throw BenchError(.unavailable, "no swap was made (\(place.rawValue))")
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

extension SwapSpace.Place {
  /// Sets `swap` in `make`, and takes that away in `unmake`. `$0` is a path of the bench's own, `$1` how
  /// many bytes.
  fileprivate var script: String {
    switch self {
    case .file:
      """
      swap=$0
      make() { fallocate -l "$1" "$swap" && chmod 600 "$swap"; }
      unmake() { rm -f -- "$swap"; }
      """
    case .zram:
      """
      control=/sys/class/zram-control
      make() {
        [ -e "$control" ] || modprobe zram || return
        number=$(cat "$control/hot_add") || return
        swap=/dev/zram$number
        echo "$1" > "/sys/block/zram$number/disksize"
      }
      unmake() { [ -z "$number" ] || echo "$number" > "$control/hot_remove"; }
      """
    }
  }
}
