import Foundation
import OpportuneBase
import ToolSupport

/// A contender's server while it runs.
protocol RunningServer: AnyObject {
  var process: pid_t { get }
  /// Why it has ended by itself; nil while it runs.
  func end() -> String?
  func stop()
}

extension RunningServer {
  /// The same, waiting for it for so many nanoseconds.
  func end(within limit: Nanoseconds) -> String? {
    let deadline = SystemClock.now() + limit
    while SystemClock.now() < deadline {
      if let end = end() { return end }
      SystemClock.sleep(until: SystemClock.now() + 5_000_000)
    }
    return end()
  }
}

/// The server as a process of its own, this program once more or a rival's, so that contenders do not find
/// each other's memory and threads, and a limit of memory is of the server alone. It ends with its input.
final class ServeProcess: RunningServer {
  let process: pid_t
  private let input: Int32
  private let group: MemoryGroup?
  private var status: Int32?

  /// - Parameters:
  ///   - rival: the program of a contender that this one does not link.
  ///   - limit: in MiB; nil where the machine allows no memory cgroup.
  init(_ setup: ServerSetup, rival: String?, limit: Int?) throws {
    let text = String(decoding: try JSONEncoder().encode(setup), as: UTF8.self)
    let group = try limit.map { _ in try MemoryGroup() }
    self.group = group
    let (reader, writer) = try ChildProcess.pipe()
    defer { close(reader) }
    do {
      if let limit { try group?.limit(mebibytes: limit, swaps: false) }
      let isRival = ServeContender.named(setup.contender).map { $0.make == nil } ?? false
      let words = (isRival ? rival : nil).map { [$0] } ?? [Self.program, "bench", "serve", "--as-server"]
      // Ctrl-C is of the terminal's session: the server goes on until it is ended.
      process = try ChildProcess.start(words + [text], ownSession: true) { actions in
        posix_spawn_file_actions_adddup2(&actions, reader, STDIN_FILENO)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
      }
    } catch {
      group?.remove()
      close(writer)
      throw error
    }
    input = writer
    try group?.enter(process)
  }

  /// This program itself, also where its file was replaced since.
  private static let program = "/proc/\(getpid())/exe"

  deinit {
    stop()
    group?.remove()
  }

  func end() -> String? {
    var found: Int32 = 0
    if status == nil, waitpid(process, &found, WNOHANG) == process { status = found }
    guard let status else { return nil }
    let signal = status & 0x7F
    if signal == SIGKILL { return "it was ended by signal 9, as the kernel does where memory is out" }
    return signal == 0 ? "it ended with status \(status >> 8 & 0xFF)" : "it was ended by signal \(signal)"
  }

  func stop() {
    guard !isStopped else { return }
    isStopped = true
    close(input)
    guard end(within: 10_000_000_000) == nil else { return }
    kill(process, SIGKILL)
    ChildProcess.wait(for: process)
    status = SIGKILL
  }

  private var isStopped = false
}

/// The other side: what the process does until its input ends.
package enum ServeChild {
  /// - Parameter text: a ``ServerSetup`` as JSON.
  package static func run(_ text: String) async throws {
    let setup = try setup(text)
    guard let server = ServeContender.named(setup.contender)?.make?() else {
      throw BenchError.invalid("--as-server", setup.contender, expected: "a contender of this program")
    }
    try await server.start(setup)
    await waitForEndOfInput()
    await server.stop()
  }

  static func setup(_ text: String) throws -> ServerSetup {
    try JSONDecoder().decode(ServerSetup.self, from: Data(text.utf8))
  }

  static func waitForEndOfInput() async {
    await withCheckedContinuation { ended in
      let code = SystemThread.launch(named: "input") {
        var byte: UInt8 = 0
        var count = 1
        while count > 0 || (count < 0 && errno == EINTR) { count = read(STDIN_FILENO, &byte, 1) }
        ended.resume()
      }
      if code != 0 { ended.resume() }
    }
  }
}
