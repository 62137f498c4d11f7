public import Glibc

/// A mutex of the C library's. Where the thread sanitizer looks it stands for `Synchronization.Mutex`, which
/// the sanitizer does not understand.
@usableFromInline
package struct Lock: ~Copyable, @unchecked Sendable {
  // Sendable: a mutex is made to be shared, and this one stays at its address.
  /// For a condition variable.
  @usableFromInline package let mutex: UnsafeMutablePointer<pthread_mutex_t>

  @inlinable
  package init() {
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  /// - Parameter body: may not take the lock again.
  @inlinable
  package borrowing func withLock<Result, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body()
  }
}
