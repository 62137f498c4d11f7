import Glibc

/// A FIFO of jobs under a mutex, with a condition variable for those who wait for one.
final class JobQueue: @unchecked Sendable {
  private let monitor = Monitor()
  // Protected by `monitor`: a ring that doubles when full.
  private var ring: [Job?] = Array(repeating: nil, count: 256)
  private var head = 0
  private var count = 0
  private var waiting = 0
  private var isClosed = false

  /// Appends a job; wakes a thread only where one sleeps. False once closed.
  func push(_ job: @escaping Job) -> Bool {
    let (isAccepted, wakes) = monitor.withLock {
      guard !isClosed else { return (false, false) }
      if count == ring.count { grow() }
      ring[(head + count) & (ring.count - 1)] = job
      count += 1
      return (true, waiting > 0)
    }
    if wakes { monitor.signal() }
    return isAccepted
  }

  /// The oldest job; sleeps while there is none. Nil once closed and empty.
  func pop() -> Job? {
    monitor.withLock {
      while count == 0 {
        if isClosed { return nil }
        waiting += 1
        monitor.wait()
        waiting -= 1
      }
      let job = ring[head]
      ring[head] = nil
      head = (head + 1) & (ring.count - 1)
      count -= 1
      return job
    }
  }

  func close() {
    monitor.withLock {
      isClosed = true
      monitor.broadcast()
    }
  }

  private func grow() {
    var larger: [Job?] = Array(repeating: nil, count: ring.count * 2)
    for index in 0..<count { larger[index] = ring[(head + index) & (ring.count - 1)] }
    ring = larger
    head = 0
  }
}

/// One queue with threads of one kernel class.
final class ThreadPool: Sendable {
  private let queue = JobQueue()
  private let threads: [SystemThread]

  init(named name: String, threads count: Int, kernelClass: KernelClass) throws(BenchError) {
    var started: [SystemThread] = []
    let queue = self.queue
    do throws(BenchError) {
      for index in 0..<count {
        started.append(
          try SystemThread(named: "\(name)-\(index)", kernelClass: kernelClass) {
            while let job = queue.pop() { job() }
          })
      }
    } catch {
      queue.close()
      for thread in started { thread.join() }
      throw error
    }
    threads = started
  }

  func submit(_ job: @escaping Job) -> Bool { queue.push(job) }

  /// Runs what is queued, then ends the threads.
  func shutDown() {
    queue.close()
    for thread in threads { thread.join() }
  }
}

/// What the kernel gives without any scheduler: plain queues, foreground threads of one class over background
/// threads at `SCHED_IDLE`. Each class has a queue of its own, so no foreground thread takes a lock that a
/// background thread may hold.
final class LimitContender: Contender, @unchecked Sendable {
  let name: String
  let lockFreeNote = "no: mutex and condition variable per class"

  private let foregroundClass: KernelClass
  private let spareThreads: Int
  private let isTold: Bool
  // Written by start() before any thread of the bench sees the contender, never again until stop().
  private var foreground: ThreadPool?
  private var background: ThreadPool?
  private var hogs: ThreadPool?

  /// - Parameters:
  ///   - spareThreads: foreground threads beyond one per core.
  ///   - isTold: hogs go to a queue and `SCHED_IDLE` threads of their own: an upper bound that is told the
  ///     answer.
  init(name: String, foreground: KernelClass, spareThreads: Int = 0, isTold: Bool = false) {
    self.name = name
    self.foregroundClass = foreground
    self.spareThreads = spareThreads
    self.isTold = isTold
  }

  func start(_ setup: ContenderSetup) throws {
    foreground = try ThreadPool(
      named: "fg", threads: setup.cores + spareThreads, kernelClass: foregroundClass)
    background = try ThreadPool(named: "bg", threads: setup.cores, kernelClass: .idle)
    if isTold { hogs = try ThreadPool(named: "hog", threads: setup.cores, kernelClass: .idle) }
  }

  func stop() async {
    foreground?.shutDown()
    hogs?.shutDown()
    background?.shutDown()
  }

  func submitForeground(_ job: @escaping Job) -> Bool { foreground?.submit(job) ?? false }
  func submitBackground(_ job: @escaping Job) -> Bool { background?.submit(job) ?? false }
  func submitForegroundHog(_ job: @escaping Job) -> Bool { (hogs ?? foreground)?.submit(job) ?? false }
}

/// A thread for every job: the kernel is the only scheduler.
final class ThreadPerJobContender: Contender {
  let name = "thread-per-job"
  let lockFreeNote = "no queue: the kernel's"

  func submitForeground(_ job: @escaping Job) -> Bool {
    SystemThread.launch(named: "job-fg", job) == 0
  }

  func submitBackground(_ job: @escaping Job) -> Bool {
    SystemThread.launch(named: "job-bg") {
      _ = KernelClass.idle.applyToCaller()
      job()
    } == 0
  }
}
