import Dispatch
import Glibc
import OpportuneBase
import TestSupport
import Testing

@Suite(.bounded) struct LockTests {
  /// Guarded by the lock alone.
  private final class Counter: @unchecked Sendable {
    let lock = Lock()
    var count = 0
  }

  @Test func oneIsInsideAtATime() {
    let counter = Counter()
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      for _ in 0..<1000 { counter.lock.withLock { counter.count += 1 } }
    }
    #expect(counter.count == 4000)
  }

  @Test func whoThrowsLeavesItOpen() {
    struct Failure: Error {}
    let counter = Counter()
    #expect(throws: Failure.self) {
      try counter.lock.withLock { () throws(Failure) -> Void in throw Failure() }
    }
    counter.lock.withLock { counter.count = 7 }
    #expect(counter.count == 7)
  }

  @Test func anErrnoHasItsText() { #expect(errorText(ENOENT) == "No such file or directory") }
}
