import Foundation
import OpportuneBase
import Synchronization

/// Shows on a terminal what a command is doing, after one second, and its progress. Prints nothing if
/// standard error is not a terminal, and removes its line at the end.
final class ProgressLine: Sendable {
  private struct State {
    var what: String?
    var count: (done: Int, all: Int)?
    var isShown = false
  }

  private let state = Mutex(State())
  private let write: @Sendable (String) -> Void
  /// Each second; none where there is no terminal. Dispatch's own calls may come from any thread.
  private nonisolated(unsafe) let timer: (any DispatchSourceTimer)?

  init(
    isTerminal: Bool = isatty(STDERR_FILENO) == 1,
    // As it is, since it steers the terminal; and nobody could be told of a failure.
    write: @escaping @Sendable (String) -> Void = { _ = writeAll($0, to: STDERR_FILENO) }
  ) {
    self.write = write
    // A queue of its own has a thread, however busy the others are.
    timer = isTerminal ? DispatchSource.makeTimerSource(queue: DispatchQueue(label: "progress")) : nil
    timer?.setEventHandler { [weak self] in self?.show() }
    timer?.schedule(deadline: .now() + 1, repeating: 1, leeway: .milliseconds(100))
    timer?.resume()
  }

  deinit { timer?.cancel() }

  /// Does something, and meanwhile says that it does.
  ///
  /// - Parameter body: is given what it may tell how many are done to, and of how many.
  func during<Result>(_ what: String, _ body: ((Int, Int) -> Void) throws -> Result) rethrows -> Result {
    state.withLock { ($0.what, $0.count) = (what, nil) }
    defer { clear() }
    return try body { done, all in self.state.withLock { $0.count = (done, all) } }
  }

  /// Writes where it is now in place of what was written before.
  func show() {
    state.withLock { state in
      guard let what = state.what else { return }
      state.isShown = true
      let count = state.count.map { ": \($0.done) of \($0.all)" } ?? ""
      write("\r\u{1B}[K\(what.printable)\(count) ...")
    }
  }

  private func clear() {
    state.withLock { state in
      if state.isShown { write("\r\u{1B}[K") }
      state = State()
    }
  }
}
