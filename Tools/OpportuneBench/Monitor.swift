import Glibc
import OpportuneBase

/// A lock with one condition variable.
///
/// `@unchecked Sendable`: a condition variable is made to be shared, and stays at its address until the last
/// owner is gone.
final class Monitor: @unchecked Sendable {
  private let lock = Lock()
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  init() {
    condition.initialize(to: pthread_cond_t())
    pthread_cond_init(condition, nil)
  }

  deinit {
    pthread_cond_destroy(condition)
    condition.deallocate()
  }

  func withLock<Result>(_ body: () -> Result) -> Result { lock.withLock(body) }

  /// Only with the lock held.
  func wait() { pthread_cond_wait(condition, lock.mutex) }
  func signal() { pthread_cond_signal(condition) }
  func broadcast() { pthread_cond_broadcast(condition) }
}

/// A gate that opens once.
final class Gate: @unchecked Sendable {
  private let monitor = Monitor()
  private var isOpen = false  // protected by `monitor`

  func open() {
    monitor.withLock {
      isOpen = true
      monitor.broadcast()
    }
  }

  func wait() {
    monitor.withLock {
      while !isOpen { monitor.wait() }
    }
  }
}
