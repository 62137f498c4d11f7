import Foundation

/// Calls a function after a time, or up to a second later. Uses one thread that looks once a second, so
/// adding a function wakes no thread.
final class Watchdog: @unchecked Sendable {
  // Sendable: what changes does so under the lock.
  static let shared = Watchdog()

  private let lock = NSLock()
  private var last = 0
  private var watched: [Int: (end: ContinuousClock.Instant, act: @Sendable () -> Void)] = [:]

  private init() {
    Thread.detachNewThread { [self] in
      while true {
        sleep(1)
        for act in takeOver() { act() }
      }
    }
  }

  private func takeOver() -> [@Sendable () -> Void] {
    let now = ContinuousClock.now
    return lock.withLock {
      let over = watched.filter { $0.value.end < now }
      for id in over.keys { watched[id] = nil }
      return over.values.map(\.act)
    }
  }

  func watch(for time: Duration, _ act: @escaping @Sendable () -> Void) -> Int {
    let end = ContinuousClock.now + time
    return lock.withLock {
      last += 1
      watched[last] = (end, act)
      return last
    }
  }

  func unwatch(_ id: Int) { lock.withLock { watched[id] = nil } }
}
