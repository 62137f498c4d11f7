import Foundation
import Opportune

typealias Request = @Sendable () -> Void

/// Where a server runs its requests. Reads run beside each other, writes one after the other. Both return at
/// once; `finish` after all has been answered.
protocol Requests {
  func read(_ body: @escaping Request) throws
  func write(_ body: @escaping Request) throws
  func finish()
}

/// Requests as jobs of a foreground app.
struct ForegroundRequests: Requests {
  private let app: App
  private let writes: Strand
  private let open = DispatchGroup()

  init(_ app: App) throws {
    self.app = app
    writes = try app.makeStrand(named: "writes")
  }

  func read(_ body: @escaping Request) throws {
    open.enter()
    try app.submit { [open] in
      body()
      open.leave()
    }
  }

  func write(_ body: @escaping Request) throws {
    open.enter()
    try writes.submit { [open] in
      body()
      open.leave()
    }
  }

  func finish() { open.wait() }
}

/// Requests in threads, as a server has them that knows nothing of Opportune: a pool for reads, a thread for
/// writes.
struct ThreadRequests: Requests {
  private let reads: ThreadPool
  private let writes = ThreadPool(threads: 1)

  init(threads: Int) { reads = ThreadPool(threads: threads) }

  func read(_ body: @escaping Request) { reads.submit(body) }
  func write(_ body: @escaping Request) { writes.submit(body) }

  func finish() {
    reads.finish()
    writes.finish()
  }
}

/// Threads that take from one queue.
final class ThreadPool: @unchecked Sendable {
  // Guarded by the condition's lock.
  private let condition = NSCondition()
  private var queue: [Request] = []
  private var head = 0
  private var isFinished = false
  private let threads = DispatchGroup()

  init(threads count: Int) {
    for _ in 0..<count {
      threads.enter()
      Thread.detachNewThread {
        while let request = self.next() { request() }
        self.threads.leave()
      }
    }
  }

  func submit(_ request: @escaping Request) {
    condition.withLock {
      queue.append(request)
      condition.signal()
    }
  }

  /// Ends the threads once the queue is empty.
  func finish() {
    condition.withLock {
      isFinished = true
      condition.broadcast()
    }
    threads.wait()
  }

  private func next() -> Request? {
    condition.withLock {
      while head == queue.count {
        if isFinished { return nil }
        condition.wait()
      }
      defer {
        head += 1
        if head == queue.count { (queue, head) = ([], 0) }
      }
      return queue[head]
    }
  }
}
