import Glibc
import Synchronization

/// A thread that does for the monitor what may wait for other threads: it starts threads. `pthread_create()`
/// takes locks, of the C library and of the kernel, whose holders may be threads of no class. While those of
/// the real-time foreground use every CPU, only the monitor can let such a holder run: it must wait for none.
///
/// Used by one thread, the monitor's. The steps run one after the other, in the order in which they came.
final class WaitingThread: @unchecked Sendable {
  // Sendable: inbox, semaphore and flag are thread-safe.
  private let inbox: Inbox<() -> Void>
  private let given: UnsafeMutablePointer<sem_t>
  private let isOver = Atomic<Bool>(false)

  /// nil where memory is short.
  init?() {
    guard let inbox = Inbox<() -> Void>() else { return nil }
    self.inbox = inbox
    given = .allocate(capacity: 1)
    given.initialize(to: sem_t())
    sem_init(given, 0, 0)
  }

  deinit {
    sem_destroy(given)
    given.deallocate()
  }

  /// Starts the thread. It ends after `end()`. Returns 0, or a negative `errno`.
  func start(_ name: String, by starter: ThreadStarter) -> Int32 {
    let result = starter(
      name, 256 << 10,
      { Unmanaged<WaitingThread>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(self).toOpaque())
    if result != 0 { Unmanaged.passUnretained(self).release() }
    return result
  }

  /// Has the thread do this. Never waits: `sem_post()` is an atomic addition and a wake-up. Returns false
  /// where memory is short; then it is not done.
  func give(_ body: @escaping () -> Void) -> Bool {
    guard inbox.push(body) else { return false }
    sem_post(given)
    return true
  }

  /// The thread ends once it has done all that it was given.
  func end() {
    isOver.store(true, ordering: .releasing)  // see run()
    sem_post(given)
  }

  private func run() {
    while true {
      while sem_wait(given) != 0 {}  // a signal may interrupt the wait
      // acquiring: pairs with end(), which follows all that was given.
      let isLast = isOver.load(ordering: .acquiring)
      for step in inbox.fetch() { step() }
      if isLast { return }
    }
  }
}
