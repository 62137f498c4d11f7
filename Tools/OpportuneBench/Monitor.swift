import Glibc

/// A mutex with one condition variable.
///
/// `@unchecked Sendable`: both are made to be shared, and stay at one address until the last owner is gone.
final class Monitor: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  init() {
    mutex.initialize(to: pthread_mutex_t())
    condition.initialize(to: pthread_cond_t())
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(condition, nil)
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  func lock() { pthread_mutex_lock(mutex) }
  func unlock() { pthread_mutex_unlock(mutex) }
  /// Only with the lock held.
  func wait() { pthread_cond_wait(condition, mutex) }
  func signal() { pthread_cond_signal(condition) }
  func broadcast() { pthread_cond_broadcast(condition) }
}

/// A gate that opens once.
final class Gate: @unchecked Sendable {
  private let monitor = Monitor()
  private var isOpen = false  // protected by `monitor`

  func open() {
    monitor.lock()
    isOpen = true
    monitor.broadcast()
    monitor.unlock()
  }

  func wait() {
    monitor.lock()
    while !isOpen { monitor.wait() }
    monitor.unlock()
  }
}
