import COpportune
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A flag that one thread sets and others read, or spin for. Spinning uses the CPU, like a hog.
final class Flag: Sendable {
  private let up = Atomic<Bool>(false)

  var isUp: Bool { up.load(ordering: .acquiring) }
  func raise() { up.store(true, ordering: .releasing) }

  /// Returns when the flag is up; else the test fails, and goes on.
  @discardableResult func spin(sourceLocation: SourceLocation = #_sourceLocation) -> Bool {
    let isUp = OpportuneSchedulerTests.spin { self.isUp }
    if !isUp { Issue.record("nobody has raised the flag", sourceLocation: sourceLocation) }
    return isUp
  }
}

/// Spins until `holds` does; false where that takes so long that it never will: then the caller's test has
/// failed.
func spin(_ holds: () -> Bool) -> Bool {
  let end = opp_now_ns() + 60_000_000_000
  while !holds() {
    if opp_now_ns() > end { return false }
    opp_pause()
  }
  return true
}

/// What a scheduler says to its logger.
final class LogLines: Sendable {
  struct Line: Sendable {
    let level: Logger.Level
    let message: String
    let metadata: [String: String]
    /// The kernel's name of the thread that was told.
    let thread: String
  }

  let record = Record<Line>()
  var lines: [Line] { record.values }
  var logger: Logger {
    Logger(telling: { [record] event in
      let thread = (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) ?? ""
      record.add(
        Line(
          level: event.level, message: "\(event.message)",
          metadata: (event.metadata ?? [:]).mapValues { "\($0)" },
          thread: thread))
    })
  }
}

/// A thread of a scheduler that says when it has ended.
final class CountedThread: @unchecked Sendable {
  typealias Body = @convention(c) (UnsafeMutableRawPointer?) -> Void
  // Written before the thread begins.
  private let body: Body
  private let context: UnsafeMutableRawPointer
  private let hasEnded: @Sendable () -> Void

  private init(
    _ body: @escaping Body, _ context: UnsafeMutableRawPointer, _ hasEnded: @escaping @Sendable () -> Void
  ) {
    (self.body, self.context, self.hasEnded) = (body, context, hasEnded)
  }

  /// Takes the place of `opp_thread_start()`.
  static func start(
    _ name: String, _ stack: Int, _ body: @escaping Body, _ context: UnsafeMutableRawPointer,
    _ hasEnded: @escaping @Sendable () -> Void
  ) -> Int32 {
    let thread = Unmanaged.passRetained(CountedThread(body, context, hasEnded))
    return opp_thread_start(
      name, stack,
      { pointer in
        guard let pointer else { return }
        let thread = Unmanaged<CountedThread>.fromOpaque(pointer).takeRetainedValue()
        thread.body(thread.context)
        thread.hasEnded()
      }, thread.toOpaque())
  }
}

extension App {
  /// Has so many workers inside jobs of the app's until the flag is raised; returns when they are.
  func hold(jobs: Int = 1) async throws -> Flag {
    let (begun, release) = (Record<Bool>(), Flag())
    for _ in 0..<jobs {
      try submit {
        begun.add(true)
        release.spin()
      }
    }
    _ = await begun.reaching(jobs)
    return release
  }
}

/// How many are inside something, and the most that there were.
final class Gauge: Sendable {
  private let now = Atomic<Int>(0)
  private let most = Atomic<Int>(0)

  func enter() {
    let count = now.add(1, ordering: .relaxed).newValue
    most.max(count, ordering: .relaxed)
  }

  func leave() { now.subtract(1, ordering: .relaxed) }

  var maximum: Int { most.load(ordering: .relaxed) }
}

/// A list that grows from any thread, and that tasks wait for.
final class Record<Element: Sendable>: @unchecked Sendable {
  private let lock = NSLock()
  private var list: [Element] = []
  private var waiters: [(count: Int, awaited: Awaited)] = []

  func add(_ element: Element) {
    let ready = lock.withLock {
      list.append(element)
      let ready = waiters.filter { $0.count <= list.count }
      waiters.removeAll { $0.count <= list.count }
      return ready
    }
    for waiter in ready { waiter.awaited.tell() }
  }

  var values: [Element] { lock.withLock { list } }
  var count: Int { lock.withLock { list.count } }

  /// Waits until the list has `count` elements, and returns it; where that takes too long the test fails, and
  /// goes on.
  func reaching(_ count: Int, sourceLocation: SourceLocation = #_sourceLocation) async -> [Element] {
    let awaited = Awaited()
    let isThere = lock.withLock {
      if list.count < count { waiters.append((count, awaited)) }
      return list.count >= count
    }
    if !isThere, await !awaited.wait() {
      Issue.record("\(self.count) came, not \(count)", sourceLocation: sourceLocation)
    }
    return values
  }
}

/// How many numbers come after a greater one. Jobs that start in order may end out of it where a second
/// worker, the spare one, came for a while because the first was not given the CPU; then it is a few of
/// hundreds.
func lateOnes(_ numbers: [Int]) -> Int {
  var greatest = Int.min
  return numbers.reduce(0) { late, number in
    greatest = max(greatest, number)
    return number < greatest ? late + 1 : late
  }
}

/// Uses so many milliseconds of CPU time.
func spinCPU(milliseconds: UInt64) { spinCPU(microseconds: milliseconds * 1000) }

/// Uses so many microseconds of CPU time.
func spinCPU(microseconds: UInt64) {
  let end = SystemClock.threadCPU() + microseconds * 1000
  while SystemClock.threadCPU() < end {}
}

/// Runs `body` on a thread of its own and waits for its end, its thread-local storage included.
func onThread(_ body: @escaping @Sendable () -> Void) async {
  final class Box: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  await withCheckedContinuation { continuation in
    DispatchQueue.global().async {
      var thread = pthread_t()
      let context = Unmanaged.passRetained(Box(body)).toOpaque()
      let result = pthread_create(
        &thread, nil,
        { context in
          context.map { Unmanaged<Box>.fromOpaque($0).takeRetainedValue().body() }
          return nil
        }, context)
      precondition(result == 0)
      pthread_join(thread, nil)
      continuation.resume()
    }
  }
}

/// Calls a closure when the calling thread ends, from the destructor of its thread-local storage.
final class ThreadEnd: Sendable {
  private final class Box: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  private let key: pthread_key_t

  init() {
    var key = pthread_key_t()
    let result = pthread_key_create(&key) { pointer in
      pointer.map { Unmanaged<Box>.fromOpaque($0).takeRetainedValue().body() }
    }
    precondition(result == 0)
    self.key = key
  }

  deinit { pthread_key_delete(key) }

  func atEnd(_ body: @escaping @Sendable () -> Void) {
    pthread_setspecific(key, Unmanaged.passRetained(Box(body)).toOpaque())
  }
}

extension SchedulerConfiguration {
  init(workers: Int, _ change: (inout Self) throws -> Void = { _ in }) rethrows {
    self.init()
    self.workers = .fixed(workers)
    try change(&self)
  }
}

extension Logger {
  static var silent: Logger { Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }) }
}

/// For tests that replace what a scheduler asks the kernel for.
extension Engine {
  func makeApp(named name: String, band: Band) throws -> App {
    let core = try AppCore(engine: self, name: name, band: band)
    monitor.post(.added(core.record))
    return App(core: core)
  }

  /// Shuts down; nothing may be left.
  func end() async {
    #expect(beginDraining())
    let stuck = await withCheckedContinuation { monitor.post(.shutDown(within: .seconds(60), $0)) }
    #expect(stuck.isEmpty)
  }
}

func makeScheduler(
  workers: Int, quantum: QuantumPolicy = QuantumPolicy(), spareDelay: Duration = .microseconds(500),
  background: BackgroundClass = .idle, overlap: OverlapClass = .nice19
) throws -> Scheduler {
  try Scheduler(
    configuration: SchedulerConfiguration(workers: workers) {
      $0.name = "test"
      ($0.quantum, $0.spareDelay) = (quantum, spareDelay)
      ($0.backgroundClass, $0.overlapClass) = (background, overlap)
    })
}

/// A scheduler, and an app of it.
func makeApp(
  named name: String, band: Band = .foreground, workers: Int, quantum: QuantumPolicy = QuantumPolicy(),
  spareDelay: Duration = .microseconds(500), background: BackgroundClass = .idle,
  overlap: OverlapClass = .nice19
) throws -> (scheduler: Scheduler, app: App) {
  let scheduler = try makeScheduler(
    workers: workers, quantum: quantum, spareDelay: spareDelay, background: background, overlap: overlap)
  return (scheduler, try scheduler.makeApp(named: name, band: band))
}

/// Whether the caller runs on a worker of that pool, by the name of its thread.
func isOnWorker(of pool: WorkerPool) -> Bool {
  let name = (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) ?? ""
  let pools: [WorkerPool: String] = [.background: "-bg", .foreground: "-fg", .realTime: "-rt"]
  return pools[pool].map { name.contains($0) } ?? false
}

/// How much longer stress tests run: OPPORTUNE_STRESS, 1 by default, 1 to 1000.
let stressScale: Int = {
  let asked = ProcessInfo.processInfo.environment["OPPORTUNE_STRESS"].flatMap { Int($0) } ?? 1
  return min(max(1, asked), 1000)
}()

/// ThreadSanitizer and AddressSanitizer cost time and memory: there a part of it is enough.
let isSanitized = isThreadSanitized || dlsym(nil, "__asan_init") != nil

let isThreadSanitized = dlsym(nil, "__tsan_init") != nil

/// `SCHED_IDLE`, which the C library's module leaves out.
let schedIdle: Int32 = 5

let isRoot = geteuid() == 0

/// What the tests were started with, which foreground work keeps.
let processNice = getpriority(__priority_which_t(PRIO_PROCESS.rawValue), UInt32(getpid()))

/// Runs a job at once, where it is queued.
final class CallersThread: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    job.runSynchronously(on: asUnownedTaskExecutor())
  }
}

/// A count that several threads keep.
final class Tally: Sendable {
  private let value = Atomic<Int>(0)

  @Sendable func increment() { add(1) }
  // relaxed: it orders nothing, and so hides no race from ThreadSanitizer.
  @discardableResult func add(_ amount: Int) -> Int { value.add(amount, ordering: .relaxed).newValue }
  var count: Int { value.load(ordering: .relaxed) }
}

/// The nice value of the calling thread.
func niceValue() -> Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), UInt32(opp_thread_id())) }
