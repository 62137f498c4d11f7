import NIOCore
import Opportune

extension Scheduler {
  /// Puts the threads of an event-loop group in the kernel's class of foreground workers: its nice value and
  /// its slice, so that a loop that has something to read runs soon, also beside other threads.
  ///
  /// Do so once, before the server starts; `MultiThreadedEventLoopGroup.singleton` is Hummingbird's own. The
  /// loops should then compute little: nothing demotes them. Handlers go to apps, see ``RunOnApps``.
  ///
  /// - Returns: how many loops there are, and how many the kernel has given the nice value; without privilege
  ///   a thread that was lowered before gets the slice alone.
  /// - Throws: what a loop says. Not for a group that was shut down: SwiftNIO then does not answer.
  @discardableResult
  public func putInForeground(_ loops: any EventLoopGroup) async throws -> (loops: Int, raised: Int) {
    var (count, raised) = (0, 0)
    for loop in loops.makeIterator() {
      count += 1
      if try await loop.submit({ self.putCallingThreadInForeground() }).get() { raised += 1 }
    }
    return (count, raised)
  }
}
