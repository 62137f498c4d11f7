import Dispatch
import Glibc

/// Runs threads concurrently, independent of the number of cores: a pool would run only as many as those.
enum OwnThreads {
  /// Starts `body` on so many threads, with 0 and up, and says to `group` when each is over.
  ///
  /// - Throws: ``FuzzError/noThread(_:)`` with how many were started, which go on.
  static func start(
    _ count: Int, group: DispatchGroup, _ body: @escaping @Sendable (Int) -> Void
  ) throws(FuzzError) {
    for number in 0..<count {
      var thread = pthread_t()
      let work = Unmanaged.passRetained(Work(group) { body(number) })
      group.enter()
      let result = pthread_create(
        &thread, nil,
        { context in
          guard let context else { return nil }
          let work = Unmanaged<Work>.fromOpaque(context).takeRetainedValue()
          work.body()
          work.group.leave()
          return nil
        }, work.toOpaque())
      guard result == 0 else {
        work.release()
        group.leave()
        throw .noThread(number)
      }
      pthread_detach(thread)
    }
  }

  private final class Work: Sendable {
    let group: DispatchGroup
    let body: @Sendable () -> Void

    init(_ group: DispatchGroup, _ body: @escaping @Sendable () -> Void) {
      self.group = group
      self.body = body
    }
  }
}
