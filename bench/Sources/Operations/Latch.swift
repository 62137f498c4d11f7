import Dispatch
import Foundation
import Synchronization

/// Opens when it was counted down so many times. One waiter, a thread that may block.
final class Latch: Sendable {
  private let left: Atomic<Int>
  private let opened = DispatchSemaphore(value: 0)

  init(_ count: Int) { left = Atomic(count) }

  func countDown() {
    // acquiringAndReleasing: what each has done comes before the opening.
    if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { opened.signal() }
  }

  func wait() { opened.wait() }
}

/// Runs `body` on a thread of its own, outside any executor, and returns when it has returned.
func onThreads(_ count: Int, _ body: @escaping @Sendable (_ number: Int) -> Void) async {
  await withCheckedContinuation { continuation in
    let latch = Latch(count)
    for number in 0..<count {
      Thread.detachNewThread {
        body(number)
        latch.countDown()
      }
    }
    Thread.detachNewThread {
      latch.wait()
      continuation.resume()
    }
  }
}
