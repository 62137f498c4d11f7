import Foundation
import OpportuneFuzz
import OpportuneScheduler

/// An executor that runs its tasks' jobs on the thread that calls it, one after the other. So a property's
/// actions follow from its input, and only the code under test has threads.
///
/// `@unchecked Sendable`: the list is guarded by `condition`.
final class Hand: TaskExecutor, @unchecked Sendable {
  /// Seconds that anything may take.
  private let patience: Double
  private let condition = NSCondition()
  private var jobs: [UnownedJob] = []
  private var first = 0

  init(patience: Double) { self.patience = patience }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    condition.lock()
    jobs.append(job)
    condition.signal()
    condition.unlock()
  }

  /// Runs what is there, and what comes of it.
  func run() {
    while let job = next(until: nil) { job.runSynchronously(on: asUnownedTaskExecutor()) }
  }

  /// Runs what comes until `isThere`, which is asked again after `meanwhile` every millisecond. False where
  /// patience ends before.
  func run(until isThere: () -> Bool, meanwhile: () -> Void = {}) -> Bool {
    let end = Date(timeIntervalSinceNow: patience)
    while true {
      run()
      if isThere() { return true }
      meanwhile()
      let now = Date()
      if now > end { return false }
      if let job = next(until: now.addingTimeInterval(0.001)) {
        job.runSynchronously(on: asUnownedTaskExecutor())
      }
    }
  }

  private func next(until limit: Date?) -> UnownedJob? {
    condition.lock()
    defer { condition.unlock() }
    while first == jobs.count {
      guard let limit, condition.wait(until: limit) else { return nil }
    }
    let job = jobs[first]
    first += 1
    if first == jobs.count {
      jobs.removeAll(keepingCapacity: true)
      first = 0
    }
    return job
  }

  /// Starts a task whose jobs run here, up to its first wait.
  @discardableResult
  func start<Success: Sendable>(_ body: @escaping @Sendable () async -> Success) -> Task<Success, Never> {
    let task = Task(executorPreference: self) { await body() }
    run()
    return task
  }

  /// What `body` returns, or nil where patience ends before.
  func wait<Success: Sendable>(
    meanwhile: () -> Void = {}, for body: @escaping @Sendable () async -> Success
  ) -> Success? {
    let box = Box<Success>()
    start { box.value = await body() }
    return run(until: { box.value != nil }, meanwhile: meanwhile) ? box.value : nil
  }

  /// - Throws: ``Violation`` where the shutdown fails, or patience ends before it.
  func shutDown(_ scheduler: Scheduler) throws(Violation) {
    let problem = wait { () -> String? in
      do {
        try await scheduler.shutdown()
        return nil
      } catch { return "\(error)" }
    }
    guard let problem else { throw Violation("the shutdown does not return in time") }
    if let problem { throw Violation("the shutdown fails: \(problem)") }
  }

  /// Keeps the calling thread busy.
  static func spin(microseconds: Int64) {
    let end = ContinuousClock.now + .microseconds(microseconds)
    while ContinuousClock.now < end {}
  }

  /// `@unchecked Sendable`: only the thread that runs the hand touches it.
  private final class Box<Value>: @unchecked Sendable { var value: Value? }
}
