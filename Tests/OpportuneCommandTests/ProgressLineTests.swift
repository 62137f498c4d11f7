import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct ProgressLineTests {
  private final class Written: Sendable {
    private let text = Mutex("")
    func add(_ more: String) { text.withLock { $0 += more } }
    func take() -> String {
      text.withLock { text in
        defer { text = "" }
        return text
      }
    }
  }

  @Test func aLineSaysWhatIsDoneAndHowFarAndIsGoneThen() {
    let written = Written()
    let progress = ProgressLine(isTerminal: false) { written.add($0) }
    let clear = "\r\u{1B}[K"
    let result = progress.during("reading") { count in
      progress.show()
      #expect(written.take() == "\(clear)reading ...")
      count(5, 10)
      #expect(written.take().isEmpty)
      progress.show()
      #expect(written.take() == "\(clear)reading: 5 of 10 ...")
      return 7
    }
    #expect(result == 7 && written.take() == clear)
    // Who is asked between two things says nothing, and what took no time leaves nothing.
    progress.show()
    progress.during("drawing") { $0(1, 2) }
    #expect(written.take().isEmpty)
    struct Wrong: Error {}
    #expect(throws: Wrong.self) {
      try progress.during("reading") { _ in
        progress.show()
        throw Wrong()
      }
    }
    #expect(written.take() == "\(clear)reading ...\(clear)")
  }

  @Test(.timeLimit(.minutes(1))) func aTerminalIsToldByATimer() {
    let written = DispatchSemaphore(value: 0)
    let progress = ProgressLine(isTerminal: true) { _ in written.signal() }
    progress.during("waiting") { _ in #expect(written.wait(timeout: .now() + 50) == .success) }
  }
}
